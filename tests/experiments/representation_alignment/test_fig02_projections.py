"""Figure 2: what chance gives, what is measured, and claims that can come out either way."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig02_projections import design, experiment, reading
from tests import judging

PARAMETERS = judging.given("representation_alignment/fig02_projections")
claims, outcomes = judging.of(reading)


def test_chance_is_the_mean_over_all_orders():
    phi = np.abs(np.random.default_rng(0).normal(size=(8, 3)))
    orders = {*itertools.permutations([1.0, -1.0] * 4)}
    gains = [experiment.hidden_layers.spectrum(phi, np.array(labels))[1] for labels in orders]
    chance = experiment.chance(torch.from_numpy(phi))
    np.testing.assert_allclose(chance, np.mean(gains, axis=0) / 8)
    assert chance[0] < 0.05 < 0.1 < chance[1]  # rows of numbers above 0: u_1 is nearly constant
    # Over all of a basis the labels are whole.
    assert experiment.chance(torch.eye(8)).sum() == pytest.approx(1)


def test_shares_are_sums_and_the_last_epoch_is_the_panel(smoke):
    table = smoke("representation_alignment/fig02_projections").table
    spectra = table[table["kind"] == "spectrum"]
    top = spectra[spectra["index"] <= 10].groupby(["seed", "panel"])["share"].sum().unstack()
    pd.testing.assert_frame_equal(reading.shares(table), top, check_names=False)
    epochs = table[table["kind"] == "epoch"]
    for epoch, panel in ((0, "c"), (PARAMETERS["epochs"], "d")):
        found = epochs[epochs["epoch"] == epoch].set_index("seed")["share"]
        np.testing.assert_allclose(found, top[panel])


@pytest.mark.parametrize(
    ("real", "after", "outcome"),
    [(0.9, 0.8, HOLDS), (0.3, 0.2, CONTRADICTED), (0.51, 0.5, NO_EFFECT)],
)
def test_claims_follow_the_shares(real, after, outcome):
    shares = {"a": real, "d": after}

    def share(row):
        return shares[row.panel] + row.noise

    table = judging.rows(0.001, kind="share", top=design.TOP, seed=range(3), panel=[*shares], share=share)
    found = outcomes(table)
    assert found["real-labels"] == found["aligned-after"] == outcome


@pytest.mark.parametrize(("times", "outcome"), [(1.0, HOLDS), (2.0, CONTRADICTED), (1.25, OPEN)])
def test_uniform_labels_have_along_each_direction_what_chance_gives(times, outcome):
    def share(row):
        return 9.0 if row.index == 1 else times * row.noise**2 / (PARAMETERS["points"] - 1)

    about = {"kind": "spectrum", "seed": range(27), "panel": ["b", "c"], "index": range(1, 101)}
    table = judging.rows(1.0, **about, share=share)
    uniform = claims(table)["uniform"]
    assert uniform.outcome == outcome and uniform.what == "direction"
