"""What the figures of several pages draw alike: curves with a band over the seeds, dots, letters, legends."""

from string import ascii_lowercase

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from alignbook.claims import t_interval


def band(ax, frame, colour, spread="range", line="-", **style):
    """The mean over the seeds of a (seeds × x) ``frame`` as a line in a band; nothing of no seeds.

    Parameters
    ----------
    spread : {"range", "error", "sd", None}
        What the band shows: from the smallest seed to the largest, ± the standard error of the mean, ± one
        standard deviation; None for no band.
    line, **style
        Of ``ax.plot``, e.g. ``label``.
    """
    if not len(frame):
        return
    mean = frame.mean()
    ax.plot(mean.index, mean, line, color=colour, **style)
    if spread == "range":
        ax.fill_between(mean.index, frame.min(), frame.max(), color=colour, alpha=0.22, lw=0)
    elif spread:
        width = (frame.sem() if spread == "error" else frame.std()).fillna(0.0)
        ax.fill_between(mean.index, mean - width, mean + width, color=colour, alpha=0.22, lw=0)


def dots(ax, place, values, colour):
    """An open dot for each of ``values`` around ``place``; beside them, in black, their mean and interval."""
    ax.plot(place + np.linspace(-0.18, 0.18, len(values)), values, "o", ms=4.5, mfc="none", color=colour)
    interval_bar(ax, place + 0.32, values)


def interval_bar(ax, place, values):
    """The mean of ``values`` and its 95 % interval, where there is one, in black at ``place``."""
    _, mean, ends = t_interval(values)
    low, high = ends or (mean, mean)
    ax.errorbar(place, mean, [[mean - low], [high - mean]], fmt="_", ms=9, color="black", capsize=2.5)


def letters(*axes):
    """Put (a), (b), … before the titles of ``axes``, in the order of reading; alone where there is no title.

    A phone shows panels below one another, so captions and prose call them by these letters.
    """
    for letter, ax in zip(ascii_lowercase, axes, strict=False):
        ax.title.set_text(f"({letter}) {ax.get_title()}".rstrip())


def octaves(ax, last, ticks):
    """Set the x axis of ``ax`` to steps from 0, by powers of two, with ``ticks`` as far as ``last``."""
    ax.set_xscale("symlog", base=2, linthresh=1)
    shown = [step for step in ticks if step <= last]
    ax.set_xticks(shown, shown)
    ax.minorticks_off()


def plain_log(axis, *times):
    """Have a logarithmic ``axis`` show plain numbers, if asked at so many ``times`` each power of ten."""
    if times:
        axis.set_major_locator(LogLocator(subs=times))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def key(ax, line, name, **style):
    """An entry of ``ax``'s legend for the look ``line`` ("--", "o") that lines of several colours share."""
    ax.plot([], [], line, **{"color": "0.3", "ms": 4, "label": name} | style)


def legend_below(fig, *axes, ncols=3, **style):
    """What is named in ``axes``, each name once, as a legend below the whole ``fig``; none of no names."""
    named = {}
    for ax in axes:
        named |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if named:
        fig.legend(named.values(), named, loc="outside lower center", ncols=ncols, fontsize=10, **style)
