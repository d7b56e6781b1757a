"""The points on the circle, their two labellings, and what the paper prints of them."""

import numpy as np

from alignbook.streams import numpy_stream

LABELLINGS = ("first", "second")
SEPARATING = {"first": (1, 1), "second": (-1, 1)}  # weights that separate them
PRINTED = (9.58, 2.84)  # σ_1 and σ_2 (Section 4.1, Figure 4), printed to two decimals
PRINTED_POINTS = 1000  # Section 4.1


def circle(points, spread, seed):
    """(Φ (n, 2) float64, {labelling: (n,) of ±1}): angles normal around π/4 and, half, −3π/4."""
    draw = numpy_stream(seed, "circle", points)
    cloud = np.where(np.arange(points) < points // 2, 1.0, -1.0)
    off = spread * draw.standard_normal(points)
    angles = np.where(cloud > 0, np.pi / 4, -3 * np.pi / 4) + off
    side = np.where(np.sin(angles - np.pi / 4) > 0, 1.0, -1.0)
    phi = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return phi, dict(zip(LABELLINGS, (cloud, side), strict=True))
