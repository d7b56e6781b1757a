"""Figures 6 and 11: ratios over training and at equal loss, on made-up tables."""

import itertools

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.fig06_loss_variation import design, reading
from companion.studies.transferability.shared.targets import STARTS
from tests import judging

TARGETS = ["cifar10-natural", "cifar10-artificial"]
PARAMETERS = {"targets": TARGETS, "near": 4.0, "lengths": [4.0, 100.0]}
STEPS = np.array([0, 1, 5, 10, 40, 100])


def made_up(factor=1.0, faster=1.0, seeds=4):
    """Variation 0.1 loss², times ``factor`` from random weights; pre-trained losses fall ``faster``."""
    scale = {"scratch": factor, "pretrained": 1.0}
    return pd.concat(
        judging.rows(
            0.02, draw, dataset="cifar10", part=part, seed=range(seeds), start=start,
            protocol=[*design.PROTOCOLS], step=STEPS.tolist(),
            loss=lambda row: 2 / (1 + (faster if row.start == "pretrained" else 1) * row.step / 20),
            near=lambda row: 0.1 * scale[row.start] * row.loss**2 * np.exp(row.noise),
            near_low=lambda row: row.loss - row.near, near_high=lambda row: row.loss,
            far_low=lambda row: row.loss - 2 * row.near, far_high=lambda row: row.loss + row.near,
        )
        for draw, (part, start) in enumerate(itertools.product(("natural", "artificial"), STARTS))
    ).reset_index(drop=True)  # fmt: skip


_, outcomes = judging.of(reading, PARAMETERS)


def test_a_larger_variation_everywhere_holds_everywhere():
    for factor, outcome in ((2.0, HOLDS), (0.5, CONTRADICTED), (1.0, NO_EFFECT)):
        assert set(outcomes(made_up(factor=factor)).values()) == {outcome}


def test_fitting_faster_alone_is_told_apart_from_a_smoother_loss():
    # The same variation at the same loss: pre-trained is smaller in the mean over steps only.
    found = outcomes(made_up(faster=6.0))
    assert found["smaller-scaled"] == found["early-scaled-near"] == HOLDS
    assert found["matched"] == NO_EFFECT
    values = reading.matched(made_up(faster=6.0), "cifar10-natural", "scaled")
    over_all = reading.ratios(made_up(faster=6.0), "cifar10-natural", "scaled")
    assert values.abs().max() < 0.15 < over_all.min()


def test_matched_finds_the_factor_at_equal_loss():
    values = reading.matched(made_up(factor=4.0, faster=3.0), "cifar10-artificial", "fixed")
    np.testing.assert_allclose(values, 2, atol=0.15)
    assert list(values.index) == [0, 1, 2, 3]


def frame(steps, values):
    return pd.DataFrame([values], columns=steps, index=pd.Index([0], name="seed"))


def test_the_mean_weighs_steps_and_not_records():
    curve = frame([0, 1, 2, 100], [8.0, 8.0, 1.0, 1.0])
    assert reading.mean_over(curve)[0] == pytest.approx((8 + 4.5 + 98) / 100)
    assert reading.mean_over(curve, (0, 0))[0] == 8
    assert reading.mean_over(curve, (0.01, 0.02))[0] == pytest.approx(4.5)


def test_a_part_of_the_steps_ends_between_two_records():
    # As recorded: nothing between steps 32 and 116 of 930, and the first tenth ends at 93.
    curve = frame([0, 32, 116, 930], [0.0, 32.0, 116.0, 930.0])
    assert reading.mean_over(curve, (0, 0.1))[0] == pytest.approx(93 / 2)
    assert reading.mean_over(curve, (0.1, 1))[0] == pytest.approx((93 + 930) / 2)
    assert reading.mean_over(curve, (0.2, 0.3))[0] == pytest.approx(0.25 * 930)


def test_a_job_measures_both_ways_of_stepping(smoke):
    table = smoke("transferability/fig06_loss_variation").stored[0].table
    scaled, fixed = (table[table["protocol"] == name].set_index("step") for name in design.PROTOCOLS)
    np.testing.assert_allclose(scaled["loss"], fixed["loss"])
    assert (table["far_high"] - table["far_low"] >= table["near_high"] - table["near_low"]).all()
    # Along the unit vector short steps see the slope: four times the rate times the gradient's norm.
    np.testing.assert_allclose(
        fixed["near_high"] - fixed["near_low"], 0.04 * fixed["gradient_norm"], rtol=0.3
    )
