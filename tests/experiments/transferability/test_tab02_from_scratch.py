import pandas as pd
import pytest
import torch

from alignbook.errors import AlignbookError
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.runs import notebooks, parameters
from companion.runs.run import load
from companion.studies.transferability.fig04_tsne import reading as fig04
from companion.studies.transferability.shared import imagenet_rows
from companion.studies.transferability.shared.fine_tuned import fine_tuned
from companion.studies.transferability.shared.targets import named
from companion.studies.transferability.tab01_weight_deviation import experiment as tab01
from companion.studies.transferability.tab02_from_scratch import experiment as tab02, reading
from tests import judging

PARAMETERS = dict(
    targets=["cifar10", "mnist"], source="photos", pretrain_epochs=1, pretrain_images=128, width=8, blocks=1,
    examples=33, batch_size=16, learning_rate=0.01, scratch_rate=0.02, other_rate=0.1, rate_targets=["mnist"],
    epochs=1, decay_epochs=[1], seeds=3, source_accuracy=False,
)  # fmt: skip


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


def test_jobs_are_table_1s_and_those_from_scratch():
    jobs = tab02.jobs(PARAMETERS)
    first = {(u.name, str(u.arguments)) for u in jobs if u.compute is fine_tuned}
    values = PARAMETERS | {"hidden": 4, "fixed_rate": 0.1, "fixed_epochs": 1}
    imagenet = {"weights": "random", "targets": ["cifar10"], "examples": 33, "test_images": 8, "epochs": 1}
    imagenet |= {"seeds": 1}
    values |= {f"imagenet_{name}": value for name, value in imagenet.items()}
    assert first == {(u.name, str(u.arguments)) for u in tab01.jobs(values) if u.compute is fine_tuned}
    own = [u for u in jobs if u.compute is tab02.scratch]
    assert len(jobs) == 6 + 6 + 3 and len(own) == 9
    assert {(u.arguments["dataset"], u.arguments["learning_rate"]) for u in own} == {
        ("cifar10", 0.02),
        ("mnist", 0.02),
        ("mnist", 0.1),
    }
    assert not {"source", "pretrain_epochs"} & set(own[0].arguments)


def test_a_job_from_scratch_starts_at_random_and_needs_no_source(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    tables = []
    for job in tab02.jobs(PARAMETERS | {"targets": ["photos"], "rate_targets": ["photos"]}):
        if job.name in ("photos-scratch-0.02-seed0", "photos-scratch-0.02-seed1"):
            arguments = job.arguments | {"device": torch.device("cpu"), "report": lambda done, text: None}
            tables.append(job.compute(**arguments))
    assert len(list((tmp_path / ".checkpoints").glob("*.pt"))) == 2  # no source among them
    for table in tables:
        assert table["step"].tolist() == [0, 1, 2]
        assert table["deviation"].iloc[0] == 0 < table["head"].iloc[-1] < table["deviation"].iloc[-1]
        assert set(table["setting"]) == {"scratch"}
    assert tables[0]["deviation"].iloc[-1] != tables[1]["deviation"].iloc[-1]


def test_pairs_join_a_seed_with_itself():
    table = made()
    table.loc[(table["seed"] == 1) & (table["learning_rate"] == 0.02), "test_error"] = 80.0
    both = reading.pairs(table.sample(frac=1, random_state=0), 0.02)
    assert len(both) == 6
    by_hand = 100 * (1 - both["test_error"] / both["test_error_scratch"])
    assert both["improvement"].to_numpy() == pytest.approx(by_hand)
    assert ((both["test_error_scratch"] == 80) == (both["seed"] == 1)).all()
    assert both.loc[both["seed"] != 1, "improvement"].between(49, 51).all()


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


def test_the_head_s_part_of_the_deviation_and_the_ratio_without_it():
    table = made().assign(deviation=2.0, head=1.0)
    table.loc[table["setting"] == "scratch", "head"] = 0.5
    parts = reading.without_head(table, 0.02)
    assert {what: set(part) for what, part in parts.items()} == {
        "tuned": {50.0},
        "scratch": {25.0},
        "ratio": {1.5},
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate_targets", ["digits"]), ("other_rate", 0.01)],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/tab02_from_scratch")
    with pytest.raises(AlignbookError, match=name) as refused:
        tab02.jobs(parameters.resolve(book, "quick", {name: value}))
    assert "\n" not in str(refused.value)


def test_from_the_pre_trained_weights_the_ratio_would_be_larger_than_any_printed():
    """Why each deviation is from the network's own start; Figure 4 measures distances between minima."""
    run = load(notebooks.find("transferability/fig04_tsne"), "quick")
    ratio = 2 ** fig04.around(imagenet_rows.own(run.table), "pretrained")
    assert ratio.min() > 1.5 * reading.printed_pairs()["ratio"].max()
