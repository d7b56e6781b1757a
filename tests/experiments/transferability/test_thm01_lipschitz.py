"""Theorem 1: a small run against the infinite-width limit, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.over_seeds import at
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.transferability.by_seed import per_seed
from alignbook.studies.transferability.thm01_lipschitz import experiment, reading

PARAMETERS = {
    "datasets": ["digits"], "kappas": [0.1, 0.3, 1.0], "widths": [64, 2048], "angles": [0.0, 90.0],
    "shares": [1.0], "examples": 10, "step_size": 1.0, "tolerance": 0.01, "steps": 2000, "seeds": 3,
}  # fmt: skip


def compute(job):
    progress = []
    table = job.compute(
        **job.arguments, device=torch.device("cpu"), report=lambda done, text: progress.append(done)
    )
    assert progress == sorted(progress) and progress[-1] == pytest.approx(1)
    return table.assign(dataset=job.arguments["dataset"], seed=job.arguments["seed"], unit=job.name)


@pytest.fixture(scope="module")
def table():
    return pd.concat(map(compute, experiment.jobs(PARAMETERS)), ignore_index=True)


def test_rows(table):
    assert len(table) == 3 * 3 * 2 * 4 and not table.isna().any().any()
    assert (table.residual <= 0.01).all() and (table.trained > 1).all()
    # The reverse labels: the quadratic part of the term stays, the linear one changes its sign.
    turned = table[table.family == "flipped"].term.to_numpy()
    same = table[(table.family == "rotated") & (table.step == 0)].term.to_numpy()
    assert (turned > 0).all() and (turned > same).all()


def test_wide_networks_reach_the_limit(table):
    """Width 2048 at κ = 0.3: within 0.05 of the limit for its random outputs; width 64 is further off."""
    rows = reading.judged_rows(table, PARAMETERS)
    near, far = (
        per_seed(at(rows, width=m), lambda part: reading.distance(part, other="adjusted")) for m in (2048, 64)
    )
    assert near.max() < 0.05 < far.mean()
    assert reading.coefficient(at(table, width=2048, kappa=0.1)) == pytest.approx(1, abs=0.15)


def test_same_seed_same_bits(table):
    job = experiment.jobs(PARAMETERS)[1]
    pd.testing.assert_frame_equal(compute(job), table[table.unit == job.name].reset_index(drop=True))


def made_up(scale=1.0, power=0.5, slope=1.0, offset=0.0, shift=0.0):
    """change = scale × term + what κ adds + a width's error of m^-power; spread over seeds is small."""
    rows, draw = [], np.random.default_rng(0)
    for dataset in ("one", "two"):
        for seed in range(reading.SEEN, reading.SEEN + 3):
            for kappa in (0.1, 0.3, 1.0):
                for width in (10, 1000, 100000):
                    for family, step, term in (
                        ("rotated", 0.0, -0.8 + shift),
                        ("rotated", 90.0, 0.3),
                        ("flipped", 1.0, 2.0 - 2 * shift),
                        ("classes", 0.0, 0.1),
                    ):
                        adjusted = term + 1e-3 * kappa**slope * (1 + 1e-3 * draw.standard_normal())
                        change = scale * adjusted + offset + 0.1 * width**-power
                        rows.append(
                            {
                                "dataset": dataset,
                                "seed": seed,
                                "kappa": kappa,
                                "width": width,
                                "family": family,
                            }
                            | {"step": step, "term": term, "adjusted": adjusted}
                            | {"change": change * (1 + 1e-3 * draw.standard_normal())}
                        )
    return pd.DataFrame(rows)


def claims(table, parameters=None):
    values = parameters or PARAMETERS | {"datasets": ["one", "two"]}
    return {claim.id: claim for claim in judged(reading.STATEMENTS, table, values)}


def outcomes(table, parameters=None):
    return {id: claim.outcome for id, claim in claims(table, parameters).items()}


def said(table):
    return reading.finding(table, PARAMETERS | {"datasets": ["one", "two"]}, claims(table))


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, set()),
        ({"scale": 1.2}, {"term-one", "term-two", "width-rate", "rotated-0", "rotated-90", "flipped-1"}),
        ({"power": 0.1}, {"width-rate"}),
        ({"slope": 2.0}, {"kappa-rate"}),
        (
            {"offset": 0.2},
            {"rotated-0", "rotated-90", "flipped-1", "classes-0", "width-rate", "term-one", "term-two"},
        ),
        ({"shift": 1.5}, {"similar-one", "similar-two", "reverse-one", "reverse-two"}),
    ],
)
def test_claims_come_out_either_way(changes, wrong):
    found = outcomes(made_up(**changes))
    assert {id for id, outcome in found.items() if outcome == CONTRADICTED} == wrong
    assert {outcome for id, outcome in found.items() if id not in wrong} == {HOLDS}


def test_claims_on_nothing_and_on_little(table):
    assert set(outcomes(table.iloc[:0]).values()) == {NOT_RUN}
    assert reading.key_numbers(table.iloc[:0], PARAMETERS) == []
    little = table[(table.width == 64) & (table.kappa == 0.3) & (table.seed == 0)]
    found = outcomes(little, PARAMETERS | {"kappas": [0.3], "datasets": ["digits"]})
    assert found["width-rate"] == found["kappa-rate"] == NOT_RUN and found["term-digits"] == NOT_JUDGED


def test_the_finding_follows_the_verdicts():
    assert "as the theorem says: the change is at most 0.0 % off the predicted one." in said(made_up())
    wide = made_up()
    for seed, scale in zip(range(reading.SEEN, reading.SEEN + 3), (1.0, 1.04, 1.08), strict=True):
        wide.loc[(wide.dataset == "two") & (wide.seed == seed), "change"] *= scale
    assert (
        "(the other undecided): on two the distance from the predicted change shrinks 1.3-fold as the layer "
        "widens, to 4.0 % (we allow 5 %)." in said(wide)
    )
    assert "With the same classes in both tasks the gradient falls; the tasks are small." in said(made_up())
    assert "With the same classes in both tasks the gradient rises;" in said(made_up(shift=1.5))
    turned = made_up()
    turned.loc[(turned.dataset == "two") & (turned.seed == reading.SEEN), "change"] *= -1
    assert "the gradient falls on 1 of 2 data sets (the other undecided)" in said(turned)
    assert said(made_up(scale=1.2)).startswith("Pre-training does not change")
    assert "does not shrink as the layer widens and is 23.4 %" in said(made_up(scale=1.2, power=-1e-3))
    by_width = reading.by_width(made_up(scale=1.2), PARAMETERS, "one")
    assert list(by_width) == [10, 1000, 100000] and by_width[100000] == pytest.approx(1.2, abs=0.01)
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("kappas", [0.0]), ("widths", [1]), ("angles", [360.0]), ("shares", [1.5]), ("datasets", [])],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/thm01_lipschitz")
    with pytest.raises(AlignbookError, match=name) as refused:
        parameters.resolve(book, "quick", {name: value})
    assert "\n" not in str(refused.value)
