"""Figure 2: what chance gives, what is measured, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.representation_alignment.fig02_projections import experiment, reading
from tests import judging

PARAMETERS = {
    "dataset": "digits", "points": 150, "layers": 2, "epochs": 4, "batch_size": 16, "rate": 0.001,
    "checkpoints": [1, 4, 9], "seeds": 3,
}  # fmt: skip
IDS = ("aligned-after", "emerges", "real-labels", "uniform-inputs", "uniform-before")


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


judged, outcomes, found = judging.of(reading, PARAMETERS)


def with_shares(table, learned=1.0, **shares):
    """The table with made-up shares, which differ between seeds and panels, and labels learned."""
    rows = table.copy()
    rows.loc[rows["kind"] == "epoch", "accuracy"] = learned
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


def test_each_panel_has_its_labels_and_features(table):
    first = table[(table["seed"] == 0) & (table["kind"] == "spectrum")].set_index(["panel", "index"])
    assert (first.loc["a"]["sigma"] == first.loc["b"]["sigma"]).all()
    assert not np.allclose(first.loc["a"]["share"], first.loc["b"]["share"], atol=0.01)
    assert not np.allclose(first.loc["c"]["sigma"][:9], first.loc["d"]["sigma"][:9], rtol=0.001)
    x, y = experiment.hidden_layers.two_classes("digits", 150, 0, halves=True)
    singular, gains = experiment.hidden_layers.spectrum(x, y)
    np.testing.assert_allclose(first.loc["a"]["sigma"], singular[: len(first.loc["a"])])
    np.testing.assert_allclose(first.loc["a"]["share"], gains[: len(first.loc["a"])] / 150)


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


def test_claims_as_in_the_paper(table):
    expected = reading.shares(table, column="chance").mean()
    rows = with_shares(table, a=0.9, b=expected["b"], c=expected["c"], d=0.8)
    assert outcomes(rows) == dict.fromkeys(IDS, HOLDS)
    assert found(rows).startswith(
        "Training aligns features even with labels that"
    ) and " 80 % of their" in found(rows)
    assert "which is chance. We used 150 images instead of 10,000." in found(rows)
    assert reading.key_numbers(rows, PARAMETERS)[0].here.startswith("80.0")


def test_claims_against_the_paper(table):
    rows = with_shares(table, a=0.3, b=0.3, c=0.4, d=0.2)
    assert outcomes(rows) == dict.fromkeys(IDS, CONTRADICTED)
    assert "does not align features" in found(rows) and "chance" not in found(rows)


def test_labels_that_are_not_learned_decide_nothing(table):
    rows = with_shares(table, learned=0.9, a=0.9, b=0.3, c=0.1, d=0.3)
    judged = outcomes(rows)
    assert judged["aligned-after"] == judged["emerges"] == NOT_JUDGED and judged["real-labels"] == HOLDS
    assert found(rows) == "The network learned only 90% of the shuffled labels."


def test_few_seeds_and_none(table):
    few = with_shares(table, d=0.8)
    assert set(outcomes(few[few["seed"] < 2]).values()) == {UNDECIDED}


@pytest.mark.parametrize("name, value", [("dataset", "photos"), ("points", 10), ("layers", 0)])
def test_values_that_make_no_figure_are_refused(name, value):
    notebook = notebooks.find("representation_alignment/fig02_projections")
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(notebook, "smoke", {name: value})
