"""Paired units: outputs that start at zero, and statements that can come out either way."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.sec6_doubled_units import experiment, reading
from companion.studies.transferability.sec6_doubled_units.design import STARTS
from tests import judging

GIVEN = judging.given("transferability/sec6_doubled_units", "quick", datasets=["mnist"])


def made_up(off, change=1.0, exponent=-0.5):
    """Ratios off by ``off`` {start: ln} at the smallest width, by width to the power ``exponent`` later."""
    terms = {"rotated": -0.2, "flipped": 0.8, "scratch": 0.0}
    return judging.rows(
        dataset="mnist",
        seed=range(4),
        start=[*STARTS],
        width=[256, 1024, 4096],
        family=[*terms],
        step=0.0,
        miss=lambda row: off[row.start] * (row.width / 256) ** (exponent + 0.01 * row.seed),
        bound=2.0,
        deviation=lambda row: 2 * np.exp(row.miss),
        term=lambda row: terms[row.family],
        change=lambda row: row.term * change * (1 + 0.001 * row.seed),
    )


_, outcomes = judging.of(reading, GIVEN)


def test_statements_hold_and_fail():
    close = {"doubled": 0.04, "small": 0.4, "large": 0.8}
    assert set(outcomes(made_up(close)).values()) == {HOLDS}
    far = outcomes(made_up({"doubled": 0.8, "small": 0.4, "large": 0.8001}, change=0.5, exponent=0.2))
    assert set(far.values()) == {CONTRADICTED}
    assert outcomes(made_up({"doubled": 0.8, "small": 0.8001, "large": 2}))["farther"] == NO_EFFECT


def test_pairs_of_units_reach_the_bound():
    asked = judging.given("transferability/sec6_doubled_units", widths=[2048], tolerance=1e-3, steps=5000)
    rows = reading.ratios(judging.compute(experiment.jobs(asked)[0]))
    off = rows.groupby("start")["off"].max()
    assert off["doubled"] < 0.03 < off["large"]
    # From outputs of zero the squared gradient is |y|² at first, so that it can fall by no more.
    paired = rows[rows["start"] == "doubled"]
    assert (paired["change"] >= -1).all() and (paired["change"] - paired["term"]).abs().max() < 0.05
    assert (paired.loc[paired["family"] == "scratch", "change"] == 0).all()


def test_the_coefficient_is_a_slope_through_the_origin():
    table = made_up(dict.fromkeys(STARTS, 0.1), change=0.7)
    assert reading.coefficient(table, GIVEN, "mnist").iloc[0] == pytest.approx(0.7)
