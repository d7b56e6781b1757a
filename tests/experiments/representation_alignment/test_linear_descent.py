"""Equation 3, the first step below a level and gradient descent, beside plain loops."""

import numpy as np
import pytest

from companion.studies.representation_alignment.shared import linear_descent


def problem(n, d, rank=None, seed=0):
    draw = np.random.default_rng(seed)
    phi = (
        draw.normal(size=(n, d))
        if rank is None
        else draw.normal(size=(n, rank)) @ draw.normal(size=(rank, d))
    )
    return phi / np.linalg.norm(phi, axis=1, keepdims=True), draw.normal(size=n)


@pytest.mark.parametrize("n, d, rank", [(20, 7, None), (7, 20, None), (20, 9, 3), (1, 1, None)])
@pytest.mark.parametrize("multiple", [0.1, 1.0, 1.9, 2.1])
def test_equation_3_against_a_loop(n, d, rank, multiple):
    phi, y = problem(n, d, rank)
    left, singular = linear_descent.spectrum(phi)
    gains = np.square(left.T @ y)
    rate = multiple / singular[0] ** 2
    weights = np.zeros(d)
    best = phi @ np.linalg.lstsq(phi, y, rcond=None)[0]
    loss, distance = linear_descent.descend(phi, y, [rate, 40.0], 60)  # the other one diverges
    equation = linear_descent.reducible(singular, gains, rate, np.arange(61))
    for t in range(61):
        assert loss[t, 0] == pytest.approx(np.sum((phi @ weights - y) ** 2), rel=1e-9, abs=1e-12)
        assert distance[t, 0] == pytest.approx(np.sum((phi @ weights - best) ** 2), rel=1e-9, abs=1e-12)
        assert equation[t] == pytest.approx(distance[t, 0], rel=1e-9, abs=1e-12)
        weights = weights - rate * phi.T @ (phi @ weights - y)


@pytest.mark.parametrize("multiple", [0.3, 1.0, 1.7])
def test_first_steps_against_counting(multiple):
    singular, gains = np.array([3.0, 1.0, 0.3]), np.array([5.0, 2.0, 1.0])
    rate = multiple / 9
    levels = np.array([9.0, 8.0, 4.0, 1.0, 0.5, 1e-3])
    curve = linear_descent.reducible(singular, gains, rate, np.arange(5000))
    counted = [np.argmax(curve <= level) for level in levels]
    assert linear_descent.first_steps(singular, gains, rate, levels).tolist() == counted


def test_what_is_never_reached():
    singular, gains = np.array([2.0, 1.0]), np.ones(2)
    assert np.isinf(linear_descent.first_steps(singular, gains, 0.1, [0.0, -1.0])).all()
    assert np.isinf(linear_descent.first_steps(singular, gains, 2.1 / 4, [0.5])).all()
    # A step of exactly 1/σ² ends a process at once; beyond 2^53 steps are counted as floats.
    assert linear_descent.reducible(np.ones(1), np.ones(1), 1.0, [0, 1]).tolist() == [1.0, 0.0]
    slow = linear_descent.first_steps(np.array([1.0, 1e-9]), gains, 0.5, [0.5])[0]
    assert slow == pytest.approx(np.log(2) / 2 / 0.5e-18, rel=1e-6)


def test_linear_models_are_gradient_descent():
    draw = np.random.default_rng(0)
    phi, phi_test = draw.normal(size=(12, 20)), draw.normal(size=(5, 20))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    y, y_test = draw.normal(size=12), draw.normal(size=5)
    size = 1.9 * 12 / np.linalg.norm(phi, 2) ** 2  # close to where it diverges: factors below 0
    steps = np.array([0, 1, 2, 7])
    found = linear_descent.linear_model(phi, y, phi_test, y_test, size, steps)
    weights, train_error, test_error = np.zeros(20), [], []
    for _ in range(8):
        train_error.append(np.mean((phi @ weights - y) ** 2))
        test_error.append(np.mean((phi_test @ weights - y_test) ** 2))
        weights -= size / 12 * phi.T @ (phi @ weights - y)
    np.testing.assert_allclose(found["train_error"], np.array(train_error)[steps], rtol=1e-9)
    np.testing.assert_allclose(found["test_error"], np.array(test_error)[steps], rtol=1e-9)
