"""The area under an alignment curve: one number for one representation and one label vector."""

import numpy as np
import torch

from alignbook.metrics.alignment_curve import alignment_curve

from .peaks_design import NORMALISATIONS


def area(features, labels, normalisation=NORMALISATIONS[0]):
    """Area under the alignment curve over ‖y‖² √n, float in [0, 1]; features (n, d), labels (n,).

    The area is ∫ Alignment(Φ, y, τ) dτ = Σ σᵢ (uᵢᵀ y)². Divided by ‖y‖² √n, it is 1 when y lies on one
    direction that holds all of a representation with rows of length one, whose largest singular value is
    √n at most. One number for "higher alignment over a wide range of thresholds".
    """
    if normalisation == "length one, then constant":
        features = torch.nn.functional.normalize(features, dim=1)
    thresholds, alignment = alignment_curve(features, labels, bias=normalisation != "no constant")
    total = float((alignment[1:] * np.diff(thresholds)).sum())
    return total / (float(labels @ labels) * np.sqrt(len(labels)))
