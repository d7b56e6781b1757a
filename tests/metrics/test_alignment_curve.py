"""The alignment curve against a full singular value decomposition (Imani et al., Equation 2)."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group

from alignbook.metrics import alignment_curve

module = importlib.import_module("alignbook.metrics.alignment_curve")
EXAMPLES = settings(deadline=None, max_examples=40)
shapes = st.tuples(st.integers(1, 14), st.integers(1, 14))  # d may exceed n
seeds = st.integers(0, 2**32 - 1)


def draw(seed, shape):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal(shape) * rng.lognormal(0, 1, shape[1]), rng.standard_normal(shape[0])


def normalised(features, bias):
    if bias:
        features = np.hstack([features, np.ones((len(features), 1))])
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def reference(features, labels, threshold, bias):
    """Equation 2, one term after the other, from the full decomposition."""
    left, singular, _ = np.linalg.svd(normalised(features, bias), full_matrices=True)
    terms = [(left[:, i] @ labels) ** 2 for i in range(len(singular)) if singular[i] >= max(threshold, 1e-12)]
    return sum(terms)


@EXAMPLES
@given(seeds, shapes, st.booleans())
def test_equals_full_decomposition(seed, shape, bias):
    _, features, labels = draw(seed, shape)
    grid = np.array([0.0, 0.03, 0.2, 0.7, 1.1, 2.5, 100.0])
    thresholds, alignment = alignment_curve(features, labels, grid, bias=bias)
    np.testing.assert_array_equal(thresholds, grid)
    expected = [reference(features, labels, threshold, bias) for threshold in grid]
    np.testing.assert_allclose(alignment, expected, rtol=1e-7, atol=1e-9)


@EXAMPLES
@given(seeds, shapes, st.booleans())
def test_default_thresholds_are_the_steps(seed, shape, bias):
    _, features, labels = draw(seed, shape)
    thresholds, alignment = alignment_curve(features, labels, bias=bias)
    singular = np.linalg.svd(normalised(features, bias), compute_uv=False)[::-1]
    singular = singular[singular > 1e-9]
    assert thresholds[0] == 0
    np.testing.assert_allclose(thresholds[1:], singular, rtol=1e-7)
    assert (np.diff(alignment) <= 0).all()
    assert alignment[0] == alignment[1]  # all singular values are at least the smallest
    assert 0 <= alignment[-1] and alignment[0] <= labels @ labels * (1 + 1e-12)
    # Eq. 2 says σ ≥ τ: just above a singular value its term is gone.
    above = alignment_curve(features, labels, thresholds[1:] * (1 + 1e-9), bias=bias)[1]
    np.testing.assert_allclose(above, np.append(alignment[2:], 0), rtol=1e-9, atol=1e-12)


@EXAMPLES
@given(seeds, shapes, st.booleans())
def test_total_is_the_projection_on_the_span(seed, shape, bias):
    rng, features, labels = draw(seed, shape)
    if seed % 2:  # rank deficient
        features = features @ np.diag(rng.integers(0, 2, shape[1])) @ ortho(rng, shape[1])
    if not bias:
        features[:, 0] += 3  # no row of zeros
    rows = normalised(features, bias)
    projected = rows @ np.linalg.lstsq(rows, labels, rcond=1e-12)[0]
    total = alignment_curve(features, labels, [0.0], bias=bias)[1]
    np.testing.assert_allclose(total, [projected @ projected], rtol=1e-7, atol=1e-9)


def ortho(rng, d):
    return ortho_group.rvs(d, random_state=rng) if d > 1 else -np.ones((1, 1))


@EXAMPLES
@given(seeds, shapes, st.booleans())
def test_invariant_under_rotation_of_the_features(seed, shape, bias):
    rng, features, labels = draw(seed, shape)
    grid = np.array([0.0, 0.05, 0.5, 1.5])
    plain = alignment_curve(features, labels, grid, bias=bias)[1]
    turned = alignment_curve(features @ ortho(rng, shape[1]), labels, grid, bias=bias)[1]
    np.testing.assert_allclose(turned, plain, rtol=1e-7, atol=1e-9)


@EXAMPLES
@given(seeds, shapes)
def test_scale_of_rows_drops_out_without_bias_and_order_never_matters(seed, shape):
    rng, features, labels = draw(seed, shape)
    grid = np.array([0.0, 0.05, 0.5, 1.5])
    plain = alignment_curve(features, labels, grid, bias=False)[1]
    order = rng.permutation(shape[0])
    scaled = (features * rng.lognormal(0, 30, (shape[0], 1)))[order]
    np.testing.assert_allclose(
        alignment_curve(scaled, labels[order], grid, bias=False)[1], plain, rtol=1e-7, atol=1e-9
    )


def test_rows_of_zeros():
    features, labels = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([2.0, 5.0])
    np.testing.assert_allclose(alignment_curve(features, labels, bias=False), ([0, 1], [4, 4]))
    assert alignment_curve(features, labels, [0.0])[1] == pytest.approx(29)  # the constant is there
    thresholds, alignment = alignment_curve(np.zeros((2, 2)), labels, bias=False)
    np.testing.assert_array_equal((thresholds, alignment), ([0], [0]))


def with_singular_values(seed, n, d, values):
    """(n, d) with these singular values, and labels with a part along every left singular vector."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((n, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((d, len(values))))[0]
    return (left * values) @ right.T, rng.standard_normal(n), left


@pytest.mark.parametrize("shape", [(300, 12), (13, 12), (12, 12), (12, 13), (12, 300)])
@pytest.mark.parametrize("decades", range(1, 11))
def test_both_routes_on_either_side_of_the_border(shape, decades):
    n, d = shape
    values = np.logspace(0, -decades, 12)
    features, labels, left = with_singular_values(decades, n, d, values)
    singular, projections = module._project(np.copy(features, order="F" if n >= d else "C"), labels)
    # The matrix itself is known to rounding of its largest singular value, and its vectors accordingly.
    np.testing.assert_allclose(singular, values, rtol=1e-12 * 10**decades, atol=0)
    exact = np.square(labels @ left)
    atol = 1e-13 * 10**decades * (labels @ labels)
    np.testing.assert_allclose(np.square(projections), exact, rtol=0, atol=atol)
    if decades <= 6:  # what the docstring promises
        assert atol <= 1e-6 * (labels @ labels)
    tall = np.copy(features if n >= d else features.T, order="F")
    taken = module._cholesky_twice(tall, np.zeros(len(tall))) is not None
    assert taken or decades > 6
    assert not taken or decades < 9


@pytest.mark.parametrize("shape", [(400, 20), (21, 20), (20, 20), (15, 40)])
@pytest.mark.parametrize("kind", ["duplicates", "almost duplicates", "dead units", "constant", "rank one"])
def test_dependent_features(shape, kind):
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal(shape), rng.standard_normal(shape[0])
    if kind.endswith("duplicates"):
        features[:, 10:] = features[:, :10].repeat(4, axis=1)[:, : shape[1] - 10]
        features[:, 10:] += 1e-8 * rng.standard_normal(features[:, 10:].shape) * (kind != "duplicates")
    elif kind == "dead units":
        features[:, ::3] = 0
        features[::4] = 0
    elif kind == "constant":
        features[:, 3] = 2
    else:
        features = np.outer(features[:, 0], features[0])
    before = features.copy()
    grid = np.array([1e-5, 0.01, 0.1, 1.1])
    alignment = alignment_curve(features, labels, grid)[1]
    expected = [reference(features, labels, threshold, True) for threshold in grid]
    np.testing.assert_allclose(alignment, expected, atol=1e-7 * (labels @ labels))
    np.testing.assert_array_equal(features, before)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    features, labels = rng.standard_normal((101, 7)), rng.standard_normal(101)
    whole = alignment_curve(features, labels)
    for block in (1, 50, 300):
        monkeypatch.setattr(module, "BLOCK", block)
        np.testing.assert_allclose(alignment_curve(features, labels), whole, rtol=1e-12)


def test_many_examples_without_a_square_matrix():
    features = np.random.default_rng(0).standard_normal((200_000, 3))  # n × n would be 320 GB
    labels = features @ [1.0, -1.0, 0.5]
    thresholds, alignment = alignment_curve(features, labels)
    assert len(thresholds) == 5
    assert alignment[0] < labels @ labels


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.ones((3, 2)), np.ones(2), "do not match"),
        (np.ones((3, 2)), np.ones((3, 1)), "do not match"),
        (np.full((3, 2), np.nan), np.ones(3), "features has entries"),
    ],
)
def test_bad_input(features, labels, message):
    with pytest.raises(ValueError, match=message):
        alignment_curve(features, labels)
