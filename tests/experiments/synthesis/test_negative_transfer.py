"""Interventions change what they should and nothing else; statements come out either way."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.statements import judged
from companion.studies.synthesis.negative_transfer import arms, experiment, reading
from tests import judging


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_errors_are_those_of_gradient_descent():
    phi, y = experiment.with_constant(draw(30, 8)), draw(30, seed=1)
    phi_test, y_test = experiment.with_constant(draw(50, 8, seed=2)), draw(50, seed=3)
    weights, errors = np.zeros(9), {}
    for step in range(1, 101):
        weights -= phi.T @ (phi @ weights - y) / len(y)
        errors[step] = np.square(phi_test @ weights - y_test).mean()
    steps = np.unique(np.geomspace(1, 100, experiment.STEP_COUNTS).round())
    found = experiment.test_errors(phi, y, phi_test, y_test, 100)
    np.testing.assert_allclose(found, [errors[step] for step in steps], rtol=1e-10)


def test_singular_values_change_places_and_directions_do_not():
    phi = experiment.with_constant(draw(40, 5))
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    order = np.array([3, 0, 5, 1, 4, 2])
    mapped = experiment.reordered(phi, singular, right, order)
    scale = np.linalg.norm(mapped) / np.linalg.norm(phi)
    np.testing.assert_allclose(mapped, scale * (left * singular[order]) @ right, atol=1e-12)
    assert np.linalg.norm(mapped, axis=1).max() == pytest.approx(1)


def test_only_silent_units_are_revived_and_restored_alignment_is_the_largest():
    untrained, transferred, more = (np.maximum(draw(60, 6, seed=n), 0) for n in range(3))
    transferred[:, 2] = 0
    labels = draw(60, seed=4)
    features = experiment.arms(untrained, transferred, more, transferred.max(0) == 0, labels, 50, seed=0)
    assert set(features) == set(arms.ARMS)
    revived = transferred.copy()
    revived[:, 2] = untrained[:, 2]
    np.testing.assert_allclose(features[arms.REVIVED], experiment.with_constant(revived))

    def along_largest(phi):
        left, singular, _ = np.linalg.svd(phi[:50], full_matrices=False)
        return singular @ np.square(left.T @ labels[:50]) / singular.sum()

    restored = along_largest(features[arms.REALIGNED])
    assert restored > along_largest(features[arms.TRANSFERRED])
    assert restored > along_largest(features[arms.SHUFFLED])


def made_up(**log2):
    """Runs at two step sizes with these log2 errors of arms, others 0, and little noise."""
    return judging.rows(
        0.004,
        seed=range(4),
        step_size=[0.001, 0.01],
        task="unrelated",
        arm=[*arms.ARMS],
        best=lambda row: 2 ** (log2.get(row.arm, 0.0) + row.noise),
    )


IDS = ("harm", "revived", "realigned", "healed", "information")


@pytest.mark.parametrize(
    ("log2", "outcomes"),
    [
        ({"transferred": 1, "revived": 1, "shuffled": 1}, (HOLDS, NO_EFFECT, HOLDS, HOLDS, HOLDS)),
        ({"transferred": 1, "realigned": 1}, (HOLDS, HOLDS, NO_EFFECT, CONTRADICTED, HOLDS)),
        ({"transferred": -1, "revived": 1, "realigned": 1}, (*[CONTRADICTED] * 5,)),
        ({"transferred": 1, "added": 1}, (HOLDS, HOLDS, HOLDS, HOLDS, NO_EFFECT)),
    ],
)
def test_statements_come_out_either_way(log2, outcomes):
    claims = judged(reading.STATEMENTS, made_up(**log2), {"step_sizes": [0.001, 0.01]})
    assert {claim.id.split("-")[0]: claim.outcome for claim in claims} == dict(
        zip(IDS, outcomes, strict=True)
    )


def test_shares_of_the_harm():
    table = made_up(transferred=1.0, revived=0.75, realigned=0.0)
    assert reading.share("revived")(table, {}, step_size=0.001) == pytest.approx(25, abs=2)
    assert reading.share("realigned")(table, {}, step_size=0.01) == pytest.approx(100, abs=2)
