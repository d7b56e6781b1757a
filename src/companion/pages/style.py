"""How every figure looks: vector output, colour-blind-safe colours.

For the dark mode the style sheet turns a figure's lightness over; see ``book/assets/book.css``.

What has no order (data sets, starts, methods) takes its colour from ``COLOURS`` or ``SEQUENCE``, a series the
same on every page; what has one (depth, width, epoch, rate) from :func:`ordered`.
"""

import io

import matplotlib as mpl
import numpy as np

from companion.pages import names

# Okabe and Ito's palette, its two lightest colours darkened to stand out on white (3:1 at least); a series
# keeps its colour on every page.
COLOURS = {
    "random": "#D55E00",
    "real": "#0072B2",
    "random basis": "#7F7F7F",
    "floor": "#009E73",
    "original": "#B87800",
    "init": "#0072B2",
    "transfer": "#009E73",
    "paper": "#000000",
    "theory": "#CC79A7",
    "mnist": "#0072B2",
    "fashion_mnist": "#009E73",
    "cifar10": "#D55E00",
    "pretrained": "#0072B2",
    "scratch": "#D55E00",
}
SEQUENCE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B87800", "#2F93CC", "#000000", "#7F7F7F"]
# A number that the paper prints, beside ours.
PRINTED = {"marker": "x", "color": "black", "ms": 8, "mew": 2, "ls": "none", "label": "printed", "zorder": 5}

# The part of viridis' 256 colours that a white ground takes, and a dark one when turned over.
_DARKEST, _PALEST = 20, 150
NARROW = 5.2  # inches: a figure of one column, which a phone shows whole


def apply():
    """Set matplotlib's defaults for the book. Figures: 7 inches wide, wider than tall, on no ground."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 3.4),
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "figure.constrained_layout.use": True,
            "font.size": 11.5,  # read on a phone, where seven inches become three and a half
            "axes.titlesize": 11.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=SEQUENCE),
            "legend.frameon": False,
            "svg.hashsalt": "alignbook",
            "svg.fonttype": "path",
        }
    )


def ordered(n):
    """``n`` colours, light to dark, for the values of an ordered quantity from the smallest to the largest.

    From the part of viridis that has a contrast of at least 3:1 on white and, turned over, in the dark. Up to
    12 stay apart and in order when printed grey. Of one, it is the darkest.

    >>> ordered(3)
    ['#21a585', '#31688e', '#481d6f']
    """
    places = np.linspace(_PALEST, _DARKEST, n) if n > 1 else np.full(n, _DARKEST)
    return [mpl.colors.to_hex(mpl.colormaps["viridis"](place)) for place in places.round().astype(int)]


def svg(figure):
    """The text of the matplotlib ``figure`` as SVG, without a date: two builds of one commit are the same.

    A figure of a single column becomes narrow, and data sets have their proper names.
    """
    specs = [ax.get_subplotspec() for ax in figure.axes]
    if all(spec and spec.get_gridspec().ncols == 1 for spec in specs) and not figure.subfigs:
        figure.set_figwidth(min(NARROW, figure.get_figwidth()))
    names.speak(figure)
    if layout := figure.get_layout_engine():  # once: matplotlib would draw it all again to find its bounds
        layout.execute(figure)
        with mpl.rc_context({"figure.constrained_layout.use": False}):
            figure.set_layout_engine(None)
    bounds = figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches=bounds, metadata={"Date": None})
    return out.getvalue()
