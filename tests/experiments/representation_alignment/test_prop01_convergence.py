"""Propositions 1 and 2, Figure 9: on small features, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import prop01_convergence as experiment
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "dataset": "digits", "points": 80, "width": 70, "epochs": 2, "batch_size": 20, "rate": 0.001,
    "multiples": [0.5, 1.9, 2.1], "step_size": 0.5, "iterations": 300, "seeds": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    tables = []
    for unit in experiment.units(PARAMETERS):
        made = unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None)
        tables.append(made.assign(seed=unit.arguments["seed"]))
    return pd.concat(tables, ignore_index=True)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def test_everything_holds(table):
    assert outcomes(table) == {
        "equation-3": HOLDS, "equation-3-beyond": HOLDS, "stable-below-2": HOLDS, "bound": HOLDS,
        "early": HOLDS, "late": HOLDS, "unit-rows": NOT_JUDGED,
    }  # fmt: skip
    said = experiment.finding(table, PARAMETERS)
    assert said.startswith("Equation 3 predicts every step") and "always falls" in said
    assert "learned from digits (in place of CT slices)" in said
    assert experiment.key_numbers(table, PARAMETERS)[1].here == "1.9"


def test_a_wrong_equation_disagrees(table):
    table = table.copy()
    table.loc[table["multiple"] == 0.5, "deviation"] = 1e-3
    table.loc[table["multiple"] == 1.9, "falls"] = 0.0
    judged = outcomes(table)
    assert judged["equation-3"] == judged["stable-below-2"] == CONTRADICTED
    assert judged["equation-3-beyond"] == HOLDS
    said = experiment.finding(table, PARAMETERS)
    assert said.startswith("Equation 3 does not predict") and "1e-03" in said and "some runs" in said


def test_an_equation_that_misses_is_found():
    draw = np.random.default_rng(0)
    phi, y = draw.normal(size=(30, 4)), draw.normal(size=30)
    right = experiment.linear_models(phi, y, [0.5], 50)
    assert right["deviation"].max() < 1e-13
    # Started elsewhere than at zero weights, the descent is another one.
    original = experiment.descend
    try:
        experiment.descend = lambda phi, y, rates, steps: original(phi, y - 0.1 * phi[:, 0], rates, steps)
        assert experiment.linear_models(phi, y, [0.5], 50)["deviation"].max() > 1e-3
    finally:
        experiment.descend = original


def test_diverging_runs_are_compared_while_they_are_small(table):
    rows = table[(table["kind"] == "loss") & (table["multiple"] == 2.1)]
    assert 1e3 < rows["loss"].max() <= experiment.LARGEST
    falls = experiment.deviations(table).groupby("multiple")["falls"].max()
    assert falls.to_dict() == {0.5: 1.0, 1.9: 1.0, 2.1: 0.0}


def test_the_bound_is_met_where_one_process_has_all_the_loss():
    rows = experiment.bounds(np.array([1.0, 0.01]), np.array([0.0, 1.0]), 0.5)
    assert rows["needed"].iloc[1] == pytest.approx(rows["bound"].iloc[1], rel=1e-3)
    assert rows["bound"].iloc[1] == pytest.approx(np.log(10) / 1e-4)


def test_the_best_threshold_gives_a_bound_and_the_least():
    singular, gains = np.array([3.0, 1.0, 0.1]), np.array([1.0, 6.0, 0.5])
    needed, bound = experiment.best_bound(singular, gains, 0.5, ratio=0.6)
    # 0.6 of 7.5 is 4.5: of the alignments 1, 7 and 7.5 the last two are enough.
    by_hand = [-np.log(1 - 4.5 / 7) / (2 * 0.5 / 9), -np.log(0.4) / (2 * 0.5 / 9 * 0.01)]
    assert bound == pytest.approx(min(by_hand)) and needed <= np.ceil(bound)
    left = experiment.reducible(singular, gains, 0.5 / 9, [needed - 1, needed])
    assert left[0] > 3.0 >= left[1]


def test_the_bound_fails_beyond_the_printed_step_size():
    def above(multiple):
        one = {"kind": "spectrum", "seed": 0, "representation": "init", "index": [1, 2], "gain": [1.0, 0.0]}
        cases, most = experiment.excess(pd.DataFrame(one | {"sigma": [3.0, 1.0]}), multiple)
        assert cases == 2
        return most

    assert above(0.9) <= 0 < above(1.9)
    assert np.isinf(above(2.1))


def test_where_the_two_labels_cross(table):
    found = experiment.crossing(table, 0.5)
    assert len(found) == 3 and found["step"].notna().all()
    singular, _ = experiment.spectra(table)[1, "transfer"]
    first, second = (
        experiment.reducible(singular, gains, 0.5 / singular[0] ** 2, np.arange(found["step"][1] + 1))
        for gains in experiment.two_labels(singular).values()
    )
    assert second[-1] >= first[-1] and (second[1:-1] < first[1:-1]).all()


def test_two_classes_equally_often():
    x, y = experiment.images("digits", 60, seed=3)
    assert x.shape == (60, 64) and y.sum() == 0 and set(y.tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(x.norm(dim=1), torch.ones(60, dtype=torch.float64))
    with pytest.raises(AlignbookError, match="images of class"):
        experiment.images("digits", 5000, seed=0)


def test_nothing_and_few_singular_values(table):
    nothing = pd.DataFrame({"unit": []})
    judged = outcomes(nothing)
    assert {outcome for id, outcome in judged.items() if id != "unit-rows"} == {NOT_RUN}
    few = table[~((table["kind"] == "spectrum") & (table["index"] > 40))]
    assert outcomes(few)["early"] == outcomes(few)["late"] == NOT_RUN


@pytest.mark.parametrize(
    "name, value", [("multiples", [0.0]), ("multiples", []), ("step_size", 1.0), ("points", 2), ("rate", 0.0)]
)
def test_bad_parameters(name, value):
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(
            notebooks.find("representation_alignment/prop01_convergence"), "smoke", {name: value}
        )
