import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.transferability.shared.targets import named
from companion.studies.transferability.tab02_from_scratch import reading
from tests import judging

PARAMETERS = {
    "targets": ["cifar10", "mnist"],
    "rate_targets": ["mnist"],
    "scratch_rate": 0.02,
    "other_rate": 0.1,
}


def made(gain=0.5, ratio=2.0):
    """Errors from scratch 40 and 20 (%), fine-tuned ``1 - gain`` of that; deviations 1 and ``ratio``.

    At the other rate MNIST has half the error, and the weights move ten times as far.
    """
    errors = {"cifar10": 40.0, "mnist": 20.0}
    common = {"seed": range(3), "classifier": "linear", "step": 5, "train_error": 0.0}
    own = judging.rows(
        noise=0.005, dataset=[*errors], **common, setting="fine-tuned", learning_rate=0.01,
        deviation=lambda row: 1 + row.noise,
        test_error=lambda row: errors[row.dataset] * (1 - gain) * row.deviation,
    )  # fmt: skip
    scratch = judging.rows(
        dataset=[*errors], learning_rate=[0.02, 0.1], **common, setting="scratch",
        deviation=lambda row: ratio if row.learning_rate == 0.02 else 10 * ratio,
        test_error=lambda row: errors[row.dataset] / (1 if row.learning_rate == 0.02 else 2),
    )  # fmt: skip
    scratch = scratch[(scratch["dataset"] == "mnist") | (scratch["learning_rate"] == 0.02)]
    table = pd.concat([own, scratch], ignore_index=True)
    return table.join(pd.DataFrame([named(name) for name in table["dataset"]]).drop(columns="dataset"))


claims, outcomes = judging.of(reading, PARAMETERS)


def test_which_printed_improvements_follow_from_the_printed_errors():
    printed = reading.printed_pairs().set_index("target")
    assert list(printed.index) == ["Webcam", "Stanford Cars", "Caltech-101", "CUB-200"]
    assert printed.loc["Stanford Cars", "improvement"] == pytest.approx(100 * (46.25 - 13.95) / 46.25)
    half = 0.005  # of the last digit that the tables print
    for row in printed.itertuples():
        # A training error that is 0 in all three runs is exact.
        moved = [
            100 * (1 - (row.test_error + a - row.train_error - c) / (row.test_error_scratch + b))
            - row.improvement
            for a in (-half, half)
            for b in (-half, half)
            for c in ((-half, half) if row.train_spread else (0,))
        ]
        assert max(map(abs, moved)) + half < reading.ROUNDING
    assert printed.loc["CUB-200", "improvement"] == pytest.approx(100 * (52.70 - (21.04 - 0.04)) / 52.70)
    off = (printed["improvement"] - printed["printed"]).abs()
    assert set(off.index[off > reading.ROUNDING]) == {"Stanford Cars"}
    claim = claims(made())["improvement"]
    assert claim.outcome == CONTRADICTED and claim.measured == pytest.approx(off.max())


@pytest.mark.parametrize(
    ("gain", "ratio", "outcome"), [(0.7, 2, HOLDS), (0.0, 1.0, NO_EFFECT), (-0.5, 0.5, CONTRADICTED)]
)
def test_both_comparisons_come_out_either_way(gain, ratio, outcome):
    found = outcomes(made(gain, ratio))
    assert found["error"] == found["deviation"] == outcome
    assert found["error-other"] == (HOLDS if gain == 0.7 else CONTRADICTED)  # half the error from scratch


def test_every_target_counts():
    unsure = made()
    rows = (unsure["dataset"] == "mnist") & (unsure["setting"] == "fine-tuned")
    unsure.loc[rows, "test_error"] = [1.0, 10.0, 39.0]
    assert outcomes(unsure)["error"] == OPEN


@pytest.mark.parametrize(("longer", "outcome"), [(2.0, HOLDS), (0.5, CONTRADICTED)])
def test_relative_to_the_length_figure_4s_networks_count(monkeypatch, longer, outcome):
    norms = {"pretrained": longer, "random, its own": 1.0}
    table = judging.rows(
        dataset="mnist", part="all", seed=range(3), start=[*norms], norm=lambda row: norms[row.start],
        moved=lambda row: 1 + 0.01 * row.seed * row.norm,
    )  # fmt: skip
    monkeypatch.setattr(reading, "_positions", lambda: table)
    assert outcomes(made())["relative"] == outcome
