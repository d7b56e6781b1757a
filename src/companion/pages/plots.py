"""What the figures of several pages draw alike: curves with a band over the seeds, dots, letters, legends."""

from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.ticker import LogLocator, NullFormatter

from companion.claims import t_interval


def band(ax, frame, colour, spread="range", line="-", **style):
    """The mean over the seeds of a (seeds × x) ``frame`` as a line in a band; nothing of no seeds.

    spread : what the band shows: from the smallest seed to the largest ("range"), ± the standard error of the
        mean ("error"), ± one standard deviation ("sd"); None for no band
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


def label_ends(ax, ends, gap=1.15):
    """Name lines where they end: [(x, y, text, colour)], right of each point and never over one another.

    Call it when the limits of ``ax`` stand. gap : least distance of two labels, in heights of a letter
    """
    size = plt.rcParams["font.size"]
    step = gap * size * ax.figure.dpi / 72
    ends = sorted(ends, key=lambda end: ax.transData.transform(end[:2])[1])
    heights = [ax.transData.transform(end[:2])[1] for end in ends]
    for n in range(1, len(heights)):
        heights[n] = max(heights[n], heights[n - 1] + step)
    over = max(0.0, heights[-1] - ax.transAxes.transform((0, 1))[1]) if heights else 0.0
    for n in reversed(range(len(heights))):  # back down from the top, as far as there is room
        top = heights[n] - over if n + 1 == len(heights) else min(heights[n], heights[n + 1] - step)
        heights[n] = top
    for (x, y, text, colour), height in zip(ends, heights, strict=True):
        place, above = ax.transData.transform((x, y))
        shift = (6, (height - above) * 72 / ax.figure.dpi)
        ax.annotate(
            text, (x, y), shift, textcoords="offset points", color=colour, va="center", annotation_clip=False
        )


def curves(ax, table, x, y, hue, ends, palette, errorbar=("pi", 100), estimator="mean", **style):
    """Lines of ``y`` over ``x`` for each value of ``hue``: mean and range over the rows, named at the end.

    ends : {value of ``hue``: its name}, in the order of drawing; values that it lacks are not drawn
    palette : their colours, a dict or a list; errorbar, estimator, style : of ``seaborn.lineplot``
    """
    colours = palette if isinstance(palette, dict) else dict(zip(ends, palette, strict=False))
    shown = table[table[hue].isin(list(ends))]
    sns.lineplot(
        shown, x=x, y=y, hue=hue, hue_order=list(ends), palette=colours, errorbar=errorbar, legend=False,
        estimator=estimator, ax=ax, **style,
    )  # fmt: skip
    means = shown.groupby([hue, x], observed=True)[y].agg(estimator)
    label_ends(
        ax,
        [
            (means[value].index.max(), means[value][means[value].index.max()], text, colours[value])
            for value, text in ends.items()
            if value in means
        ],
    )


def dots(ax, place, values, colour):
    """An open dot for each of ``values`` around ``place``; beside them, in black, their mean and interval."""
    ax.plot(place + np.linspace(-0.18, 0.18, len(values)), values, "o", ms=4.5, mfc="none", color=colour)
    interval_bar(ax, place + 0.32, values)


def t95(values):
    """Ends of the 95 % t interval of the mean, an error bar for seaborn, whose bootstrap is too narrow.

    Both are the mean where there is no interval, as of two values.

    >>> [round(float(end), 2) for end in t95([1.0, 2.0, 3.0])]
    [-0.48, 4.48]
    """
    return t_interval(values)[2] or (np.mean(values), np.mean(values))


def interval_bar(ax, place, values):
    """The mean of ``values`` and its 95 % interval, where there is one, in black at ``place``."""
    _, mean, ends = t_interval(values)
    if mean is None:
        return
    low, high = ends or (mean, mean)
    ax.errorbar(place, mean, [[mean - low], [high - mean]], fmt="_", ms=9, color="black", capsize=2.5)


def letters(*axes):
    """Put (a), (b), … before the titles of ``axes``, in the order of reading; alone where there is no title.

    Captions and prose call panels by these letters.
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
