"""Propositions 1 and 2, Figure 9: on small features, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS
from companion.studies.representation_alignment.prop01_convergence import experiment, reading
from tests import judging

PARAMETERS = judging.given("representation_alignment/prop01_convergence", width=80)


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


claims, outcomes = judging.of(reading)


def test_everything_holds_but_the_printed_scale(table):
    found = outcomes(table)
    assert found.pop("unit-rows") == CONTRADICTED and set(found.values()) == {HOLDS}
    by_hand = (5 * 115**2 + 5 * 70**2 + 40 * 30**2) / 1000
    assert claims(table)["unit-rows"].measured == pytest.approx(by_hand)


def test_a_wrong_equation_disagrees(table):
    table = table.copy()
    table.loc[table["multiple"] == 0.5, "deviation"] = 1e-3
    assert outcomes(table)["equation-3"] == CONTRADICTED


def test_diverging_runs_are_compared_while_they_are_small(table):
    rows = table[(table["kind"] == "loss") & (table["multiple"] == 2.1)]
    assert 1e3 < rows["loss"].max() <= experiment.LARGEST
    falls = table[table["kind"] == "deviation"].groupby("multiple")["falls"].max()
    assert falls[[0.5, 1.9, 2.1]].tolist() == [1, 1, 0]


def test_the_bound_is_met_where_one_process_has_all_the_loss():
    rows = reading.bounds(np.array([1.0, 0.01]), np.array([0.0, 1.0]), 0.5)
    assert rows["needed"].iloc[1] == pytest.approx(rows["bound"].iloc[1], rel=1e-3)
    assert rows["bound"].iloc[1] == pytest.approx(np.log(10) / 1e-4)


def test_the_best_threshold_gives_a_bound_and_the_least():
    singular, gains = np.array([3.0, 1.0, 0.1]), np.array([1.0, 6.0, 0.5])
    needed, bound = reading.best_bound(singular, gains, 0.5, ratio=0.6)
    # 0.6 of 7.5 is 4.5: of the alignments 1, 7 and 7.5 the last two are enough.
    by_hand = [-np.log(1 - 4.5 / 7) / (2 * 0.5 / 9), -np.log(0.4) / (2 * 0.5 / 9 * 0.01)]
    assert bound == np.ceil(min(by_hand)) >= needed
    left = reading.reducible(singular, gains, 0.5 / 9, [needed - 1, needed])
    assert left[0] > 3.0 >= left[1]


def test_how_tight_the_bound_is_never_exceeds_1():
    """2 steps of a bound of 2.56, rounded up to 3, and 5 of one of 4.61, which 5 exceeds, rounded up to 5."""
    squares = (0.9, 0.5)  # labels along u_2, at this share of σ_1²

    def sigma(row):
        return squares[row.seed] ** 0.5 if row.index == 2 else 1.0

    about = {"kind": "spectrum", "representation": "init", "seed": range(2)}
    table = judging.rows(**about, index=[1, 2], sigma=sigma, gain=lambda row: row.index - 1.0)
    found = {seed: reading.best_bound(*values, 0.5) for (seed, _), values in reading.spectra(table).items()}
    assert found == {0: (2, 3), 1: (5, 5)}
    assert reading.tightness(table, PARAMETERS, "init").tolist() == pytest.approx([2 / 3, 1])
    assert reading.whole(2 * (1 + 1e-15)) == 2


def test_the_bound_fails_beyond_the_printed_step_size():
    def above(multiple):
        one = {"kind": "spectrum", "seed": 0, "representation": "init", "index": [1, 2], "gain": [1.0, 0.0]}
        return reading.above_bound(pd.DataFrame(one | {"sigma": [3.0, 1.0]}), {"step_size": multiple})

    assert above(0.9) == 0 < above(1.9)
    assert np.isinf(above(2.1))


def test_where_the_two_labels_cross(table):
    found = reading.crossing(table, 0.5)
    assert len(found) == 3 and found["step"].notna().all()
    singular, _ = reading.spectra(table)[1, "transfer"]
    first, second = (
        reading.reducible(singular, gains, 0.5 / singular[0] ** 2, np.arange(found["step"][1] + 1))
        for gains in reading.two_labels(singular).values()
    )
    assert second[-1] >= first[-1] and (second[1:-1] < first[1:-1]).all()


def test_labels_that_do_not_cross(table):
    # The 50th singular value is the 10th: y_2's slow part is as fast as y_1.
    flat = table.copy()
    flat.loc[(flat["kind"] == "spectrum") & flat["index"].between(1, 5), "sigma"] = 3 + 0.1 * flat["seed"]
    flat.loc[(flat["kind"] == "spectrum") & flat["index"].between(6, 50), "sigma"] = 2.0
    assert outcomes(flat)["cross"] == CONTRADICTED
