"""How figures look on a light and on a dark ground."""

import ast
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from nbformat import v4

from alignbook import paths
from companion.pages import style
from companion.pages.execution import _as_stored
from companion.runs import notebooks


def luminance(colour):
    """Relative luminance of ``#rrggbb`` (WCAG 2)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def in_the_dark(colour):
    """``#rrggbb`` after the style sheet's filter (W3C Filter Effects 1: invert, then hue-rotate by 180°)."""
    sheet = (paths.root() / "book" / "assets" / "book.css").read_text()
    amount = float(re.search(r"filter: invert\(([\d.]+)\) hue-rotate\(180deg\)", sheet)[1])
    inverted = [amount + (1 - 2 * amount) * int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    turned = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]]
    return "#" + "".join(f"{round(255 * part):02x}" for part in np.clip(turned @ np.array(inverted), 0, 1))


@pytest.mark.parametrize("colour", sorted({*style.COLOURS.values(), *style.SEQUENCE}))
def test_every_mark_stands_out_on_both_grounds(colour):
    assert contrast(colour, "#ffffff") >= 3
    assert contrast(in_the_dark(colour), "#121212") >= 4


def lightness(colour):
    """CIE L*, from 0 (black) to 100 (white)."""
    return 116 * luminance(colour) ** (1 / 3) - 16


@pytest.mark.parametrize("n", range(1, 21))
def test_ordered_colours_keep_their_order_and_stand_out_on_both_grounds(n):
    light = style.ordered(n)
    dark = [in_the_dark(colour) for colour in light]
    assert len(set(light)) == len(set(dark)) == n
    assert min(contrast(colour, "#ffffff") for colour in light) >= 3
    assert min(contrast(colour, "#121212") for colour in dark) >= 3.5
    assert (np.diff([lightness(colour) for colour in dark]) > 0).all()
    steps = -np.diff([lightness(colour) for colour in light])
    assert (steps > 0).all() and (n > 12 or (steps >= 3).all())
    assert n == 1 or steps.max() <= 1.5 * steps.min() + 0.5  # a place of the map is rounded


def test_drawn_or_executed_twice_a_page_is_the_same():
    def drawn():
        with plt.rc_context():
            style.apply()
            figure, axis = plt.subplots()
            axis.plot([0, 1], marker="o", clip_on=True)
            axis.fill_between([0, 1], [0, 1], hatch="//")
            text = style.svg(figure)
            plt.close(figure)
        return text

    def executed(when):
        cells = [v4.new_markdown_cell("A"), v4.new_code_cell("1", metadata={"execution": {"shell": when}})]
        notebook = v4.new_notebook(cells=cells, metadata={"papermill": {"start": when}})
        return _as_stored(notebook)

    assert drawn() == drawn()
    assert executed("now") == executed("later")


@pytest.mark.parametrize("book", notebooks.every(), ids=lambda book: book.name)
def test_every_band_says_what_it_is_and_none_is_a_bootstrap(book):
    """Seaborn's own is drawn anew in each build, and too narrow for few seeds."""
    for call in (node for cell in notebooks.cells(book) for node in ast.walk(ast.parse(cell))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("sns.lineplot", "sns.pointplot"):
            options = {word.arg: ast.unparse(word.value) for word in call.keywords}
            said = options.get("errorbar") or options.get("estimator") == "None" or None in options
            assert said and "'ci'" not in str(said), ast.unparse(call)
