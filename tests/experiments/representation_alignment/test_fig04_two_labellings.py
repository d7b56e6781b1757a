"""Figure 4: the circle and its labellings, and claims that can come out either way."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig04_two_labellings import design, reading
from tests import judging

claims, outcomes = judging.of(reading)


@pytest.fixture
def table(smoke):
    return smoke("representation_alignment/fig04_two_labellings").table


def test_both_labellings_are_separated_by_a_line():
    phi, labels = design.circle(501, 0.3, seed=1)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1)
    for name, direction in (("first", (1, 1)), ("second", (-1, 1))):
        assert (labels[name] * (phi @ direction) > 0).all()
    assert labels["first"].sum() == -1 and abs(labels["second"].mean()) < 0.2


def test_alignment_by_the_definition(table):
    row = table[(table["points"] == 20) & (table["seed"] == 2) & (table["labelling"] == "second")].iloc[0]
    phi, labels = design.circle(20, 0.3, seed=2)
    left, singular, _ = np.linalg.svd(phi)
    shares = np.square(left.T @ labels["second"]) / 20
    np.testing.assert_allclose(row[["sigma1", "sigma2"]].astype(float), singular)
    np.testing.assert_allclose(row[["along1", "along2"]].astype(float), shares[:2], atol=1e-12)
    assert row["sigma1"] ** 2 + row["sigma2"] ** 2 == pytest.approx(20)


def test_equation_3_counts_the_steps_that_are_run(table):
    assert (table["steps"] == table["steps_run"]).all() and table["deviation"].max() < 1e-12
    assert table["steps"].min() > 0


def test_claims_hold_and_fail(table):
    # The printed singular values are not those of 1000 points, whatever the runs say.
    either = {"trace": CONTRADICTED}
    assert outcomes(table) == {"higher": HOLDS, "faster": HOLDS} | either
    assert claims(table)["trace"].measured == pytest.approx((9.58**2 + 2.84**2) / 1000)
    swapped = table.assign(labelling=table["labelling"].map({"first": "second", "second": "first"}))
    assert outcomes(swapped) == {"higher": CONTRADICTED, "faster": CONTRADICTED} | either


def test_labellings_that_do_not_differ(table):
    rows = table.assign(along1=0.6 + 0.001 * table["seed"], along2=0.2, steps=9.0 + table["seed"])
    second = rows["labelling"] == "second"
    rows.loc[second, "along1"] += 0.003 * rows["seed"]
    rows.loc[second, "steps"] += 0.1 * rows["seed"]
    assert outcomes(rows)["higher"] == outcomes(rows)["faster"] == NO_EFFECT
