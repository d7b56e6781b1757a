"""Figures drawn for the dark mode."""

import re
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from nbformat import v4

from companion.pages import panels, style
from companion.pages.book import _write_notebook
from companion.pages.extension import pair_figures


def luminance(colour):
    """Relative luminance of ``#rrggbb`` (WCAG 2)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", sorted({*style.COLOURS.values(), *style.SEQUENCE}))
def test_every_mark_stands_out_on_both_grounds(colour):
    assert contrast(colour, "#ffffff") >= 3
    text = style.darkened(f'<svg ><path style="stroke: {colour.lower()}"/>')
    drawn = re.search(r"stroke: (#[0-9a-f]{6})", text)[1]
    assert contrast(drawn, "#121212") >= 4.5


def in_the_dark(colour):
    return re.search(r"stroke: (#[0-9a-f]{6})", style.darkened(f'<svg ><path style="stroke: {colour}"/>'))[1]


def lightness(colour):
    """CIE L*, from 0 (black) to 100 (white)."""
    return 116 * luminance(colour) ** (1 / 3) - 16


@pytest.mark.parametrize("n", range(1, 21))
def test_ordered_colours_darken_in_even_steps_and_stand_out_on_both_grounds(n):
    light = style.ordered(n)
    dark = [in_the_dark(colour) for colour in light]
    assert len(set(light)) == len(set(dark)) == n
    assert min(contrast(colour, "#ffffff") for colour in light) >= 3
    assert min(contrast(colour, "#121212") for colour in dark) >= 3.5
    for drawn in (light, dark):
        steps = -np.diff([lightness(colour) for colour in drawn])
        assert (steps > 0).all() and (n > 12 or (steps >= 3).all())
        assert n == 1 or steps.max() <= 1.5 * steps.min() + 0.5  # a place of the map is rounded


def test_ordered_colours_begin_and_end_alike_however_many():
    assert style.ordered(0) == [] and style.ordered(1) == style.ordered(5)[-1:]
    assert [style.ordered(2)[i] for i in (0, -1)] == [style.ordered(9)[i] for i in (0, -1)]


def test_words_become_light_and_colour_maps_and_white_stay():
    svg = (
        '<svg ><text/><path style="stroke: #000000"/><g id="QuadMesh_1"><path style="fill: #440154"/></g>\n'
        ' </g><path style="stroke: #ffffff"/>'
    )
    text = style.darkened(svg)
    assert text.startswith('<svg fill="#ebebeb" ')
    assert "stroke: #ebebeb" in text and "fill: #440154" in text and "stroke: #ffffff" in text


def test_a_real_figure_has_no_ground_and_keeps_its_hues(tmp_path):
    with plt.rc_context():
        style.apply()
        figure, axis = plt.subplots()
        axis.plot([0, 1], color=style.COLOURS["real"])
        figure.savefig(tmp_path / "one.svg")
        plt.close(figure)
    light = (tmp_path / "one.svg").read_text()
    assert "#ffffff" not in light and "#0072b2" in light
    assert "#0072b2" not in style.darkened(light)


def test_drawn_or_executed_twice_a_page_is_the_same(tmp_path):
    def drawn():
        with plt.rc_context():
            style.apply()
            figure, axis = plt.subplots()
            axis.plot([0, 1], marker="o", clip_on=True)
            axis.fill_between([0, 1], [0, 1], hatch="//")
            text = style.svg(figure)
            plt.close(figure)
        return text

    def executed(name, when):
        cells = [v4.new_markdown_cell("A"), v4.new_code_cell("1", metadata={"execution": {"shell": when}})]
        notebook = v4.new_notebook(cells=cells, metadata={"papermill": {"start": when}})
        _write_notebook(notebook, tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert drawn() == drawn()
    assert executed("one.ipynb", "now") == executed("two.ipynb", "later")


def test_pages_hold_both_drawings_of_a_vector_figure(tmp_path):
    svg = '<svg viewBox="0 0 200 100"><path/></svg>'
    (tmp_path / "x.svg").write_text(svg)
    app = SimpleNamespace(srcdir=tmp_path, env=SimpleNamespace(images={"x.svg": (set(), "x.svg")}))

    def paired(body):
        context = {"body": body}
        pair_figures(app, "page", "page.html", context, None)
        return context["body"]

    image = '<img alt="a" class="wide" src="../_images/x.svg" style="w"/>'
    light = image.replace('class="', 'class="only-light ').replace('w"/>', 'max-width: 300px; w"/>')
    dark = light.replace("x.svg", "x-dark.svg").replace("light", "dark")
    assert paired(f'<p>{image}<img src="a.png"/></p>') == f'<p>{light}{dark}<img src="a.png"/></p>'
    plain = paired('<img src="../_images/x.svg"/>')
    assert plain.count("<img") == 2 and 'class="only-dark"' in plain
    # In parts, too, where it has several; a thumbnail never.
    parts = {"keys": [], "panels": [[9, 9, [0, 0, 9, 9, 0, 0]]] * 2}
    (tmp_path / "x.svg").write_text(panels.named(svg, parts))
    assert paired(image) == f'<span class="ab-whole">{light}{dark}</span>' + panels.stack(
        panels.named(svg, parts), "../_images/x.svg", "../_images/x-dark.svg", "a"
    )
    thumbnail = paired('<img src="_images/x.svg" alt="a" data-panel="1" loading="lazy"/>')
    assert "<svg" not in thumbnail and {"_images/x.svg#small", "_images/x-dark.svg#small"} == set(
        re.findall(r'src="(.*?)"', thumbnail)
    )
