"""Theorem 1: a small run against the infinite-width limit, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.transferability.thm01_lipschitz import experiment as thm01

PARAMETERS = {
    "datasets": ["digits"], "kappas": [0.1, 0.3, 1.0], "widths": [64, 2048], "angles": [0.0, 90.0],
    "shares": [1.0], "examples": 10, "step_size": 1.0, "tolerance": 0.01, "steps": 2000, "seeds": 3,
}  # fmt: skip


def compute(unit):
    progress = []
    table = unit.compute(
        **unit.arguments, device=torch.device("cpu"), report=lambda done, text: progress.append(done)
    )
    assert progress == sorted(progress) and progress[-1] == pytest.approx(1)
    return table.assign(dataset=unit.arguments["dataset"], seed=unit.arguments["seed"], unit=unit.name)


@pytest.fixture(scope="module")
def table():
    return pd.concat(map(compute, thm01.units(PARAMETERS)), ignore_index=True)


def test_rows(table):
    assert len(table) == 3 * 3 * 2 * 4 and not table.isna().any().any()
    assert (table.residual <= 0.01).all() and (table.trained > 1).all()
    # The reverse labels: the quadratic part of the term stays, the linear one changes its sign.
    turned = table[table.family == "flipped"].term.to_numpy()
    same = table[(table.family == "rotated") & (table.step == 0)].term.to_numpy()
    assert (turned > 0).all() and (turned > same).all()


def test_wide_networks_reach_the_limit(table):
    """Width 2048 at κ = 0.3: within 0.05 of the limit for its random outputs; width 64 is further off."""
    rows = thm01.at(table, kappa=0.3)
    near = thm01.per_seed(thm01.at(rows, width=2048), lambda part: thm01.distance(part, "adjusted"))
    far = thm01.per_seed(thm01.at(rows, width=64), lambda part: thm01.distance(part, "adjusted"))
    assert near.max() < 0.05 < far.mean()
    small = thm01.at(table, width=2048, kappa=0.1)
    assert thm01.coefficient(small) == pytest.approx(1, abs=0.15)


def test_same_seed_same_bits(table):
    unit = thm01.units(PARAMETERS)[1]
    pd.testing.assert_frame_equal(compute(unit), table[table.unit == unit.name].reset_index(drop=True))


def made_up(scale=1.0, power=0.5, slope=1.0, offset=0.0, shift=0.0):
    """change = scale × term + what κ adds + a width's error of m^-power; spread over seeds is small."""
    rows, draw = [], np.random.default_rng(0)
    for dataset in ("one", "two"):
        for seed in range(3):
            for kappa in (0.1, 0.3, 1.0):
                for width in (10, 1000, 100000):
                    for family, step, term in (
                        ("rotated", 0.0, -0.8 + shift),
                        ("rotated", 90.0, 0.3),
                        ("flipped", 1.0, 2.0 - 2 * shift),
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


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, set()),
        ({"scale": 1.2}, {"term", "width-rate", "rotated-0", "rotated-90", "flipped-1"}),
        ({"power": 0.1}, {"width-rate"}),
        ({"slope": 2.0}, {"kappa-rate"}),
        ({"offset": 0.2}, {"rotated-0", "rotated-90", "flipped-1", "width-rate", "term"}),
        ({"shift": 1.5}, {"similar-one", "similar-two", "reverse-one", "reverse-two"}),
    ],
)
def test_claims_come_out_either_way(changes, wrong):
    claims = {claim.id: claim for claim in thm01.claims(made_up(**changes), PARAMETERS)}
    assert {name for name, claim in claims.items() if claim.outcome == "contradicted"} == wrong
    assert all(claim.outcome == "holds" for name, claim in claims.items() if name not in wrong)


def test_claims_on_nothing_and_on_little(table):
    assert {claim.outcome for claim in thm01.claims(table.iloc[:0], PARAMETERS)} == {"not run"}
    assert thm01.key_numbers(table.iloc[:0], PARAMETERS) == []
    little = table[(table.width == 64) & (table.kappa == 0.3) & (table.seed == 0)]
    found = {claim.id: claim.outcome for claim in thm01.claims(little, PARAMETERS | {"kappas": [0.3]})}
    assert found["width-rate"] == found["kappa-rate"] == "not run" and found["term"] == "undecided"
    assert thm01.HEADLINE in found


def test_finding_follows_the_numbers():
    good, bad = (thm01.finding(made_up(shift=s), PARAMETERS) for s in (0, 1.5))
    assert "the squared gradient is lower on one, two." in good
    assert "the squared gradient is higher on one, two." in bad
    mixed = made_up()
    turned = (mixed.dataset == "two") & (mixed.seed == 0)
    mixed.loc[turned, "change"] *= -1
    text = thm01.finding(mixed, PARAMETERS)
    assert " on one; undecided on two." in text
    assert "1.20 ± 0.00 times" in thm01.finding(made_up(scale=1.2), PARAMETERS)
    assert len(thm01.key_numbers(made_up(), PARAMETERS)) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("kappas", [0.0]), ("widths", [1]), ("angles", [360.0]), ("shares", [1.5]), ("datasets", [])],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/thm01_lipschitz")
    with pytest.raises(AlignbookError, match=name) as refused:
        parameters.resolve(book, "quick", {name: value})
    assert "\n" not in str(refused.value)
