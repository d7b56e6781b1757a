"""The alignment curve gives the learning curve, and not that of another representation."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS
from companion.studies.representation_alignment.sec6_backwards import reading
from companion.studies.representation_alignment.shared.linear_descent import descend
from tests import judging

GRID = np.linspace(0, 1, 41)
STEPS = np.unique(np.geomspace(1, 1000, 30).round().astype(int))


def run(seed, representation, scale):
    """Rows as of Figure 13: alignment of random features, and a learning curve that is run step by step.

    scale : of the singular values; above 1 aligned, well below it slow
    """
    n = 60
    draw = np.random.default_rng(seed)
    left = np.linalg.qr(draw.standard_normal((n, n)))[0]
    singular = np.sqrt(n) * np.geomspace(1, 0.03, n) * scale
    y = np.sign(draw.standard_normal(n))
    gains = np.square(left.T @ y) / n
    loss, _ = descend(left * singular / np.sqrt(n), y, [1.0], STEPS[-1])
    curve = [(singular >= level * np.sqrt(n)) @ gains for level in GRID]
    tables = [
        pd.DataFrame({"kind": "area", "area": singular @ gains / np.sqrt(n)}, index=[0]),
        pd.DataFrame({"kind": "curve", "threshold": GRID, "alignment": curve}),
        pd.DataFrame(
            {"kind": "step", "loss": "squared", "step_size": 1.0, "step": STEPS, "train": loss[STEPS, 0] / n}
        ),
    ]
    return pd.concat(tables).assign(representation=representation, dataset="cifar10", seed=seed)


@pytest.fixture(scope="module")
def table():
    return pd.concat(
        run(seed, name, scale) for seed in range(8) for name, scale in (("hog", 0.9), ("sift", 0.5))
    )


_, outcomes = judging.of(reading)


def test_the_curve_gives_the_loss(table):
    rows = reading.resolved(table)
    assert len(rows) and (rows["smooth"] - rows["loss"]).abs().mean() < 0.02
    assert (rows["low"] <= rows["smooth"] + 1e-12).all() and (rows["smooth"] <= rows["high"] + 1e-12).all()
    assert outcomes(table)["smooth"] == HOLDS


def test_the_curve_of_another_representation_does_not(table):
    curves = table["kind"] == "curve"
    mixed = table.copy()
    mixed.loc[curves, "representation"] = table.loc[curves, "representation"].map(
        {"hog": "sift", "sift": "hog"}
    )
    assert outcomes(mixed)["smooth"] == CONTRADICTED


def test_order_by_threshold_and_by_area(table):
    both = pd.concat([table, table.assign(dataset="cifar100")])
    assert outcomes(both)["better"] != HOLDS  # one curve lies above the other
    wrong = both.copy()
    areas = (wrong["kind"] == "area") & (wrong["seed"] > 0)
    wrong.loc[areas, "area"] = -wrong.loc[areas, "area"]
    assert outcomes(wrong)["better"] == HOLDS
