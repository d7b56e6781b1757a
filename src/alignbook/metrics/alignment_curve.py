"""Alignment of a representation with labels (Imani, Hu, White 2022, Equation 2)."""

import numpy as np
import scipy.linalg

from . import arrays


def alignment_curve(features, labels, thresholds=None, bias=True):
    """Alignment(Φ, y, τ) = Σ over {i: σᵢ ≥ τ} of (uᵢᵀ y)², for Φ = Σᵢ σᵢ uᵢ vᵢᵀ.

    features : (n, d) array or tensor, d may exceed n; labels : (n,), used as they are (not centred, not
    scaled: divide the curve by ‖y‖² for fractions).
    bias : append a constant feature of 1, which stands for the bias unit (Section 3). Rows are scaled to
    length one after that, so that the whole row meets the paper's |xᵢ| ≤ 1; the paper does not say
    whether the constant is part of the row it normalises. A row of zeros, possible only without bias,
    stays zero.
    thresholds : (m,) values of τ, or None for 0 and then all singular values, ascending.
    Returns (thresholds, alignment), both (m,) float64. Singular values that are zero to rounding count
    as absent, hence the alignment at threshold 0 is the squared length of y projected on the span of the
    features. Holds nothing larger than the features. Raises ValueError for wrong shapes or entries that
    are not finite.
    """
    features = arrays.float64(features, "features")
    labels = arrays.float64(labels, "labels")
    if features.ndim != 2 or 0 in features.shape or labels.shape != features.shape[:1]:
        raise ValueError(
            f"features (n, d) and labels (n,) do not match: {features.shape} and {labels.shape}"
        )
    if bias:
        features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    # Divide by the largest entry first: its square could overflow or vanish.
    scale = np.abs(features).max(1, keepdims=True)
    features = features / np.where(scale == 0, 1, scale)
    length = np.linalg.norm(features, axis=1, keepdims=True)
    features = features / np.where(length == 0, 1, length)

    singular, projections = _project(features, labels)  # descending
    kept = singular > max(features.shape) * np.finfo(np.float64).eps * singular[0]
    singular, gains = singular[kept][::-1], np.square(projections[kept])[::-1]
    if thresholds is None:
        thresholds = np.concatenate([[0.0], singular])
    thresholds = arrays.float64(thresholds, "thresholds")
    tails = np.append(np.cumsum(gains[::-1])[::-1], 0.0)  # tails[i] = gains[i] + gains[i + 1] + …
    return thresholds, tails[np.searchsorted(singular, thresholds, side="left")]


def _project(features, labels):
    """Singular values of ``features``, descending, and uᵢᵀ y."""
    if len(features) < features.shape[1]:
        left, singular, _ = np.linalg.svd(features, full_matrices=False)
        return singular, labels @ left
    # Φ = QR and R = USVᵀ: uᵢᵀ y = (Uᵀ Qᵀ y)ᵢ, without a left factor of n rows.
    rotated, triangle = scipy.linalg.qr_multiply(features, labels, mode="right", pivoting=False)
    left, singular, _ = np.linalg.svd(triangle)
    return singular, rotated @ left
