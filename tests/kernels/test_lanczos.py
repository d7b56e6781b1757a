"""Lanczos against the dense eigendecomposition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from alignbook.kernels.lanczos import lanczos


def matrix(values, seed=0):
    """A symmetric float64 matrix with these eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    size = len(values)
    q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    return q @ torch.diag(torch.as_tensor(values, dtype=torch.float64)) @ q.T


def top(values, k):
    values = np.asarray(values, dtype=np.float64)
    return values[np.argsort(-np.abs(values), kind="stable")][:k]


def solve(h, k, tol=1e-6, basis=60, max_products=2000, seed=0, dtype=torch.float64):
    h = h.to(dtype)
    return lanczos(lambda v: h @ v, len(h), k, tol, basis, max_products, seed, dtype, "cpu")


def check(result, h, expected, rtol=1e-7):
    np.testing.assert_allclose(np.abs(result.values), np.abs(expected), rtol=rtol, atol=1e-10)
    assert result.converged
    vectors = result.vectors.double()
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(expected)), atol=1e-5)
    actual = (vectors @ h - torch.tensor(result.values)[:, None] * vectors).norm(dim=1).numpy()
    assert (actual <= 2 * result.residuals + 1e-12).all()


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**20), size=st.integers(2, 90), k=st.integers(1, 12), extra=st.integers(10, 30))
def test_equals_dense_decomposition(seed, size, k, extra):
    k = min(k, size - 1)
    values = np.random.default_rng(seed).standard_normal(size) ** 3  # both signs, a few stand out
    h = matrix(values, seed)
    check(solve(h, k, basis=k + extra, seed=seed), h, top(values, k))


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e25])
def test_scale_does_not_matter(scale):
    h = matrix(np.concatenate([np.linspace(-1, 1, 60), [2, -3, 4]]))
    plain, scaled = solve(h, 3, dtype=torch.float32), solve(scale * h, 3, dtype=torch.float32)
    assert scaled.converged
    np.testing.assert_allclose(scaled.values / scale, plain.values, rtol=1e-5)


def test_products_that_are_mostly_noise_have_not_converged():
    h, noise = matrix(np.concatenate([np.linspace(-1, 1, 60), [2, -3, 4]])), torch.Generator().manual_seed(0)

    def product(v):
        return h @ v + 1e-3 * torch.randn(len(v), generator=noise, dtype=v.dtype)

    result = lanczos(product, len(h), 3, 1e-4, 40, 2000, 0, torch.float64, "cpu")
    assert not result.converged and result.residuals[0] > 1e-3


def test_restarts_of_a_small_basis_change_nothing():
    values = np.concatenate([np.linspace(-0.99, 1, 300), [1.3, -1.5, 2, 2.5]])
    h = matrix(values)
    small, large = solve(h, 6, basis=16), solve(h, 6, basis=200)
    check(small, h, top(values, 6))
    np.testing.assert_allclose(small.values, large.values, rtol=1e-8)
    assert small.products > large.products


@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 3 + [-4.0] * 4 + list(np.linspace(-0.9, 1, 60)),
        [2.0] * 10 + [1.0] * 10 + list(np.linspace(0, 0.5, 40)),
        [3.0] * 2 + [0.0] * 50,  # rank below k
        [1.0] * 40,
        [0.0] * 40,
    ],
)
def test_repeated_eigenvalues_are_counted(values):
    h = matrix(values)
    result = solve(h, 12)
    assert result.converged
    np.testing.assert_allclose(np.sort(result.values), np.sort(top(values, 12)), atol=1e-5)


def test_float32_reaches_its_tolerance_and_says_what_rounding_leaves():
    values = np.concatenate([np.linspace(0, 1, 400), [50, 20, -10, 5]])
    h = matrix(values)
    result = solve(h, 8, tol=1e-12, dtype=torch.float32)  # more than float32 can give: rounding decides
    check(result, h, top(values, 8), rtol=1e-5)
    assert 1e-7 < result.residuals[0] < 1e-3


def test_seed_decides_and_no_convergence_is_said():
    h = matrix(np.linspace(-1, 1, 500))
    first, second, other = (solve(h, 5, max_products=40, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.vectors, second.vectors) and (first.values == second.values).all()
    assert not torch.equal(first.vectors, other.vectors)
    assert not first.converged and first.products == 41
    assert first.residuals.max() > 1e-6
    actual = (first.vectors @ h - torch.tensor(first.values)[:, None] * first.vectors).norm(dim=1)
    np.testing.assert_allclose(first.residuals, actual, atol=2 * float(actual[0]) + 1e-12)


def test_products_that_are_not_finite():
    with pytest.raises(ValueError, match="not finite"):
        lanczos(lambda v: v * np.nan, 10, 2, 1e-3, 8, 100, 0, torch.float64, "cpu")
