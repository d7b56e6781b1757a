"""Alignment of a representation with labels (Imani, Hu, White 2022, Equation 2)."""

import numpy as np
import scipy.linalg

from . import arrays
from .checks import squares_in_range

BLOCK = 2**17  # entries worked on at once: 1 MiB, which stays in the cache
NEARLY = 0.1  # bound on the norm of QᵀQ - I of a first factor that a second makes orthonormal to rounding


@squares_in_range
def alignment_curve(
    features: np.typing.ArrayLike,
    labels: np.typing.ArrayLike,
    thresholds: np.typing.ArrayLike | None = None,
    bias: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """How much of the labels lies along singular directions of the features with σᵢ ≥ τ.

    Parameters
    ----------
    features : (n, d) array or tensor
        One row per example; d may exceed n.
    labels : (n,) array or tensor
        Used as they are, neither centred nor scaled: divide the curve by ‖y‖² for fractions. Of several
        classes, each column of the one-hot labels has a curve of its own.
    thresholds : (m,) array, optional
        Values of τ; by default 0 and then all singular values, ascending.
    bias : bool
        Append a constant feature of 1, which stands for the bias unit (Section 2). Rows are scaled to
        length one after that, so that the whole row meets the paper's ‖xᵢ‖ ≤ 1; the paper does not say
        whether the constant is part of the row it normalises. A row of zeros, possible only without bias,
        stays zero.

    Returns
    -------
    thresholds, alignment : (m,) float64 arrays

    Raises
    ------
    ValueError
        For shapes that do not match, and for entries that are complex, not finite or, of the labels,
        without squares in the range of float64.

    Notes
    -----
    For features Φ = Σᵢ σᵢ uᵢ vᵢᵀ and labels y (Imani, Hu and White 2022, Equation 2),

    .. math:: \\mathrm{Alignment}(\\Phi, y, \\tau) = \\sum_{i:\\, \\sigma_i \\ge \\tau} (u_i^\\top y)^2.

    Singular values that are zero to rounding count as absent, hence the alignment at threshold 0 is the
    squared length of y projected on the span of the features. (The paper completes u₁ … u_d to a basis of Rⁿ
    with σ = 0, so that its sum is ‖y‖² there for every Φ; at any threshold above 0 the two are the same.)

    The triangular factor R of Φ = QR (of Φᵀ, where d > n) and its small singular value decomposition give
    the curve. Features of condition number up to about 10⁷ go through Cholesky factors of Gram matrices,
    twice (CholeskyQR2, Yamamoto et al., ETNA 44, 306–326, 2015); where the Gram matrix is not positive
    definite or the first factor is not nearly orthonormal, a Householder factorisation takes its place. For
    features whose singular values go down to 10⁻⁶ of the largest, squared projections are right to
    10⁻⁶ ‖y‖² or better.

    Cost: O(n d m) for m = min(n, d). Memory: one float64 copy of the features, another where they are
    handed in as anything else, and a few (m, m) matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from alignbook import alignment_curve
    >>> points = np.array([[2.0, 0.1], [2.0, -0.1], [-2.0, 0.1], [-2.0, -0.1]])
    >>> _, along = alignment_curve(points, np.array([1, 1, -1, -1]), thresholds=[0.0, 1.0], bias=False)
    >>> print(along.round(2))  # all of ‖y‖² = 4 lies along the large direction
    [4. 4.]
    >>> _, across = alignment_curve(points, np.array([1, -1, 1, -1]), thresholds=[0.0, 1.0], bias=False)
    >>> print(across.round(2))  # here along the small one
    [4. 0.]
    """
    features = arrays.float64(features, "features")
    labels = arrays.float64(labels, "labels")
    if features.ndim != 2 or 0 in features.shape or labels.shape != features.shape[:1]:
        raise ValueError(f"features (n, d) and labels (n,) do not match: {features.shape} and {labels.shape}")
    rows = _normalised(features, bias)
    singular, projections = _project(rows, labels)  # descending
    kept = singular > max(rows.shape) * np.finfo(np.float64).eps * singular[0]
    singular, gains = singular[kept][::-1], np.square(projections[kept])[::-1]
    if thresholds is None:
        thresholds = np.concatenate([[0.0], singular])
    thresholds = arrays.float64(thresholds, "thresholds")
    tails = np.append(np.cumsum(gains[::-1])[::-1], 0.0)  # tails[i] = gains[i] + gains[i + 1] + …
    return thresholds, tails[np.searchsorted(singular, thresholds, side="left")]


def _normalised(features, bias):
    """A copy of the features, with the bias, its rows of length one; columns contiguous if n ≥ d."""
    n, d = features.shape
    rows = np.empty((n, d + bias), order="F" if n >= d + bias else "C")
    step = max(1, BLOCK // (d + bias))
    for start in range(0, n, step):
        block = np.ones((min(step, n - start), d + bias))
        block[:, :d] = features[start : start + step]
        # Divide by the largest entry first: its square could overflow or vanish.
        scale = np.maximum(block.max(1), -block.min(1))[:, None]
        block /= np.where(scale == 0, 1, scale)
        length = np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
        np.divide(block, np.where(length == 0, 1, length), out=rows[start : start + step])
    return rows


def _project(rows, labels):
    """Singular values, descending, and uᵢᵀ y. Overwrites ``rows``."""
    if len(rows) < rows.shape[1]:
        # Φᵀ = QR: Φ = RᵀQᵀ has the left singular vectors of Rᵀ.
        triangle, _ = _factor(rows.T, np.zeros(rows.shape[1]))
        left, singular, _ = scipy.linalg.svd(triangle.T)
        return singular, labels @ left
    # Φ = QR and R = USVᵀ: uᵢᵀ y = (Uᵀ Qᵀ y)ᵢ, without a left factor of n rows.
    triangle, rotated = _factor(rows, labels)
    left, singular, _ = scipy.linalg.svd(triangle)
    return singular, rotated @ left


def _factor(tall, vector):
    """R (m, m) and Qᵀ ``vector`` (m,) of tall (n, m) = QR, columns contiguous. Overwrites ``tall``."""
    factor = _cholesky_twice(tall, vector)
    if factor is not None:
        return factor
    rotated, triangle = scipy.linalg.qr_multiply(tall, vector, mode="right", overwrite_a=True)
    return triangle, rotated


def _cholesky_twice(tall, vector):
    """What :func:`_factor` returns, or None where ``tall`` is too badly conditioned."""
    blas = scipy.linalg.blas  # all of it: NumPy's own threads and SciPy's would wait for each other
    try:
        first = scipy.linalg.cholesky(blas.dsyrk(1.0, tall, trans=1))  # from the upper triangle
    except scipy.linalg.LinAlgError:
        return None
    m = tall.shape[1]
    gram, rotated = np.zeros((m, m), order="F"), np.zeros(m)
    step = max(1, BLOCK // m)
    for start in range(0, len(tall), step):
        # Rows of Q₁ = Φ R₁⁻¹, which is orthonormal to about κ² times rounding.
        part = blas.dtrsm(1.0, first, tall[start : start + step], side=1)
        gram = blas.dsyrk(1.0, part, beta=1.0, c=gram, trans=1, overwrite_c=1)
        rotated += blas.dgemv(1.0, part, vector[start : start + step], trans=1)
    if not np.abs(np.triu(gram) - np.eye(m)).max() <= NEARLY / m:
        return None
    second = scipy.linalg.cholesky(gram)
    return blas.dtrmm(1.0, second, first), scipy.linalg.solve_triangular(second, rotated, trans="T")
