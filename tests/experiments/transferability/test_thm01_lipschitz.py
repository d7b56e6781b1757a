"""Theorem 1: a small run against the infinite-width limit, claims that come out either way."""

import pytest

from companion.claims import CONTRADICTED, HOLDS, OPEN
from companion.over_seeds import at
from companion.studies.transferability.shared.by_seed import per_seed
from companion.studies.transferability.thm01_lipschitz import experiment, reading
from tests import judging

ASKED = {"kappas": [0.1, 0.3, 1.0], "widths": [64, 2048], "examples": 10, "seeds": 3}
PARAMETERS = judging.given("transferability/thm01_lipschitz", **ASKED)


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


def test_wide_networks_reach_the_limit(table):
    """Width 2048 at κ = 0.3: within 0.05 of the limit for its random outputs; width 64 is further off."""
    rows = reading.judged_rows(table, PARAMETERS)
    near, far = (
        per_seed(at(rows, width=m), lambda part: reading.distance(part, other="adjusted")) for m in (2048, 64)
    )
    assert near.max() < 0.05 < far.mean()
    assert reading.coefficient(at(table, width=2048, kappa=0.1)) == pytest.approx(1, abs=0.15)


def made_up(scale=1.0, power=0.5, slope=1.0, offset=0.0, shift=0.0):
    """change = scale × term + what κ adds + a width's error of m^-power; spread over seeds is small."""
    terms = {("rotated", 0.0): -0.8 + shift, ("rotated", 90.0): 0.3, ("classes", 0.0): 0.1}
    terms |= {("flipped", 1.0): 2.0 - 2 * shift}
    return judging.rows(
        1e-3, dataset=["one", "two"], seed=range(3), kappa=[0.1, 0.3, 1.0], width=[10, 1000, 100000],
        task=[*terms], family=lambda row: row.task[0], step=lambda row: row.task[1],
        term=lambda row: terms[row.task],
        adjusted=lambda row: row.term + 1e-3 * row.kappa**slope * (1 + row.noise),
        change=lambda row: (scale * row.adjusted + offset + 0.1 * row.width**-power) * (1 + row.noise),
    ).drop(columns="task")  # fmt: skip


_, outcomes = judging.of(reading, PARAMETERS | {"datasets": ["one", "two"]})


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, set()),
        ({"scale": 1.2}, {"term-one", "term-two", "width-rate"}),
        ({"power": 0.1}, {"width-rate"}),
        ({"slope": 2.0}, {"kappa-rate"}),
        ({"offset": 0.2}, {"term-one", "term-two", "width-rate"}),
        ({"shift": 1.5}, {"similar", "reverse"}),
    ],
)
def test_statements_come_out_either_way(changes, wrong):
    found = outcomes(made_up(**changes))
    assert {id for id, outcome in found.items() if outcome == CONTRADICTED} == wrong
    assert {outcome for id, outcome in found.items() if id not in wrong} == {HOLDS}


def test_seeds_that_disagree_leave_it_open():
    table = made_up()
    for seed, scale in enumerate((1.0, 1.04, 1.08)):
        table.loc[(table.dataset == "two") & (table.seed == seed), "change"] *= scale
    found = outcomes(table)
    assert (found["term-one"], found["term-two"]) == (HOLDS, OPEN)
