"""Figure 4: the circle and its labellings, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, OPPOSED
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import fig04_two_labellings as experiment
from alignbook.runs import notebooks, parameters

PARAMETERS = {"points": 40, "fewer": 11, "spread": 0.3, "step_size": 0.5, "remaining": 0.01, "seeds": 3}


@pytest.fixture(scope="module")
def table():
    tables = []
    for unit in experiment.units(PARAMETERS):
        made = unit.compute(**unit.arguments, device=torch.device("cpu"), report=None)
        tables.append(made.assign(points=unit.arguments["points"], seed=unit.arguments["seed"]))
    return pd.concat(tables, ignore_index=True)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def test_both_labellings_are_separated_by_a_line():
    phi, labels = experiment.circle(501, 0.3, seed=1)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1)
    for name, direction in (("first", (1, 1)), ("second", (-1, 1))):
        assert (labels[name] * (phi @ direction) > 0).all()
    assert labels["first"].sum() == -1 and abs(labels["second"].mean()) < 0.2


def test_alignment_by_the_definition(table):
    row = table[(table["points"] == 11) & (table["seed"] == 2) & (table["labelling"] == "second")].iloc[0]
    phi, labels = experiment.circle(11, 0.3, seed=2)
    left, singular, _ = np.linalg.svd(phi)
    shares = np.square(left.T @ labels["second"]) / 11
    np.testing.assert_allclose(row[["sigma1", "sigma2"]].astype(float), singular)
    np.testing.assert_allclose(row[["along1", "along2"]].astype(float), shares[:2], atol=1e-12)
    assert row["sigma1"] ** 2 + row["sigma2"] ** 2 == pytest.approx(11)


def test_equation_3_counts_the_steps_that_are_run(table):
    assert (table["steps"] == table["steps_run"]).all() and table["deviation"].max() < 1e-12
    assert table["steps"].min() > 0


def test_claims_hold_and_fail(table):
    either = {"trace": OPPOSED, "separable-first": HOLDS, "separable-second": HOLDS}
    five = ("higher", "first", "second", "faster", "below")
    assert outcomes(table) == dict.fromkeys(five, HOLDS) | either
    swapped = table.assign(labelling=table["labelling"].map({"first": "second", "second": "first"}))
    assert outcomes(swapped) == dict.fromkeys(five, CONTRADICTED) | either


def test_clouds_that_overlap_are_not_separated(table):
    rows = table[table["points"] == 40].assign(points=2000)
    wide = experiment.claims(rows, PARAMETERS | {"points": 2000, "spread": 0.5})
    judged = {claim.id: claim.outcome for claim in wide}
    assert judged["separable-first"] == CONTRADICTED and judged["separable-second"] == HOLDS


def test_printed_singular_values_that_fit_would_hold(table, monkeypatch):
    monkeypatch.setattr(experiment, "PRINTED", (30.31, 9.02))
    assert outcomes(table)["trace"] == HOLDS


def test_words_and_nothing(table):
    assert "steps" in experiment.finding(table, PARAMETERS)
    assert len(experiment.key_numbers(table, PARAMETERS)) == 3
    nothing = pd.DataFrame({"unit": []})
    assert experiment.finding(nothing, PARAMETERS) == "Nothing was computed."
    assert {outcome for id, outcome in outcomes(nothing).items() if id != "trace"} == {NOT_RUN}


@pytest.mark.parametrize(
    "name, value", [("points", 3), ("fewer", 0), ("spread", 0.6), ("step_size", 1.0), ("remaining", 0.0)]
)
def test_bad_parameters(name, value):
    with pytest.raises(AlignbookError, match=name):
        parameters.resolve(
            notebooks.find("representation_alignment/fig04_two_labellings"), "smoke", {name: value}
        )
