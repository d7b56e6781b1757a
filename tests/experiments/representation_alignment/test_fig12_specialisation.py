"""Figure 12: layers and areas, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import fig12_specialisation as experiment
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "points": 150, "width": 12, "layers": 3, "batch_size": 32, "rate": 0.003, "remaining": 0.0005,
    "max_epochs": 5, "checkpoints": [1, 3, 5, 9], "seeds": 3,
}  # fmt: skip
IDS = ("specialises", "source-monotone", "related-not-monotone", "last-not-better", "from-training")


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def with_areas(table, **by_task):
    """The table with made-up areas after training, of layers 0 to 3; 0.1 before."""
    rows = table[table["kind"] == "area"].copy()
    rows["area"] = 0.1
    for task, values in by_task.items():
        chosen = (rows["task"] == task) & (rows["epoch"] > 0)
        layers = rows.loc[chosen, "layer"].astype(int)
        rows.loc[chosen, "area"] = np.array(values)[layers] + 0.001 * rows.loc[chosen, "seed"] * layers
    return rows


def test_every_layer_and_epoch_once(table):
    found = table[(table["kind"] == "area") & (table["normalisation"] == experiment.NORMALISATIONS[0])]
    assert set(found["epoch"]) == {0, 1, 3, 5} and set(found["layer"]) == {0, 1, 2, 3}
    assert not found.duplicated(["seed", "task", "layer", "epoch"]).any()
    curves = table[table["kind"] == "curve"].groupby(["seed", "task", "layer"]).size()
    assert len(curves) == 3 * 3 * 4 and (curves == experiment.THRESHOLDS).all()


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after = experiment.areas(table, "related")
    for seed in range(3):
        for layer in range(4):
            rows = table[(table["kind"] == "curve") & (table["task"] == "related")]
            rows = rows[(rows["seed"] == seed) & (rows["layer"] == layer)]
            step, values = rows["threshold"].diff().iloc[1], rows["alignment"].to_numpy()
            source = experiment.peaks_source.draw(seed, 150)
            size = float(source.labels["related"].square().sum()) * np.sqrt(150)
            assert values[1:].sum() * step / size <= after.loc[seed, layer] <= values[:-1].sum() * step / size


def test_inputs_do_not_change_in_training(table):
    for task in experiment.TASKS:
        assert (experiment.areas(table, task)[0] == experiment.areas(table, task, 0)[0]).all()
        assert (experiment.areas(table, task)[3] != experiment.areas(table, task, 0)[3]).all()


def test_the_weakest_step_is_chosen_by_the_other_seeds():
    values = pd.DataFrame([[9, 1.0, 2.0, 2.5], [9, 1.0, 1.2, 2.2], [9, 1.0, 1.9, 2.0]], columns=range(4))
    # Means of the others' steps: (0.55, 0.55), (0.95, 0.3), (0.6, 0.75); on a tie the earlier one.
    np.testing.assert_allclose(experiment.weakest_step(values), [1.0, 1.0, 0.9])
    np.testing.assert_allclose(experiment.weakest_step(values.iloc[:1]), [0.5])


def test_claims_as_in_the_paper(table):
    rows = with_areas(table, source=(0.1, 0.2, 0.3, 0.4), related=(0.1, 0.3, 0.2, 0.15))
    assert outcomes(rows) == dict.fromkeys(IDS, HOLDS)
    said = experiment.finding(rows, PARAMETERS)
    assert "source task it rises at every step" in said and "related task it falls at every step" in said
    assert experiment.key_numbers(rows, PARAMETERS)[2].here == "source 3 of 3, related 0 of 3"


def test_claims_against_the_paper(table):
    rows = with_areas(table, source=(0.1, 0.3, 0.2, 0.05), related=(0.1, 0.2, 0.3, 0.4))
    assert outcomes(rows) == dict.fromkeys(IDS, CONTRADICTED)
    # A dip of the source task alone is enough for the headline to fail.
    rows = with_areas(table, source=(0.1, 0.3, 0.2, 0.5), related=(0.1, 0.3, 0.2, 0.15))
    judged = outcomes(rows)
    assert judged["specialises"] == judged["source-monotone"] == CONTRADICTED
    assert judged["related-not-monotone"] == judged["from-training"] == HOLDS
    assert "rises and falls" in experiment.finding(rows, PARAMETERS)


def test_one_run_and_none(table):
    assert set(outcomes(table[table["seed"] == 1]).values()) == {UNDECIDED}
    nothing = pd.DataFrame({"unit": []})
    assert outcomes(nothing) == dict.fromkeys(IDS, NOT_RUN)
    assert experiment.finding(nothing, PARAMETERS) and experiment.key_numbers(nothing, PARAMETERS) == []


@pytest.mark.parametrize("name, value", [("layers", 1), ("remaining", 0.0), ("seeds", 0)])
def test_values_that_make_no_figure_are_refused(name, value):
    notebook = notebooks.find("representation_alignment/fig12_specialisation")
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(notebook, "smoke", {name: value})
