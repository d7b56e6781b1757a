"""One figure for each instrument's table."""

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .words import FRESH, SPOKEN, parts

GREY = "#7F7F7F"
# Okabe and Ito's palette, darkened for a white ground.
KNOWN = {"network": "#0072B2", "before": "#D55E00", FRESH: GREY}
OTHERS = ["#009E73", "#CC79A7", "#B87800", "#2F93CC", "#000000"]
SHOWN = 6  # layers' curves in one figure


def figure(name: str, rows: pd.DataFrame) -> Figure:
    """The figure of an instrument's table."""
    fig = Figure(figsize=(7.0, 3.4), layout="constrained")
    ax = fig.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    DRAW[name](ax, rows)
    return fig


def _styled(rows):
    """[(network, its rows, {color, ls, label})]."""
    colours, styled = iter(OTHERS * 9), []
    for who, part in parts(rows):
        colour = KNOWN[who] if who in KNOWN else next(colours)
        label = SPOKEN.get(who) or plain(who)
        styled.append((who, part, {"color": colour, "ls": "--" if who == FRESH else "-", "label": label}))
    return styled


def plain(text: str) -> str:
    """A name as matplotlib can draw it: no mathematics, at most 60 characters."""
    return text.replace("$", r"\$") if len(text) <= 60 else f"…{text[-59:]}".replace("$", r"\$")


def _filters(ax, rows):
    for _, part, look in _styled(rows):
        ax.plot(part["sigma"], part["tau"], marker="o", ms=3, **look)
    ax.set(xlabel="σ, standard deviation of patches along an eigenvector", ylabel="τ, of filters")
    _spread_over_decades(ax, rows["sigma"])
    ax.legend(frameon=False)


def _spread_over_decades(ax, values):
    """A logarithmic axis where the values span a decade: on less its labels would overlap."""
    positive = values[values > 0]
    if len(positive) and positive.max() >= 10 * positive.min():
        ax.set_xscale("log")
    else:
        ax.locator_params(axis="x", nbins=5)


def _features(ax, rows):
    whole = dict(parts(rows))
    part = whole.get("network", rows[rows["network"] == rows["network"].iloc[0]])
    layers = list(dict.fromkeys(part["layer"]))
    chosen = np.linspace(0, len(layers) - 1, min(SHOWN, len(layers))).round().astype(int)
    shades = mpl.colormaps["viridis"](np.linspace(0.6, 0.08, len(chosen)))  # light to dark
    for n, (colour, i) in enumerate(zip(shades, chosen, strict=True)):
        curve = part[part["layer"] == layers[i]]
        line = ("-", "-.")[n % 2]  # neighbours lie close, and in the dark so do their colours
        ax.plot(curve["k"], curve["share"], line, color=colour, label=plain(layers[i]))
    last = layers[-2:][0]  # before the outputs, which are few
    curve = part[part["layer"] == last]
    ax.plot(curve["k"], curve["chance"], color=GREY, ls=":", label="chance, in the last layer")
    fresh = whole.get(FRESH)
    if fresh is not None and (fresh["layer"] == last).any():
        curve = fresh[fresh["layer"] == last]
        ax.plot(curve["k"], curve["share"], color=GREY, ls="--", label="random weights, the last layer")
    ax.set(
        xlabel="k, top singular vectors of what the layer reads",
        ylabel="share of the targets",
        ylim=(0, 1.02),
    )
    _spread_over_decades(ax, rows["k"])
    ax.legend(fontsize=9, frameon=False)


def _tangent(ax, rows):
    for _, part, look in _styled(rows):
        ax.plot(part["depth"] + 1, part["alignment"], marker="o", ms=4, **look)
        ax.plot(part["depth"] + 1, part["chance"], color=look["color"], ls=":", lw=1.2)
    ax.set(xlabel="layer", ylabel="alignment $A_l$", ylim=(0, None))
    ax.xaxis.get_major_locator().set_params(integer=True)
    _legend_below(ax)  # lines may be anywhere


def _curvature(ax, rows):
    ax.set_yscale("symlog", linthresh=1)  # networks may differ by orders of magnitude
    for shift, (_, part, look) in enumerate(_styled(rows)):
        place = part["index"] + 0.1 * shift
        look = {"color": look["color"], "label": look["label"]}
        ax.errorbar(place, part["eigenvalue"], part["residual"], fmt="o", **look)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.margins(y=0.1)
    ax.set(xlabel="index, by magnitude", ylabel="eigenvalue ± residual")
    _legend_below(ax)


def _legend_below(ax):
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)


def _slice(ax, rows):
    for _, part, look in _styled(rows):  # losses that lie far apart would flatten each other
        centre = part["loss"].iloc[len(part) // 2]
        look["label"] += f" ({centre:.3g} at α = 0)"
        ax.plot(part["alpha"], part["loss"] - centre, **look)
    ax.set(xlabel="α, in lengths of each filter", ylabel="loss minus that at α = 0")
    ax.locator_params(axis="x", nbins=5)
    ax.legend(frameon=False)


def _deviation(ax, rows):
    for _, part, look in _styled(rows):
        ax.plot(range(1, len(part) + 1), 100 * part["relative"], marker="o", ms=4, **look)
    ax.axhline(100 * math.sqrt(2), color=GREY, lw=0.8, ls=":")
    ax.set(xlabel="weight", ylabel="‖W − W₀‖ / ‖W₀‖ (%)", ylim=(0, None))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)


DRAW = {
    "filters": _filters,
    "features": _features,
    "tangent": _tangent,
    "curvature": _curvature,
    "slice": _slice,
    "deviation": _deviation,
}
