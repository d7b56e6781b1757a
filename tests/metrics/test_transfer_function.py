"""The transfer function against Definition 3, vector by vector."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group

from alignbook.metrics import transfer_function


def covariance(rng, d):
    root = rng.standard_normal((d, d + 2))
    return root @ root.T / (d + 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_definition_3(seed, d):
    rng = np.random.default_rng(seed)
    cov_x, cov_w = covariance(rng, d), covariance(rng, d)
    sigma, tau = transfer_function(cov_x, cov_w)
    assert sigma.shape == tau.shape == (d,)
    assert (np.diff(sigma) >= 0).all()
    values, vectors = np.linalg.eig(cov_x)  # the general solver: another code path, another order
    for value, vector in zip(values.real, vectors.T.real, strict=True):
        i = np.abs(sigma**2 - value).argmin()
        np.testing.assert_allclose(sigma[i] ** 2, value, rtol=1e-6)
        np.testing.assert_allclose(tau[i] ** 2, vector @ cov_w @ vector, rtol=1e-4)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_aligned_matrices_give_back_the_map(seed):
    rng = np.random.default_rng(seed)
    q = ortho_group.rvs(6, random_state=rng)
    variances = np.array([1.0, 2.0, 2.0, 3.0, 3.0, 3.0])  # eigenspaces of several dimensions
    sigma, tau = transfer_function((q * variances) @ q.T, (q * np.sin(variances) ** 2) @ q.T)
    np.testing.assert_allclose(sigma, np.sqrt(variances))
    np.testing.assert_allclose(tau, np.abs(np.sin(variances)), rtol=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_rotation_of_both_changes_nothing_and_scale_of_weights_scales(seed):
    rng = np.random.default_rng(seed)
    cov_x, cov_w = covariance(rng, 5), covariance(rng, 5)
    u = ortho_group.rvs(5, random_state=rng)
    sigma, tau = transfer_function(cov_x, cov_w)
    turned = transfer_function(u @ cov_x @ u.T, 4 * u @ cov_w @ u.T)
    np.testing.assert_allclose(turned[0], sigma, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(turned[1], 2 * tau, rtol=1e-4)


def test_where_the_basis_is_not_unique_tau_does_not_depend_on_it():
    sigma, tau = transfer_function(np.eye(2), np.diag([1.0, 3.0]))
    np.testing.assert_allclose(tau, np.sqrt([2, 2]))


def test_singular_matrices_and_tensors():
    sigma, tau = transfer_function(torch.diag(torch.tensor([0.0, 4.0])), torch.diag(torch.tensor([9.0, 0.0])))
    np.testing.assert_allclose(sigma, [0, 2])
    np.testing.assert_allclose(tau, [3, 0])


@pytest.mark.parametrize("dimension", [27, 147])
def test_float32_covariances_of_few_filters_are_welcome(dimension):
    generator = torch.Generator().manual_seed(0)
    filters = torch.randn(16, dimension, generator=generator)
    images = torch.randn(4000, dimension, generator=generator)
    sigma, tau = transfer_function(torch.cov(images.T), torch.cov(filters.T))  # one is singular, to rounding
    expected = transfer_function(torch.cov(images.T.double()), torch.cov(filters.T.double()))
    np.testing.assert_allclose(sigma, expected[0], rtol=1e-5)
    np.testing.assert_allclose(tau, expected[1], rtol=1e-2)


@pytest.mark.parametrize(
    ("x", "w", "message"),
    [
        (np.eye(2), np.eye(3), "different shapes"),
        (np.diag([1.0, -1e-5]), np.eye(2), "cov_x is not positive semidefinite"),
        (np.eye(2), np.diag([1.0, -1.0]), "cov_w is not positive semidefinite"),
        (np.eye(2), np.array([[1.0, 1.0], [0.0, 1.0]]), "cov_w is not symmetric"),
    ],
)
def test_bad_input(x, w, message):
    with pytest.raises(ValueError, match=message):
        transfer_function(x, w)
