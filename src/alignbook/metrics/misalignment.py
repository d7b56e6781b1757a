"""Misalignment of two covariance matrices (Maennel et al. 2020, Definition 2, Proposition 2)."""

import numpy as np
import scipy.linalg

from . import arrays
from .checks import scaled

ORTHONORMAL = 1e-6  # largest |VᵀV - I| taken for rounding (float32 bases are welcome)


@scaled
def misalignment(a: np.typing.ArrayLike, b: np.typing.ArrayLike, rtol: float | None = None) -> float:
    """How far the covariance B is from sharing the eigenvectors of A; 0 where it does.

    Parameters
    ----------
    a, b : (d, d) array or tensor
        Symmetric matrices, ``b`` positive definite. Of ``a`` only the eigenspaces count.
    rtol : float, optional
        Eigenvalues of ``a`` that are closer than ``rtol`` times the largest share an eigenspace. By default
        1e-9, or four rounding units of the precision in which ``a`` is handed in, if larger: hand in a
        spectrum over many decades in float64, or its small eigenvalues become one.

    Returns
    -------
    float
        At least 0, and 0 only if ``b`` is aligned with ``a``. It is not symmetric.

    Raises
    ------
    ValueError
        For matrices that are not symmetric, differ in shape or have entries that are not finite, and where
        ``b`` is not positive definite to rounding in its precision, as the covariance of d or fewer vectors
        never is.

    Notes
    -----
    M(A, B) is the infimum of tr(Σ⁻¹B + B⁻¹Σ)/2 - d over all Σ ≻ 0 that are aligned with A (Maennel et al.
    2020, Definition 2). With the restrictions Bᵢ of B and Cᵢ of its inverse to the eigenspaces of A it has a
    closed form (Proposition 2.7),

    .. math:: M(A, B) = \\sum_i \\sqrt{\\mathrm{tr}\\, B_i \\; \\mathrm{tr}\\, C_i} - d.

    Cost: two eigendecompositions, O(d³); a millisecond at d = 27, the patches of 3 × 3 in three colours.

    Examples
    --------
    >>> import numpy as np
    >>> from alignbook import misalignment
    >>> data, turned = np.diag([1.0, 2.0]), np.array([[1.5, 0.5], [0.5, 1.5]])
    >>> round(misalignment(data, np.diag([5.0, 3.0])), 3)  # the same eigenvectors
    0.0
    >>> round(misalignment(data, turned), 3)  # turned by 45 degrees
    0.121
    """
    matrix_a, matrix_b = arrays.symmetric(a, "A"), arrays.symmetric(b, "B")
    arrays.same_shape(matrix_a, matrix_b, "A and B")
    _, vectors, starts = arrays.eigenspaces(matrix_a, arrays.coincidence(a) if rtol is None else rtol)
    return _closed_form(vectors, starts, matrix_b, arrays.unit(b))


@scaled
def misalignment_basis(basis, b):
    """M(A, B) for an A whose eigenspaces are the lines along the columns of ``basis``.

    Parameters
    ----------
    basis : (d, d) array or tensor
        Orthonormal columns.
    b : (d, d) array or tensor
        As for :func:`misalignment`.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        Where the columns are not orthonormal, and as :func:`misalignment` does.
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
