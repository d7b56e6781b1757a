"""What several figures draw: curves with a band over the seeds, and dots with their mean beside them."""

import numpy as np

from alignbook.claims import t_interval


def band(ax, frame, line, colour, spread="range", **style):
    """The mean over the seeds of a (seeds × x) ``frame``, and a band around it.

    spread : "range", from the smallest to the largest seed; "sd", ± 1 standard deviation; None, no band
    """
    mean = frame.mean()
    ax.plot(mean.index, mean, line, color=colour, **style)
    if spread:
        sd = frame.std().fillna(0)
        ends = (frame.min(), frame.max()) if spread == "range" else (mean - sd, mean + sd)
        ax.fill_between(mean.index, *ends, color=colour, alpha=0.2, lw=0)


def dots(ax, place, values, colour):
    """An open dot for each of ``values`` around ``place``; beside them, in black, their mean and interval."""
    ax.plot(place + np.linspace(-0.18, 0.18, len(values)), values, "o", ms=4.5, mfc="none", color=colour)
    _, mean, ends = t_interval(values)
    low, high = ends or (mean, mean)
    ax.errorbar(place + 0.32, mean, [[mean - low], [high - mean]], fmt="_", ms=9, color="black", capsize=2.5)
