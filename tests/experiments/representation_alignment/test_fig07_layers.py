"""Figure 7: examples, layers and areas, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.data.tables import load_table
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import fig07_layers as experiment
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "datasets": ["digits", "diabetes"], "points": 150, "width": 9, "layers": 3, "batch_size": 32,
    "rate": 0.003, "remaining": 0.05, "further": 0.01, "max_epochs": 4, "checkpoints": [1, 4, 9], "seeds": 3,
}  # fmt: skip
EACH = ("rises", "falls", "gains", "inputs-after", "inputs-before")
IDS = ("order", *(f"{name}-{dataset}" for name in EACH for dataset in PARAMETERS["datasets"]))


@pytest.fixture(scope="module")
def table():
    made = []
    for unit in experiment.units(PARAMETERS):
        rows = unit.compute(**unit.arguments, device=torch.device("cpu"), report=None)
        made.append(rows.assign(**{name: unit.arguments[name] for name in ("seed", "dataset", "points")}))
    return pd.concat(made, ignore_index=True)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def with_areas(table, before, **after):
    """The table with made-up areas of layers 0 to 3, ``after`` by data set."""
    rows = table[table["kind"].isin(["area", "training"])].copy()
    for dataset, values in after.items():
        for state, chosen in (("before", rows["epoch"] == 0), ("after", rows["epoch"] > 0)):
            chosen &= (rows["dataset"] == dataset) & (rows["kind"] == "area")
            layers = rows.loc[chosen, "layer"].astype(int)
            area = np.array(before if state == "before" else values)[layers]
            noise = 0.001 * rows.loc[chosen, "seed"] * (layers + (state == "after") * layers**2)
            rows.loc[chosen, "area"] = area + noise
    return rows


def test_examples_of_a_table_are_its_rows_with_labels_moved():
    whole = load_table("diabetes")
    x, y = experiment.examples("diabetes", 10**6, seed=1)
    assert len(x) == len(whole.y) and y.min() == -1 and y.max() == 1
    place = int(np.flatnonzero((whole.x.astype(np.float32) == x[7].numpy()).all(1))[0])
    share = (whole.y[place] - whole.y.min()) / np.ptp(whole.y)
    assert y[7].item() == pytest.approx(2 * share - 1, abs=1e-6)
    few, labels = experiment.examples("diabetes", 31, seed=2)
    assert few.shape == (31, 10) and labels.shape == (31,) and not torch.equal(few, x[:31])


def test_both_states_of_every_layer(table):
    curves = table[table["kind"] == "curve"].groupby(["dataset", "seed", "state", "layer"]).size()
    assert len(curves) == 2 * 3 * 2 * 4 and (curves == experiment.THRESHOLDS).all()
    found = table[table["kind"] == "area"]
    assert (
        set(found["epoch"]) <= {0, 1, 2, 3, 4}
        and not found.duplicated(["dataset", "seed", "layer", "epoch"]).any()
    )
    for dataset in PARAMETERS["datasets"]:
        before, after = experiment.areas(table, dataset, 0), experiment.areas(table, dataset)
        further = experiment.areas(table, dataset, "further")
        assert (before[0] == after[0]).all() and (after[0] == further[0]).all()
        assert (before[3] != after[3]).all() and (after[3] != further[3]).all()


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after = experiment.areas(table, "digits")
    curves = table[(table["kind"] == "curve") & (table["state"] == "after") & (table["dataset"] == "digits")]
    for (seed, layer), part in curves.groupby(["seed", "layer"]):
        step, values = part["threshold"].diff().iloc[1] / np.sqrt(150), part["alignment"].to_numpy()
        assert values[1:].sum() * step <= after.loc[seed, int(layer)] <= values[:-1].sum() * step


def test_claims_as_in_the_paper(table):
    rows = with_areas(table, (0.4, 0.3, 0.2, 0.1), digits=(0.4, 0.5, 0.6, 0.7), diabetes=(0.4, 0.5, 0.6, 0.9))
    assert outcomes(rows) == dict.fromkeys(IDS, HOLDS)
    assert experiment.key_numbers(rows, PARAMETERS)[-1].here == "digits 3 of 3, diabetes 3 of 3"
    said = experiment.finding(rows, PARAMETERS)
    assert "after training: digits 0.50 → 0.6" in said
    assert "falls from each to the next on digits and diabetes." in said
    assert "undecided" not in said and "does not fall" not in said


def test_claims_against_the_paper(table):
    falling = (0.4, 0.3, 0.2, 0.1)
    rows = with_areas(table, (0.1, 0.2, 0.3, 0.9), digits=falling, diabetes=falling)
    assert outcomes(rows) == dict.fromkeys(IDS, CONTRADICTED)
    # One layer out of order on one data set is enough for the headline to fail.
    rows = with_areas(table, falling, digits=(0.4, 0.5, 0.6, 0.7), diabetes=(0.4, 0.5, 0.8, 0.7))
    judged = outcomes(rows)
    assert judged["order"] == judged["rises-diabetes"] == CONTRADICTED
    assert judged["rises-digits"] == judged["falls-diabetes"] == HOLDS
    assert experiment.key_numbers(rows, PARAMETERS)[-1].here == "digits 3 of 3, diabetes 0 of 3"
    assert "(last step falls)" in experiment.finding(rows, PARAMETERS)


def test_a_part_of_the_table_is_named_in_the_finding(table):
    rows = table.assign(dataset=table["dataset"].replace("diabetes", "ct_slices"), points=10000)
    given = PARAMETERS | {"datasets": ["digits", "ct_slices"]}
    assert "CT Position (a stand-in: 150 of its 53,500 rows)" in experiment.finding(rows, given)
    assert "stand-in" not in experiment.finding(rows.assign(points=150), given)


def test_few_runs_and_none(table):
    assert set(outcomes(table[table["seed"] == 1]).values()) == {UNDECIDED}
    half = table[table["dataset"] == "digits"]
    assert outcomes(half)["order"] == outcomes(half)["rises-diabetes"] == NOT_RUN
    nothing = pd.DataFrame({"unit": []})
    assert outcomes(nothing) == dict.fromkeys(IDS, NOT_RUN)
    assert experiment.finding(nothing, PARAMETERS) and experiment.key_numbers(nothing, PARAMETERS) == []


@pytest.mark.parametrize("name, value", [("layers", 1), ("datasets", ["photos"]), ("remaining", 1.0)])
def test_values_that_make_no_figure_are_refused(name, value):
    notebook = notebooks.find("representation_alignment/fig07_layers")
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(notebook, "smoke", {name: value})
