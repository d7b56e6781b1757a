"""Misalignment against Definition 2, and the seven properties of Proposition 2 (Appendix D.4)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group

from alignbook.metrics import misalignment, misalignment_basis, patch_covariance, transfer_function

EXAMPLES = settings(deadline=None, max_examples=40)
cases = st.builds(
    lambda seed, sizes: Case(seed, sizes),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
)


class Case:
    """A with eigenspaces of the given sizes, a random positive definite B."""

    def __init__(self, seed, sizes):
        self.rng = np.random.default_rng(seed)
        self.sizes = sizes
        self.d = sum(sizes)
        self.q = orthogonal(self.rng, self.d)
        self.a = self.aligned(np.cumsum(self.rng.uniform(0.1, 2, len(sizes))))
        root = self.rng.standard_normal((self.d, self.d + 3))
        self.b = root @ root.T / self.d

    def __repr__(self):
        return f"Case({self.sizes}, A={self.a.tolist()}, B={self.b.tolist()})"

    def aligned(self, values):
        """The matrix that is values[i] on the i-th eigenspace."""
        matrix = (self.q * np.repeat(values, self.sizes)) @ self.q.T
        return (matrix + matrix.T) / 2

    def projectors(self):
        ends = np.cumsum(self.sizes)
        return [self.q[:, e - s : e] @ self.q[:, e - s : e].T for s, e in zip(self.sizes, ends, strict=True)]

    def distance(self, sigma):
        """What Definition 2 minimises."""
        inverse = np.linalg.inv
        return np.trace(inverse(sigma) @ self.b + inverse(self.b) @ sigma) / 2 - self.d


def orthogonal(rng, d):
    return ortho_group.rvs(d, random_state=rng) if d > 1 else np.ones((1, 1))


@EXAMPLES
@given(cases)
def test_property_1_not_negative_and_the_infimum_of_definition_2(case):
    score = misalignment(case.a, case.b)
    assert score >= 0
    for _ in range(20):
        sigma = case.aligned(case.rng.lognormal(0, 1, len(case.sizes)))
        assert score <= case.distance(sigma) + 1e-9
    traces = [(np.trace(p @ case.b), np.trace(p @ np.linalg.inv(case.b))) for p in case.projectors()]
    best = case.aligned(np.array([np.sqrt(forward / inverse) for forward, inverse in traces]))
    np.testing.assert_allclose(score, case.distance(best), rtol=1e-8, atol=1e-9)


@EXAMPLES
@given(cases)
def test_property_2_zero_exactly_for_aligned_b(case):
    aligned = case.aligned(case.rng.uniform(0.5, 3, len(case.sizes)))
    assert misalignment(case.a, aligned) < 1e-12 * case.d + 1e-14
    off = aligned - sum(p @ aligned @ p for p in case.projectors())
    assert np.abs(off).max() < 1e-12  # the reference for "aligned" itself
    if case.d > 1:
        # A push within or between eigenspaces that no aligned matrix has.
        push = np.outer(case.q[:, 0], case.q[:, -1])
        assert misalignment(case.a, aligned + 0.1 * (push + push.T)) > 1e-4


def test_property_2_alignment_has_a_direction():
    rng = np.random.default_rng(3)
    q = orthogonal(rng, 4)
    mixed = (q * [1, 2, 3, 4]) @ q.T
    assert misalignment(mixed, np.eye(4)) < 1e-12
    assert misalignment(np.eye(4), mixed) > 0.1


@EXAMPLES
@given(cases)
def test_property_3_continuous_in_b(case):
    score = misalignment(case.a, case.b)
    push = case.rng.standard_normal((case.d, case.d))
    push = (push + push.T) * np.linalg.eigvalsh(case.b)[0] / np.abs(push).sum()
    gaps = [abs(misalignment(case.a, case.b + e * push) - score) for e in (1e-2, 1e-4, 1e-6, 1e-8)]
    for size, gap in zip((1e-2, 1e-4, 1e-6, 1e-8), gaps, strict=True):
        assert gap <= 10 * (case.d + score) * size + 1e-11 * (case.d + score)


@EXAMPLES
@given(cases)
def test_property_4_equivariant_under_the_orthogonal_group(case):
    u = orthogonal(case.rng, case.d)
    turned = misalignment(u @ case.a @ u.T, u @ case.b @ u.T)
    np.testing.assert_allclose(turned, misalignment(case.a, case.b), rtol=1e-8, atol=1e-10)


@EXAMPLES
@given(cases, st.floats(1e-8, 1e8))
def test_property_5_invariant_under_multiples_of_b(case, factor):
    score = misalignment(case.a, case.b)
    np.testing.assert_allclose(misalignment(case.a, factor * case.b), score, rtol=1e-8, atol=1e-10)


@EXAMPLES
@given(cases)
def test_property_6_only_the_eigenspaces_of_a_count(case):
    other = case.aligned(case.rng.permutation(np.arange(1.0, len(case.sizes) + 1)))
    score = misalignment(case.a, case.b)
    np.testing.assert_allclose(misalignment(other, case.b), score, rtol=1e-8, atol=1e-10)


@EXAMPLES
@given(cases)
def test_property_7_closed_form(case):
    inverse = np.linalg.inv(case.b)
    roots = [np.sqrt(np.trace(p @ case.b @ p) * np.trace(p @ inverse @ p)) for p in case.projectors()]
    score = misalignment(case.a, case.b)
    np.testing.assert_allclose(score + case.d, sum(roots), rtol=1e-9)


def test_not_continuous_in_a_and_how_eigenvalues_are_grouped():
    b = np.array([[2.0, 1.0], [1.0, 2.0]])
    apart = misalignment(np.diag([1, 1 + 1e-6]), b)
    together = misalignment(np.diag([1, 1 + 1e-12]), b)
    np.testing.assert_allclose(apart, 2 * np.sqrt(4 / 3) - 2, rtol=1e-9)
    np.testing.assert_allclose(together, np.sqrt(4 * 4 / 3) - 2, rtol=1e-9)
    # tr(B) tr(B⁻¹) = 4 · 4/3 on the plane, 2 · 2/3 on each line: the same here, so tell them apart by
    # a B that is diagonal in A's basis.
    b = np.diag([1.0, 4.0])
    assert misalignment(np.diag([1, 1 + 1e-6]), b) < 1e-12
    np.testing.assert_allclose(misalignment(np.diag([1, 1 + 1e-12]), b), np.sqrt(5 * 1.25) - 2)
    np.testing.assert_allclose(misalignment(np.diag([1, 1 + 1e-6]), b, rtol=1e-3), np.sqrt(5 * 1.25) - 2)


@EXAMPLES
@given(cases)
def test_explicit_basis_is_the_basis_of_distinct_eigenvalues(case):
    a = (case.q * np.arange(1, case.d + 1)) @ case.q.T
    score = misalignment_basis(case.q, case.b)
    np.testing.assert_allclose(score, misalignment(a, case.b), rtol=1e-8, atol=1e-10)
    shuffled = case.q[:, case.rng.permutation(case.d)] * case.rng.choice([-1, 1], case.d)
    np.testing.assert_allclose(misalignment_basis(shuffled, case.b), score, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_rounding_of_the_callers_precision_is_no_asymmetry(dtype, rel):
    generator = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(30, 30, generator=generator, dtype=torch.float64))[0]
    b = (q * torch.linspace(1, 2, 30)) @ q.T
    rounded = (q * torch.linspace(1, 2, 30)).to(dtype) @ q.T.to(dtype)
    assert not torch.equal(rounded, rounded.T)
    a = torch.diag(torch.arange(30.0))
    assert misalignment(a, rounded) == pytest.approx(misalignment(a, b), rel=rel)
    with pytest.raises(ValueError, match="B is not symmetric"):
        misalignment(a, rounded.double() + 0.05 * torch.ones(30, 30).triu(1))


@pytest.mark.parametrize("seed", range(12))
def test_a_singular_covariance_is_refused_in_float32_too(seed):
    filters = torch.randn(27, 27, generator=torch.Generator().manual_seed(seed))
    for b in (torch.cov(filters), torch.cov(filters.double()), torch.cov(filters).numpy()):
        with pytest.raises(ValueError, match="B is not positive definite to the rounding of its precision"):
            misalignment(np.diag(np.arange(27.0)), b)


@pytest.mark.parametrize("values", [[1.0, 1, 2, 2], [0.0, 0, 0, 1, 2, 3], [5.0, 5, 5, 5, 5, 7, 7, 7]])
def test_repeated_eigenvalues_stay_so_in_float32(values):
    d = len(values)
    generator = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    a = (q * torch.tensor(values, dtype=torch.float64)) @ q.T
    b = torch.diag(torch.linspace(1, 9, d, dtype=torch.float64))
    expected = misalignment(a, b)
    assert abs(misalignment(a.float(), b, rtol=1e-9) - expected) > 0.01  # what rounding alone does
    assert misalignment(a.float(), b) == pytest.approx(expected, rel=1e-5)
    assert misalignment(a.float().numpy(), b) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(transfer_function(a.float(), b)[1], transfer_function(a, b)[1], rtol=1e-5)


def test_distinct_eigenvalues_stay_so_in_float32():
    a = torch.diag(torch.arange(1, 148, dtype=torch.float64) ** -2)
    b = torch.diag(torch.linspace(1, 9, 147, dtype=torch.float64))
    assert misalignment(a, b) < 1e-12
    assert misalignment(a.float(), b) < 1e-12


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.eye(2), np.diag([1.0, 0.0]), "B is not positive definite"),
        (np.eye(3), np.cov(np.random.default_rng(0).standard_normal((3, 3))), "B is not positive definite"),
        (np.eye(2), np.array([[1.0, 0.5], [0.2, 1.0]]), "B is not symmetric"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), np.eye(2), "A is not symmetric"),
        (np.eye(2), np.eye(3), "different shapes"),
        (np.eye(2)[:1], np.eye(2), "square"),
        (np.eye(2), np.diag([1.0, np.nan]), "not finite"),
        (np.eye(2), np.eye(2) + 1j * np.eye(2), "B has complex entries"),
        (patch_covariance(torch.rand(9, 1, 8, 8)), np.eye(9), r"A is no matrix but a PatchCovariance.*\.cov"),
    ],
)
def test_bad_input(a, b, message):
    with pytest.raises(ValueError, match=message) as error:
        misalignment(a, b)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("rtol", [float("nan"), -1e-9])
def test_a_tolerance_that_is_none_is_refused(rtol):
    for function in (misalignment, transfer_function):
        with pytest.raises(ValueError, match="rtol must be at least 0"):
            function(np.diag([1.0, 2.0]), np.eye(2), rtol=rtol)


def test_basis_must_be_orthonormal():
    with pytest.raises(ValueError, match="not orthonormal"):
        misalignment_basis(np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2))
