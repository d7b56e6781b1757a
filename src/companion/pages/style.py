"""How every figure looks: vector output, colour-blind-safe colours, light and dark.

What has no order (data sets, starts, methods) takes its colour from ``COLOURS`` or ``SEQUENCE``, a series the
same on every page; what has one (depth, width, epoch, rate) from :func:`ordered`.
"""

import colorsys
import io
import re

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.transforms import Affine2D, TransformedBbox

from companion.pages import legends, names, panels

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

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
# Of the 256 colours of viridis: the ends of what a white ground takes, then of what a dark one takes.
_DARKEST, _PALEST = 20, 150
_DARKEST_IN_THE_DARK, _PALEST_IN_THE_DARK = 100, 254


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

    Parameters
    ----------
    n : int
        How many; of one, it is the darkest.

    Returns
    -------
    list of str
        ``#rrggbb``, from the part of viridis that leaves out its palest and darkest ends.

    Notes
    -----
    A test checks that on white each has a contrast of at least 3:1. In the dark mode, :func:`darkened`
    spreads them over the part of the map that has at least 3.5:1 on ``#121212``; light to dark stays so.
    Printed grey they stay in order: of up to 12, neighbours are at least 3 apart in CIE lightness.

    Examples
    --------
    >>> ordered(3)
    ['#21a585', '#31688e', '#481d6f']
    """
    found = np.linspace(_PALEST, _DARKEST, n) if n > 1 else np.full(n, _DARKEST)
    return [_viridis(place) for place in found.round().astype(int)]


def _viridis(place):
    below = int(place)
    colours = [mpl.colormaps["viridis"](below), mpl.colormaps["viridis"](min(below + 1, 255))]
    return mpl.colors.to_hex(np.average(colours, axis=0, weights=[1 - place % 1, place % 1]))


_ON_WHITE = np.arange(_DARKEST, _PALEST + 1)
_ON_BLACK = np.linspace(_DARKEST_IN_THE_DARK, _PALEST_IN_THE_DARK, len(_ON_WHITE))
_IN_THE_DARK = {_viridis(light): _viridis(dark) for light, dark in zip(_ON_WHITE, _ON_BLACK, strict=True)}


def svg(figure):
    """The text of the matplotlib ``figure`` as SVG, which names its :mod:`~companion.pages.panels`.

    Its first tag says which dash styles no legend shows. It has no date: two builds of one commit are the
    same. A figure of one column becomes narrow, and data sets have their proper names.
    """
    panels.narrowed(figure)
    names.speak(figure)
    dpi, figure.dpi = figure.dpi, 72  # an SVG's own units
    try:
        renderer = RendererSVG(*figure.bbox.size, io.StringIO(), image_dpi=72)
        with renderer._draw_disabled():
            figure.draw(renderer)
            figure.draw(renderer)  # a layout goes by the ticks of the drawing before
        figure.set_layout_engine("none")
        shown = figure.get_tightbbox(renderer).padded(mpl.rcParams["savefig.pad_inches"])
        # Before it is saved: that moves the entries of legends by what it cuts off.
        parts = panels.parts(figure, renderer, TransformedBbox(shown, Affine2D().scale(72)))
        out = io.StringIO()
        figure.savefig(out, format="svg", bbox_inches=shown, metadata={"Date": None})
    finally:
        figure.dpi = dpi
    return legends.told(panels.named(legends.hideable(out.getvalue()), parts), figure)


def darkened(svg):
    """The text of a figure drawn for a dark ground.

    Greys change places with their opposites, so that black becomes nearly white; colours that a dark ground
    would swallow become lighter and keep their hue; those of :func:`ordered` keep their order. What has no
    colour of its own is black in SVG. Cells of a colour map (quad meshes and embedded images) and what is
    drawn on them stay as they are.
    """
    svg = svg.replace("<svg ", '<svg fill="#000000" ', 1)
    kept = re.split(r'(<g id="QuadMesh_.*?</g>\n? *</g>|<image .*?/>)', svg, flags=re.DOTALL)
    return "".join(part if n % 2 else _COLOUR.sub(_opposite, part) for n, part in enumerate(kept))


def _opposite(found):
    if found[0] == "#ffffff":  # on no ground, white is only drawn upon colours
        return found[0]
    if found[0].lower() in _IN_THE_DARK:
        return _IN_THE_DARK[found[0].lower()]
    red, green, blue = (int(found[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    if saturation < 0.1:
        light = 0.08 + 0.84 * (1 - light)
    else:
        light = max(light, 0.62)
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, light, saturation))
