"""Figure 2: what chance gives, what is measured, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig02_projections import experiment, reading
from tests import judging

PARAMETERS = {
    "dataset": "digits", "points": 150, "layers": 2, "epochs": 4, "batch_size": 16, "rate": 0.001,
    "checkpoints": [1, 4, 9], "seeds": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


SHARES = ("aligned-after", "real-labels")
claims, outcomes = judging.of(reading, PARAMETERS)


def with_shares(table, **shares):
    """The table with made-up shares, which differ between seeds and panels."""
    rows = table.copy()
    for n, (panel, share) in enumerate(shares.items()):
        chosen = (rows["kind"] == "share") & (rows["panel"] == panel)
        rows.loc[chosen, "share"] = share + 0.001 * (n - 1) * (rows.loc[chosen, "seed"] - 1)
    return rows


def test_chance_is_the_mean_over_shuffles():
    draw = np.random.default_rng(0)
    phi = np.abs(draw.normal(size=(12, 3)))
    expected = experiment.chance(torch.from_numpy(phi))
    y = np.repeat([1.0, -1.0], 6)
    found = np.mean(
        [experiment.hidden_layers.spectrum(phi, draw.permutation(y))[1] for _ in range(1500)], axis=0
    )
    np.testing.assert_allclose(found / 12, expected, atol=0.008)
    assert expected[0] < 0.02 < 0.07 < expected[1]  # rows of numbers above 0: u_1 is nearly constant
    # Over all of a basis the labels are whole.
    assert experiment.chance(torch.eye(12)).sum() == pytest.approx(1)


def test_shares_are_sums_and_the_last_epoch_is_the_panel(table):
    spectra = table[table["kind"] == "spectrum"]
    top = spectra[spectra["index"] <= 10].groupby(["seed", "panel"])["share"].sum().unstack()
    pd.testing.assert_frame_equal(reading.shares(table), top, check_names=False)
    epochs = table[table["kind"] == "epoch"]
    assert set(epochs["epoch"]) == {0, 1, 4} and not epochs.duplicated(["seed", "epoch"]).any()
    for epoch, panel in ((0, "c"), (4, "d")):
        found = epochs[epochs["epoch"] == epoch].set_index("seed")["share"]
        np.testing.assert_allclose(found, reading.shares(table)[panel])
    assert epochs["accuracy"].between(0, 1).all()


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ({"a": 0.9, "c": 0.05, "d": 0.8}, dict.fromkeys(SHARES, HOLDS)),
        ({"a": 0.3, "c": 0.4, "d": 0.2}, dict.fromkeys(SHARES, CONTRADICTED)),
        ({"a": 0.51, "c": 0.49, "d": 0.5}, dict.fromkeys(SHARES, NO_EFFECT)),
    ],
)  # fmt: skip
def test_claims_follow_the_shares(table, shares, found):
    made = outcomes(with_shares(table, **shares))
    assert {id: made[id] for id in found} == found


@pytest.mark.parametrize(("times", "outcome"), [(1.0, HOLDS), (2.0, CONTRADICTED), (1.25, OPEN)])
def test_uniform_labels_have_along_each_direction_what_chance_gives(table, times, outcome):
    draw = np.random.default_rng(0)
    chosen = (table["kind"] == "spectrum") & table["panel"].isin(["b", "c"])
    parts = times * draw.chisquare(1, chosen.sum()) / (PARAMETERS["points"] - 1)
    first = table["index"].eq(1) & chosen
    rows = table.assign(
        share=table["share"].mask(chosen, pd.Series(parts, table.index[chosen])).mask(first, 9.0)
    )
    many = pd.concat([rows.assign(seed=rows["seed"] + 3 * n) for n in range(9)])
    made = claims(many)["uniform"]
    assert made.outcome == outcome and made.what == "direction"
