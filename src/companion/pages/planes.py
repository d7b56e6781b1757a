"""Landscapes as pictures: colours and contours on a scale that several share."""

import numpy as np
from matplotlib.colors import Normalize

APART = 0.05  # nats between two contours (ICLR 2020 submission on transferability, Appendix A)
FEWEST, MOST = 4, 20  # contours on the whole scale, outside of which they are drawn nearer or farther apart


def common_scale(planes):
    """(Normalize, levels, nats between levels) for landscapes [(alpha, beta, loss)] that share a scale.

    Contours lie 0.05 apart, as in the paper, where these are 4 to 20; else 1, 2 or 4 times a power of ten of
    it apart, the smallest of which there are at most 20.
    """
    values = np.concatenate([loss.ravel() for _, _, loss in planes])
    values = values[np.isfinite(values)]
    low, high = values.min(), values.max()
    apart = APART
    if not FEWEST * APART <= high - low <= MOST * APART:
        apart = next(
            APART * factor * 10.0**power
            for power in range(-5, 300)
            for factor in (1, 2, 4)
            if high - low <= MOST * APART * factor * 10.0**power
        )
    levels = apart * np.arange(np.ceil(low / apart), np.floor(high / apart) + 1)
    return Normalize(low, max(high, low + apart)), levels, apart


def draw(ax, plane, norm, levels):
    """Draw (alpha, beta, loss): colours, white contours, a cross in the middle. Returns the image."""
    alpha, beta, loss = plane
    half = [(axis[1] - axis[0]) / 2 for axis in (alpha, beta)]
    extent = (alpha[0] - half[0], alpha[-1] + half[0], beta[0] - half[1], beta[-1] + half[1])
    image = ax.imshow(
        loss.T, norm=norm, cmap="viridis", origin="lower", extent=extent, interpolation="nearest"
    )
    crossed = [level for level in levels if np.nanmin(loss) < level < np.nanmax(loss)]
    if crossed:
        ax.contour(alpha, beta, loss.T, levels=crossed, colors="white", linewidths=0.8)
    ax.plot(0, 0, "+", color="white", ms=7)
    return image


def draw_all(axes, planes, what, **bar):
    """Draw ``planes``, [(alpha, beta, loss)], one on each of ``axes``, on one scale with a bar below them.

    what : what they show; bar : arguments of the figure's colour bar. Returns the scale, a Normalize.
    """
    norm, levels, apart = common_scale(planes)
    images = [draw(ax, plane, norm, levels) for ax, plane in zip(np.ravel(axes), planes, strict=True)]
    label = f"{what}, contours {apart:g} apart"
    images[0].figure.colorbar(images[0], ax=axes, orientation="horizontal", label=label, **bar)
    return norm
