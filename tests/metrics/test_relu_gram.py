"""The Gram matrix against Monte Carlo, the theorems' terms against plain linear algebra."""

import math

import numpy as np
import pytest
import torch

from alignbook.metrics.relu_gram import deviation_bound, gradient_term, relu_gram, solve, transformed_labels
from alignbook.seeding import torch_stream


def rows(n, d, name):
    x = torch.randn(n, d, generator=torch_stream(0, "test-gram", name), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True)


def test_gram_is_the_expectation_over_random_weights():
    """E[x'x' 1{w'x ≥ 0} 1{w'x' ≥ 0}], 200,000 draws; the standard error is at most 1/(2 sqrt(draws))."""
    draws = 200_000
    x, other = rows(5, 3, "x"), rows(4, 3, "other")
    w = torch.randn(draws, 3, generator=torch_stream(0, "test-gram", "w"), dtype=torch.float64)
    active = [(w @ part.T >= 0).double() for part in (x, other)]
    plain = (x @ other.T) * (active[0].T @ active[1]) / draws
    np.testing.assert_allclose(relu_gram(x, other), plain, atol=5 * 0.5 / math.sqrt(draws))


def test_gram_of_known_angles():
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=torch.float64)
    found = relu_gram(x)
    np.testing.assert_allclose(found.diagonal(), 0.5)
    np.testing.assert_allclose(
        found[0], [0.5, 0, 0, 0.6 * (math.pi - math.acos(0.6)) / (2 * math.pi)], atol=1e-15
    )
    np.testing.assert_array_equal(found, found.T)


def test_labels_carried_to_their_own_inputs_stay():
    x, y = rows(7, 4, "own"), torch.tensor([1.0, -1, 1, 1, -1, -1, 1])
    np.testing.assert_allclose(transformed_labels(x, y, x), y, atol=1e-10)
    two = transformed_labels(x, torch.stack([y, -2 * y], dim=1), x[:3])
    np.testing.assert_allclose(two, torch.stack([y, -2 * y], dim=1)[:3], atol=1e-10)


def test_terms_against_plain_inverses():
    x_p, x_q = rows(6, 9, "p"), rows(5, 9, "q")
    y_p, y_q = torch.tensor([1.0, -1, 1, 1, -1, 1]), torch.tensor([1.0, -1, -1, 1, 0.5])
    carried = relu_gram(x_p, x_q).numpy().T @ np.linalg.inv(relu_gram(x_p).numpy()) @ y_p.numpy()
    np.testing.assert_allclose(transformed_labels(x_p, y_p, x_q), carried, rtol=1e-10)
    # -y'y + |y - ŷ|² = |ŷ|² - 2 y'ŷ
    term = gradient_term(y_q, torch.from_numpy(carried))
    assert term == pytest.approx(carried @ carried - 2 * y_q.numpy() @ carried)
    gap = y_q.numpy() - carried
    bound = math.sqrt(gap @ np.linalg.inv(relu_gram(x_q).numpy()) @ gap)
    assert deviation_bound(x_q, torch.from_numpy(gap)) == pytest.approx(bound)


def test_what_has_no_gram_matrix():
    x = rows(3, 4, "bad")
    with pytest.raises(ValueError, match="norm 1"):
        relu_gram(2 * x)
    with pytest.raises(ValueError, match="norm 1"):
        relu_gram(x, x * 1.001)
    with pytest.raises(ValueError, match="singular"):
        solve(relu_gram(torch.cat([x, -x[:1], x[:1]])), torch.ones(5))
