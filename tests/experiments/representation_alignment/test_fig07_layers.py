"""Figure 7: examples, layers and areas, and claims that can come out either way."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.data.tables import load_table
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.representation_alignment.fig07_layers import experiment, reading
from alignbook.wording import weaker

PARAMETERS = {
    "datasets": ["digits", "diabetes"], "points": 150, "width": 9, "layers": 3, "batch_size": 32,
    "rate": 0.003, "remaining": 0.05, "further": 0.01, "max_epochs": 4, "checkpoints": [1, 4, 9],
    "darkest": 0.0, "seeds": 3,
}  # fmt: skip
EACH = ("ordered", "rises", "rises-further", "falls", "gains", "inputs-after", "inputs-before")
IDS = ("order", *(f"{name}-{dataset}" for name in EACH for dataset in PARAMETERS["datasets"]))


@pytest.fixture(scope="module")
def table():
    made = []
    for job in experiment.jobs(PARAMETERS):
        rows = job.compute(**job.arguments, device=torch.device("cpu"), report=None)
        made.append(rows.assign(**{name: job.arguments[name] for name in ("seed", "dataset", "points")}))
    return pd.concat(made, ignore_index=True)


def claims(table):
    """The claims on runs with seeds that nobody had seen."""
    later = table.assign(seed=table["seed"] + reading.SEEN) if "seed" in table else table
    return {claim.id: claim for claim in judged(reading.STATEMENTS, later, PARAMETERS)}


def outcomes(table):
    return {id: claim.outcome for id, claim in claims(table).items()}


def finding(table):
    return reading.finding(table, PARAMETERS, claims(table))


def with_areas(table, before, further=None, **after):
    """The table with made-up areas of layers 0 to 3, ``after`` by data set; ``further`` of diabetes.

    A larger area has the higher curve at every threshold but the last, where all are 0.
    """
    rows = table[table["kind"].isin(["area", "further", "training"])].copy()
    for dataset, values in after.items():
        last = further if further and dataset == "diabetes" else values
        states = (
            (before, rows["epoch"].eq(0) & rows["kind"].eq("area")),
            (values, rows["epoch"].gt(0) & rows["kind"].eq("area")),
            (last, rows["kind"].eq("further")),
        )
        for made_up, chosen in states:
            mine = chosen & (rows["dataset"] == dataset)
            layers = rows.loc[mine, "layer"].astype(int)
            noise = 0.001 * rows.loc[mine, "seed"] * (layers + (made_up is not before) * layers**2)
            rows.loc[mine, "area"] = np.array(made_up)[layers] + noise
    of_areas = rows["epoch"].where(rows["kind"].eq("area"))
    last_epoch = of_areas.groupby([rows["dataset"], rows["seed"]]).transform("max")
    states = {
        "before": rows["kind"].eq("area") & rows["epoch"].eq(0),
        "after": rows["kind"].eq("area") & rows["epoch"].eq(last_epoch),
        "further": rows["kind"].eq("further"),
    }
    curves = [
        rows[mine].assign(kind="curve", state=state, threshold=t, alignment=rows["area"] * (1 - t))
        for state, mine in states.items() for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]  # fmt: skip
    return pd.concat([rows, *curves], ignore_index=True)


def crossing(rows, dataset, state="after"):
    """The same areas, and curves of the last layer that lie below the others' at most thresholds."""
    last = rows["kind"].eq("curve") & rows["layer"].eq(3) & rows["dataset"].eq(dataset)
    last &= rows["state"].eq(state) & rows["threshold"].between(0.2, 0.9)
    return rows.assign(alignment=rows["alignment"].mask(last, 0.0))


def test_examples_of_a_table_are_its_rows_with_labels_moved():
    whole = load_table("diabetes")
    x, y = experiment.examples("diabetes", 10**6, seed=1)
    assert len(x) == len(whole.y) and y.min() == -1 and y.max() == 1
    place = int(np.flatnonzero((whole.x.astype(np.float32) == x[7].numpy()).all(1))[0])
    share = (whole.y[place] - whole.y.min()) / np.ptp(whole.y)
    assert y[7].item() == pytest.approx(2 * share - 1, abs=1e-6)
    few, labels = experiment.examples("diabetes", 31, seed=2)
    assert few.shape == (31, 10) and labels.shape == (31,) and not torch.equal(few, x[:31])


def test_pixels_go_from_the_darkest_to_one():
    x, y = experiment.examples("digits", 30, seed=1)
    wide, labels = experiment.examples("digits", 30, seed=1, darkest=-1.0)
    assert x.min() == 0 and wide.min() == -1 and wide.max() == 1 and torch.equal(y, labels)
    torch.testing.assert_close(wide, 2 * x - 1)
    table = experiment.examples("diabetes", 30, seed=1)[0]
    assert torch.equal(table, experiment.examples("diabetes", 30, seed=1, darkest=-1.0)[0])
    assert all("darkest" not in job.arguments for job in experiment.jobs(PARAMETERS))
    other = experiment.jobs(PARAMETERS | {"darkest": -1.0})[0]
    rows = other.compute(**other.arguments, device=torch.device("cpu"), report=None)
    first = rows[(rows["kind"] == "area") & (rows["layer"] == 0)]["area"].iloc[0]
    x, y = experiment.examples("digits", 150, 0, -1.0)
    assert first == pytest.approx(experiment.area(x.double(), y.double()))


def test_every_layer_before_after_and_trained_on(table):
    curves = table[table["kind"] == "curve"].groupby(["dataset", "seed", "state", "layer"]).size()
    assert len(curves) == 2 * 3 * 3 * 4 and (curves == experiment.THRESHOLDS).all()
    found = table[table["kind"] == "area"]
    assert (
        set(found["epoch"]) <= {0, 1, 2, 3, 4}
        and not found.duplicated(["dataset", "seed", "layer", "epoch"]).any()
    )
    for dataset in PARAMETERS["datasets"]:
        before, after = reading.areas(table, dataset, 0), reading.areas(table, dataset)
        further = reading.areas(table, dataset, "further")
        assert (before[0] == after[0]).all() and (after[0] == further[0]).all()
        assert (before[3] != after[3]).all() and (after[3] != further[3]).all()


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after = reading.areas(table, "digits")
    curves = table[(table["kind"] == "curve") & (table["state"] == "after") & (table["dataset"] == "digits")]
    for (seed, layer), part in curves.groupby(["seed", "layer"]):
        step, values = part["threshold"].diff().iloc[1] / np.sqrt(150), part["alignment"].to_numpy()
        assert values[1:].sum() * step <= after.loc[seed, int(layer)] <= values[:-1].sum() * step


FALLING, RISING = (0.4, 0.3, 0.2, 0.1), (0.4, 0.5, 0.6, 0.7)


def test_claims_as_in_the_paper(table):
    rows = with_areas(table, FALLING, digits=RISING, diabetes=(0.4, 0.5, 0.6, 0.9))
    assert outcomes(rows) == dict.fromkeys(IDS, HOLDS)
    assert reading.key_numbers(rows, PARAMETERS)[-1].here == "6 of 6"
    assert reading.key_numbers(rows, PARAMETERS)[0].here.startswith("+0.10")
    assert finding(rows) == (
        "The layers of digits (pixels from 0 to 1) and diabetes are in the paper's order: with depth, "
        "alignment rises after training and falls before it."
    )


def test_claims_against_the_paper(table):
    rows = with_areas(table, (0.1, 0.2, 0.3, 0.9), digits=FALLING, diabetes=FALLING)
    assert outcomes(rows) == dict.fromkeys(IDS, CONTRADICTED)
    # One layer out of order on one data set: the headline fails there, and on all sets together.
    rows = with_areas(table, FALLING, digits=RISING, diabetes=(0.4, 0.5, 0.8, 0.7))
    found = outcomes(rows)
    assert found["order"] == found["ordered-diabetes"] == found["rises-diabetes"] == CONTRADICTED
    assert found["ordered-digits"] == found["rises-digits"] == found["falls-diabetes"] == HOLDS
    assert reading.key_numbers(rows, PARAMETERS)[-1].here == "3 of 6"
    assert finding(rows) == (
        "The order fails: after training, alignment rises at every layer on digits (pixels from 0 to 1), but "
        "falls at the last layer on diabetes; before training it falls at every layer on both."
    )
    rows = with_areas(table, FALLING, digits=RISING, diabetes=(0.4, 0.5, 0.4, 0.7))
    assert "but falls at layer 2 on diabetes" in finding(rows)
    rows = with_areas(table, RISING, digits=RISING, diabetes=RISING)
    assert "; before training it rises at " in finding(rows) and finding(rows).endswith(" on both.")


def test_an_order_that_thresholds_do_not_show_is_not_judged(table):
    """Areas rise from layer to layer; the last layer's curve is the lower one at most thresholds."""
    rows = with_areas(table, FALLING, digits=RISING, diabetes=RISING)
    found = outcomes(crossing(rows, "diabetes"))
    unmet = {"order", "ordered-diabetes", "rises-diabetes", "gains-diabetes"}
    assert {id for id, outcome in found.items() if outcome == NOT_JUDGED} == unmet
    assert found["rises-further-diabetes"] == found["falls-diabetes"] == found["rises-digits"] == HOLDS
    assert finding(crossing(rows, "diabetes")) == (
        "The order is not judged everywhere: after training, alignment rises at every layer on digits "
        "(pixels from 0 to 1), but whether it rises on diabetes is not judged, as two ways of comparing "
        "curves disagree; "
        "before training it falls at every layer on both."
    )
    both = crossing(crossing(rows, "diabetes"), "digits")
    assert finding(both) == "The order of the layers is not judged."
    assert outcomes(crossing(rows, "digits", "further"))["rises-further-digits"] == NOT_JUDGED
    # Where areas decide nothing there is nothing to compare: one run is undecided, as it was.
    one = rows[rows["seed"] == 1]
    assert outcomes(crossing(one, "diabetes"))["rises-diabetes"] == UNDECIDED


def test_the_two_stops_are_judged_apart(table):
    rows = with_areas(table, FALLING, digits=RISING, diabetes=RISING, further=(0.4, 0.5, 0.8, 0.7))
    found = outcomes(rows)
    assert found["rises-diabetes"] == found["order"] == found["rises-further-digits"] == HOLDS
    assert found["rises-further-diabetes"] == CONTRADICTED
    seen = {claim.id: claim for claim in judged(reading.STATEMENTS, rows, PARAMETERS)}  # seeds 0 to 2
    assert {id for id, claim in seen.items() if claim.outcome == NOT_JUDGED} == {
        "rises-further-digits", "rises-further-diabetes"
    }  # fmt: skip
    assert seen["order"].outcome == HOLDS


def test_another_range_of_the_pixels_is_told_with_its_verdicts(table):
    one = next(iter(claims(with_areas(table, FALLING, digits=RISING, diabetes=RISING)).values()))
    found = {"rises-mnist": replace(one, outcome=ABSENT), "falls-mnist": replace(one, outcome=HOLDS)}
    said = reading.other_range(PARAMETERS, -1, found)
    assert said.startswith(
        "Pixels go from 0 to 1 here. With pixels from −1 to 1, on MNIST, the rise from layer"
    )
    assert "after training is too small to count at some step; the fall before training holds: see" in said


def test_the_finding_is_short_under_every_outcome(table):
    rows = with_areas(table, FALLING, digits=RISING, diabetes=(0.4, 0.5, 0.6, 0.61))
    made = claims(rows)
    one = {f"{id}-diabetes": made[f"{id}-diabetes"] for id in ("ordered", "rises", "falls")}
    one |= {f"{id}-diabetes": replace(made["order"], outcome=ABSENT) for id in ("ordered", "rises")}
    assert reading.finding(rows, PARAMETERS | {"datasets": ["diabetes"]}, one) == (
        "Not every layer is in order: after training, alignment hardly rises at the last layer on diabetes; "
        "before training it falls at every layer."
    )
    # As on the page, the two data sets with the longest reasons.
    named = rows.replace({"digits": "mnist", "diabetes": "ct_slices"})
    given = PARAMETERS | {"datasets": ["mnist", "ct_slices"]}
    made = {claim.id: claim for claim in judged(reading.STATEMENTS, named, given)}
    ids = [f"{id}-{name}" for name in given["datasets"] for id in ("ordered", "rises", "falls")]
    verdicts = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)
    for rise, fall, other_rise, other_fall in product(verdicts, repeat=4):
        both = [
            [weaker(*(replace(made[ids[0]], outcome=one) for one in pair)), *pair]
            for pair in ((rise, fall), (other_rise, other_fall))
        ]
        turned = {id: replace(made[id], outcome=o) for id, o in zip(ids, sum(both, []), strict=True)}
        for further in (HOLDS, CONTRADICTED):
            last = replace(made["rises-further-ct_slices"], outcome=further)
            said = reading.finding(named, given, made | turned | {last.id: last})
            assert " CT slices come from two patients" in said and len(said) <= 300, said
            judged_at_all = said != "The order of the layers is not judged. CT slices come from two patients."
            assert said.count("MNIST (pixels from 0 to 1)") == judged_at_all
            assert said.endswith(".") and (further == CONTRADICTED or "with more training" not in said)
            if (rise, fall, other_rise, other_fall, further) == (HOLDS, HOLDS, ABSENT, HOLDS, CONTRADICTED):
                assert (
                    "; with more training their alignment falls at " in said and "before training it" in said
                )


def test_chance_in_a_run_makes_no_fall():
    """Four statements of unrelated data: each run's own minimum of them lies below all of their means."""
    draw = np.random.default_rng(0)
    made, given = [], {"datasets": ["digits", "diabetes"]}
    for seed in range(40):
        for dataset in given["datasets"]:
            for epoch, step in ((0, -0.05), (7, 0.05)):
                areas = 0.5 + np.cumsum(step + 0.03 * draw.standard_normal(4))
                about = {"kind": "area", "dataset": dataset, "seed": seed, "epoch": epoch}
                made += [about | {"layer": layer, "area": area} for layer, area in enumerate(areas)]
    table = pd.DataFrame(made)
    four = [of(table, given, name) for name in given["datasets"] for of in (reading.rises, reading.falls)]
    weakest = min(values.mean() for values in four)
    assert pd.concat(four, axis=1).min(axis=1).mean() < weakest - 0.01
    assert any(reading.order(table, given).equals(values) for values in four)


def test_the_share_of_thresholds_comes_from_the_curves(table):
    rows = table[table["dataset"] == "digits"]
    last = (rows["kind"] == "curve") & (rows["layer"] == 3)
    low, high = (rows.assign(alignment=rows["alignment"].mask(last, value)) for value in (-9.0, 9.0))
    found = reading.thresholds(high, PARAMETERS)
    assert found.index.tolist() == [("digits", state) for state in ("before", "after", "trained further")]
    assert set(found["layer 3 above layer 2"]) == {"100 %"}
    assert set(reading.thresholds(low, PARAMETERS)["layer 3 above layer 2"]) == {"0 %"}


def test_few_runs_and_none(table):
    assert set(outcomes(table[table["seed"] == 1]).values()) == {UNDECIDED, NOT_JUDGED}
    half = table[table["dataset"] == "digits"]
    assert outcomes(half)["order"] == outcomes(half)["rises-diabetes"] == NOT_RUN
    assert finding(half) == "Not every data set has a finished run."


@pytest.mark.parametrize("name, value", [("layers", 1), ("datasets", ["photos"]), ("remaining", 1.0)])
def test_values_that_make_no_figure_are_refused(name, value):
    notebook = notebooks.find("representation_alignment/fig07_layers")
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(notebook, "smoke", {name: value})
