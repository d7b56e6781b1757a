"""An alignment curve at evenly spaced thresholds, and the area under it (Figures 1, 6 and 13)."""

import math

import numpy as np

from alignbook.metrics.alignment_curve import alignment_curve

THRESHOLDS = 41  # from 0 to √n, which no singular value exceeds
DIGITS = 6  # kept of a stored share


def curve(features, labels):
    """(area, alignment (THRESHOLDS,)) of features (n, d) and labels (n,), both over ‖y‖².

    The area is Σ σ_i (u_iᵀ y)² / (‖y‖² √n), in [0, 1], as in Figure 10; the alignment is at
    thresholds 0 … √n, evenly spaced.
    """
    thresholds, alignment = alignment_curve(features, labels)
    size, n = float(labels @ labels), len(labels)
    area = float((alignment[1:] * np.diff(thresholds)).sum()) / (size * math.sqrt(n))
    grid = np.linspace(0, math.sqrt(n), THRESHOLDS)
    at = np.append(alignment, 0.0)[np.searchsorted(thresholds, grid)]
    return area, at / size
