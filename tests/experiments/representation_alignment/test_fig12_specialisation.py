"""Figure 12: layers and areas, and claims that can come out either way."""

import numpy as np
import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.representation_alignment.fig12_specialisation import experiment, reading
from alignbook.studies.representation_alignment.peaks_design import NORMALISATIONS, TASKS
from tests import judging

PARAMETERS = {
    "points": 150, "width": 12, "layers": 3, "batch_size": 32, "rate": 0.003, "remaining": 0.0005,
    "max_epochs": 5, "checkpoints": [1, 3, 5, 9], "seeds": 3,
}  # fmt: skip
IDS = ("specialises", "source-monotone", "related-not-monotone", "last-not-better", "from-training")


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


_, outcomes, finding = judging.of(reading, PARAMETERS)


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
    found = table[(table["kind"] == "area") & (table["normalisation"] == NORMALISATIONS[0])]
    assert set(found["epoch"]) == {0, 1, 3, 5} and set(found["layer"]) == {0, 1, 2, 3}
    assert not found.duplicated(["seed", "task", "layer", "epoch"]).any()
    curves = table[table["kind"] == "curve"].groupby(["seed", "task", "layer"]).size()
    assert len(curves) == 3 * 3 * 4 and (curves == experiment.THRESHOLDS).all()


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after = reading.areas(table, "related")
    for seed in range(3):
        for layer in range(4):
            rows = table[(table["kind"] == "curve") & (table["task"] == "related")]
            rows = rows[(rows["seed"] == seed) & (rows["layer"] == layer)]
            step, values = rows["threshold"].diff().iloc[1], rows["alignment"].to_numpy()
            source = experiment.peaks_source.draw(seed, 150)
            size = float(source.labels["related"].square().sum()) * np.sqrt(150)
            assert values[1:].sum() * step / size <= after.loc[seed, layer] <= values[:-1].sum() * step / size


def test_inputs_do_not_change_in_training(table):
    for task in TASKS:
        assert (reading.areas(table, task)[0] == reading.areas(table, task, 0)[0]).all()
        assert (reading.areas(table, task)[3] != reading.areas(table, task, 0)[3]).all()


def test_claims_as_in_the_paper(table):
    rows = with_areas(table, source=(0.1, 0.2, 0.3, 0.4), related=(0.1, 0.3, 0.2, 0.15))
    assert outcomes(rows) == dict.fromkeys(IDS, HOLDS)
    said = finding(rows)
    assert said.startswith("Later layers specialise to the source task: ")
    assert "alignment with it rises from layer to layer, and alignment with a related task falls at" in said
    assert "(area under the curve 0.30 in the first layer, 0.15 in the last)" in said
    assert reading.key_numbers(rows, PARAMETERS)[2].here == "3 of 3"


def test_claims_against_the_paper(table):
    rows = with_areas(table, source=(0.1, 0.3, 0.2, 0.05), related=(0.1, 0.2, 0.3, 0.4))
    assert outcomes(rows) == dict.fromkeys(IDS, CONTRADICTED)
    assert "alignment with a related task does not fall" in finding(rows)
    # A dip of the source task alone is enough for the headline to fail.
    rows = with_areas(table, source=(0.1, 0.3, 0.2, 0.5), related=(0.1, 0.3, 0.2, 0.15))
    found = outcomes(rows)
    assert found["specialises"] == found["source-monotone"] == CONTRADICTED
    assert found["related-not-monotone"] == found["from-training"] == HOLDS
    assert "alignment with it falls from some layer to the next" in finding(rows)
    # A rise that no reader could see is absent.
    rows = with_areas(table, source=(0.1, 0.2, 0.202, 0.3), related=(0.1, 0.3, 0.2, 0.15))
    assert outcomes(rows)["source-monotone"] == outcomes(rows)["specialises"] == ABSENT


def test_another_normalisation_is_judged_alike(table):
    rows = with_areas(table, source=(0.1, 0.2, 0.3, 0.4), related=(0.1, 0.3, 0.2, 0.15))
    other = rows["normalisation"].eq(NORMALISATIONS[2]) & rows["epoch"].gt(0)
    rows.loc[other, "area"] = 0.5 - 0.1 * rows["layer"] + 0.001 * rows["seed"] * rows["layer"]
    found = {c.id: c.outcome for c in judged(reading.statements(NORMALISATIONS[2]), rows, PARAMETERS)}
    assert found["source-monotone"] == CONTRADICTED and found["related-not-monotone"] == HOLDS


def test_the_share_of_thresholds_comes_from_the_curves(table):
    rows = table.copy()
    last = (rows["kind"] == "curve") & (rows["layer"] == 3)
    rows.loc[last, "alignment"] = 1e6
    found = reading.thresholds(rows, PARAMETERS)
    assert found.index.tolist() == list(TASKS) and set(found["layer 3 above layer 2"]) == {"100 %"}
    rows.loc[last, "alignment"] = -1e6
    assert set(reading.thresholds(rows, PARAMETERS)["layer 3 above layer 2"]) == {"0 %"}


def test_one_run_and_none(table):
    assert set(outcomes(table[table["seed"] == 1]).values()) == {UNDECIDED}


@pytest.mark.parametrize("name, value", [("layers", 1), ("remaining", 0.0), ("seeds", 0)])
def test_values_that_make_no_figure_are_refused(name, value):
    notebook = notebooks.find("representation_alignment/fig12_specialisation")
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(notebook, "smoke", {name: value})
