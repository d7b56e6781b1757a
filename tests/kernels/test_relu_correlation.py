"""The recursion against the paper's formula in 40-digit arithmetic, and against its expansion."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from alignbook.kernels.relu_correlation import relu_correlation, relu_correlations


def reference(distance, layers):
    """1 - c_l and log g'(c_l) from Equation 3 (arcsin form), 40 digits; -inf where g' = 0."""
    with mpmath.workdps(40):
        c, rows = 1 - mpmath.mpf(distance), []
        for _ in range(layers):
            gain = mpmath.asin(c) / mpmath.pi + mpmath.mpf(1) / 2
            rows.append((float(1 - c), float(mpmath.log(gain)) if gain else -math.inf))
            c = (c * mpmath.asin(c) + mpmath.sqrt(1 - c * c)) / mpmath.pi + c / 2
    return np.array(rows).T


@pytest.mark.parametrize("distance", [2.0, 1.0, 0.5, 0.01, 1e-8])
def test_against_forty_digits(distance):
    u, slope = relu_correlation(distance, 1500)
    exact_u, exact_slope = reference(distance, 1500)
    np.testing.assert_allclose(u, exact_u, rtol=1e-13, atol=0)
    np.testing.assert_allclose(slope, exact_slope, rtol=1e-13, atol=0)


@settings(deadline=None, max_examples=20)
@given(st.floats(1e-12, 2), st.floats(1e-12, 2))
def test_order_of_pairs_is_kept(a, b):
    """g and g' increase with c: of two pairs the closer one stays closer and keeps the larger gain."""
    near, far = sorted((a, b))
    (u_near, slope_near), (u_far, slope_far) = relu_correlation(near, 50), relu_correlation(far, 50)
    assert (u_near <= u_far * (1 + 1e-12)).all()
    assert (slope_near >= slope_far - 1e-12).all()
    assert (np.diff(u_far) < 0).all()


def test_identical_inputs_stay_identical():
    u, slope = relu_correlation(0.0, 10)
    assert not u.any() and not slope.any()


def test_many_pairs_are_each_followed_alone():
    distances = [2.0, 1.3, 0.2, 0.12, 1e-3, 1e-9, 0.0]
    u, slope = relu_correlations(np.array(distances), 150)
    assert u.shape == slope.shape == (150, len(distances))
    for place, distance in enumerate(distances):
        alone = relu_correlation(distance, 150)
        np.testing.assert_allclose(u[:, place], alone[0], rtol=1e-13, atol=0)
        np.testing.assert_allclose(slope[:, place], alone[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize(("distance", "layers"), [(-1e-9, 5), (2.1, 5), (math.nan, 5), (1.0, 0)])
def test_out_of_range(distance, layers):
    with pytest.raises(ValueError):
        relu_correlation(distance, layers)
    with pytest.raises(ValueError):
        relu_correlations(np.array([distance]), layers)
