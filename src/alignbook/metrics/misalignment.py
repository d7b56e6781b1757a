"""Misalignment of two covariance matrices (Maennel et al. 2020, Definition 2, Proposition 2)."""

import numpy as np
import scipy.linalg

from . import arrays
from .checks import scaled

ORTHONORMAL = 1e-6  # largest |VᵀV - I| taken for rounding (float32 bases are welcome)


@scaled
def misalignment(a, b, rtol=None):
    """M(A, B) = inf over Σ ≻ 0 aligned with A of tr(Σ⁻¹B + B⁻¹Σ)/2 - d, in closed form.

    M(A, B) + d = Σᵢ √(tr(B|Vᵢ) · tr(B⁻¹|Vᵢ)) over the eigenspaces Vᵢ of A (Proposition 2.7). It is zero
    exactly if B is aligned with A, and not symmetric in A and B.

    a, b : symmetric (d, d) arrays or tensors; b positive definite. Of ``a`` only the eigenspaces count:
    eigenvalues closer than ``rtol`` times the largest share one. By default that is 1e-9, or four rounding
    units of the precision in which ``a`` is handed in, if larger: hand in a spectrum over many decades in
    float64, or its small eigenvalues become one. Returns a float ≥ 0.
    Raises ValueError for matrices that are not symmetric, differ in shape or have entries that are not
    finite, and where b is not positive definite to rounding in its precision, as the covariance of d or fewer
    vectors never is.
    """
    matrix_a, matrix_b = arrays.symmetric(a, "A"), arrays.symmetric(b, "B")
    arrays.same_shape(matrix_a, matrix_b, "A and B")
    _, vectors, starts = arrays.eigenspaces(matrix_a, arrays.coincidence(a) if rtol is None else rtol)
    return _closed_form(vectors, starts, matrix_b, arrays.unit(b))


@scaled
def misalignment_basis(basis, b):
    """M(A, B) for an A whose eigenspaces are the lines along the columns of ``basis``.

    basis : (d, d), orthonormal columns; b : as for :func:`misalignment`. Returns a float ≥ 0.
    Raises ValueError where the columns are not orthonormal, and like :func:`misalignment`.
    """
    basis, matrix_b = arrays.float64(basis, "the basis"), arrays.symmetric(b, "B")
    arrays.same_shape(basis, matrix_b, "the basis and B")
    if np.abs(basis.T @ basis - np.eye(len(basis))).max() > ORTHONORMAL:
        raise ValueError("the columns of the basis are not orthonormal")
    return _closed_form(basis, np.arange(len(basis)), matrix_b, arrays.unit(b))


def _closed_form(vectors, starts, b, unit):
    smallest, largest = np.linalg.eigvalsh(b)[[0, -1]]
    if smallest <= len(b) * max(unit, np.finfo(np.float64).eps) * largest:
        raise ValueError(
            "B is not positive definite to the rounding of its precision (float64 tells more than float32): "
            f"its eigenvalues go from {smallest:.3g} to {largest:.3g}"
        )
    factor = np.linalg.cholesky(b)  # B = L Lᵀ, so vᵀBv = |Lᵀv|² and vᵀB⁻¹v = |L⁻¹v|²
    forward = np.square(factor.T @ vectors).sum(0)
    inverse = np.square(scipy.linalg.solve_triangular(factor, vectors, lower=True)).sum(0)
    traces = np.add.reduceat(forward, starts) * np.add.reduceat(inverse, starts)
    return max(0.0, float(np.sqrt(traces).sum() - len(b)))  # below zero only by rounding
