import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN, OPEN
from companion.studies.transferability.shared.deviations import ends, printed
from companion.studies.transferability.shared.targets import STARTS, named
from companion.studies.transferability.shared.tuned import recorded, target, tuned
from companion.studies.transferability.tab01_weight_deviation import experiment as tab01, reading
from tests import judging

PARAMETERS = judging.given(
    "transferability/tab01_weight_deviation", examples=35, batch_size=16, epochs=2, decay_epochs=[1]
)
TARGETS = {"cifar10": 60, "cifar10-natural": 50, "shapes": 30, "mnist": 10, "fashion_mnist": 20}


def made(deviation=lambda error: error / 10, path=lambda share: 1 - (1 - share) ** 8, weights=None):
    """A table as of all jobs: test errors by target, the deviation a function of them, along ``path``."""
    table = judging.rows(
        noise=0.01,
        setting=[*reading.SETTINGS],
        target=[*TARGETS],
        seed=range(4),
        step=list(recorded(240)),
        deviation=lambda row: (
            deviation(TARGETS[row.target]) * path(row.step / 240) * (1 + row.seed * len(row.target) / 1000)
        ),
        classifier=lambda row: "two-layer" if row.setting == "fixed" else "linear",
        test_error=lambda row: TARGETS[row.target] * (1 + row.noise),
        train_error=0.0,
        weights=weights,
    )
    return table.join(pd.DataFrame([named(name) for name in table.pop("target")]))


def granular(one=1, other=1, seeds=4):
    """A table as of Appendix B.3: nine targets, deviations that follow the errors from pre-trained weights
    (where ``one`` is 1) and from random ones (``other``).
    """
    noise, rows = np.random.default_rng(1), []
    for seed, start, kind, draw in itertools.product(range(seeds), STARTS, "abc", range(3)):
        error = noise.uniform(10, 50)
        sign = one if start == "pretrained" else other
        rows.append({"seed": seed, "start": start, "kind": kind, "draw": draw, "test_error": error})
        rows[-1]["deviation"] = error**sign * noise.uniform(0.8, 1.2)
    return pd.DataFrame(rows)


_, outcomes = judging.of(reading, PARAMETERS)


@pytest.fixture
def beside(monkeypatch):
    """Set what Appendix B.3 has stored."""
    return lambda rows: monkeypatch.setattr(reading, "_granularity", lambda: rows)


def test_a_fine_tuned_job_measures_what_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path))
    job = tab01.fine_tuned_jobs("photos-natural", PARAMETERS)[0]
    table = judging.compute(job)
    assert table["step"].tolist() == recorded(4) == [0, 1, 2, 3, 4]
    found = tuned(**job.arguments | {"decay_at": (2,)}, start="pretrained", record=recorded(4))
    before, after = found.before.state_dict(), found.after.state_dict()
    norms = {name: float((after[name] - w).double().norm()) for name, w in before.items() if w.ndim > 1}
    assert table["deviation"].iloc[0] == 0
    assert table["deviation"].iloc[-1] == pytest.approx(sum(norms.values()) / math.sqrt(35), rel=1e-5)
    assert table["head"].iloc[-1] == pytest.approx(norms["head.weight"] / math.sqrt(35), rel=1e-5)
    assert table["head"].iloc[:-1].isna().all()
    x, y, x_test, y_test, classes = target("photos", 35, 0, "natural")
    assert classes == 5 and len(x) == 35
    for error, images, labels in (("train_error", x, y), ("test_error", x_test, y_test)):
        wrong = (found.after(images).argmax(1) != labels).double().mean()
        assert table[error].iloc[-1] == pytest.approx(100 * float(wrong), abs=0.2)


def test_the_classifier_is_that_of_the_appendix():
    net = tab01._classifier("two-layer", 6, 7, 3, torch.Generator().manual_seed(0))
    first, norm, act, last = list(net)[1:]
    x = torch.randn(5, 6, 1, 1, generator=torch.Generator().manual_seed(1))
    flat = x[:, :, 0, 0] @ first.weight.T + first.bias
    flat = (flat - flat.mean(0)) / (flat.var(0, unbiased=False) + norm.eps).sqrt()
    plain = torch.where(flat > 0, flat, 0.01 * flat) @ last.weight.T + last.bias
    torch.testing.assert_close(net.train()(x), plain)
    assert first.weight.abs().max() <= 1 / math.sqrt(6) and last.weight.abs().max() <= 1 / math.sqrt(7)
    other = tab01._classifier("two-layer", 6, 7, 3, torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


def test_the_printed_tables_own_correlations():
    ranks = {"fixed": ([1, 4, 3, 2, 5], [3, 4, 2, 1, 5]), "fine-tuned": ([1, 4, 3, 2, 5], [2, 5, 3, 1, 4])}
    for setting, (errors, deviations) in ranks.items():
        plain = 1 - 6 * sum((a - b) ** 2 for a, b in zip(errors, deviations, strict=True)) / (5 * 24)
        assert reading.printed_in(reading.ordering)(PARAMETERS, setting) == pytest.approx(plain)
    ratio = (0.096 / 0.45) / (0.165 / 24.2)
    assert 1 / reading.printed_in(reading.proportion)(PARAMETERS, "fixed") == pytest.approx(ratio)
    assert (printed("fine-tuned")["train_error"] <= 0.15).all() and len(printed("fixed")) == 5


def test_measures_against_plain_ones():
    path = {"cifar10": {0: 0.0, 2: 3.0, 4: 4.0}, "mnist": {0: 0.0, 2: 4.0, 4: 2.0}}
    rows = judging.rows(
        seed=0, target=[*path], step=[0, 2, 4], deviation=lambda row: path[row.target][row.step]
    )
    assert reading.smallest_rise(rows)[0] == pytest.approx(-100)
    assert reading.farther(ends(rows))[0] == pytest.approx(1 - 2)
    assert reading.farther(rows[(rows["target"] == "mnist") & (rows["step"] == 4)]).empty
    assert reading.apart(ends(rows), "deviation")[0] == 2


@pytest.mark.parametrize(
    ("one", "other", "found"), [(1, 1, (HOLDS, NO_EFFECT)), (-1, 1, (CONTRADICTED,) * 2)]
)
def test_the_order_of_nine_targets_comes_out_either_way(beside, one, other, found):
    beside(granular(one, other, seeds=30))
    claims = outcomes(made())
    assert claims["ordering"] == found[0]
    assert claims["more-than-scratch"] in (found[1], OPEN)
    assert claims["proportional"] == (HOLDS if one == 1 else CONTRADICTED)


@pytest.mark.parametrize(("sign", "outcome"), [(1, CONTRADICTED), (-1, HOLDS)])
def test_nearness_comes_out_either_way(beside, sign, outcome):
    beside(None)
    table = pd.concat([made(lambda error: error**sign), made(lambda error: error**sign, weights="imagenet")])
    found = outcomes(table)
    assert found["ordering"] == NOT_RUN
    # The near ones err more.
    assert {found[id] for id in found if id.startswith("nearer")} == {outcome}
    assert outcomes(made(lambda error: 1.0))["nearer-own"] == NO_EFFECT


def test_paths_that_fall_are_not_monotone(beside):
    beside(None)
    rough = np.random.default_rng(1)
    assert outcomes(made(path=lambda share: share * rough.uniform(0.999, 1.001)))["monotone"] == HOLDS
    falling = made(path=lambda share: math.sin(2.5 * share) * rough.uniform(0.999, 1.001))
    assert outcomes(falling)["monotone"] == CONTRADICTED
