"""Landscapes as pictures: colours and contours on a scale that several share."""

import numpy as np
from matplotlib.colors import Normalize

APART = 0.05  # nats between two contours (ICLR 2020 submission on transferability, Appendix A)
MOST = 20  # contours on the whole scale, above which they are drawn farther apart


def common_scale(planes):
    """(Normalize, levels, nats between levels) for landscapes [(alpha, beta, loss)] that share a scale.

    Contours lie 0.05 apart, as in the paper, or 2, 4, 10, 20 … times that where it would be more than 20.
    """
    values = np.concatenate([loss.ravel() for _, _, loss in planes])
    values = values[np.isfinite(values)]
    low, high = values.min(), values.max()
    apart = next(
        APART * factor * 10**power
        for power in range(300)
        for factor in (1, 2, 4)
        if high - low <= MOST * APART * factor * 10**power
    )
    levels = apart * np.arange(np.ceil(low / apart), np.floor(high / apart) + 1)
    return Normalize(low, max(high, low + APART)), levels, apart


def draw(ax, plane, norm, levels):
    """Draw one landscape (alpha, beta, loss): colours, white contours, a cross at the centre. Returns the mesh."""
    alpha, beta, loss = plane
    mesh = ax.pcolormesh(alpha, beta, loss.T, norm=norm, cmap="viridis", shading="nearest")
    crossed = [level for level in levels if np.nanmin(loss) < level < np.nanmax(loss)]
    if crossed:
        ax.contour(alpha, beta, loss.T, levels=crossed, colors="white", linewidths=0.8)
    ax.plot(0, 0, "+", color="white", ms=7)
    ax.set_aspect("equal")
    return mesh
