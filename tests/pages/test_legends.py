"""Dash styles that no legend shows."""

import matplotlib.pyplot as plt
import pytest

from companion.pages import legends, style
from companion.pages.plots import key, legend_below


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_every_dash_style_without_an_entry_is_told(ax):
    ax.plot([0, 1], [0, 1], label="after")
    ax.plot([0, 1], [1, 0], "--")
    ax.axvline(0.5, ls=":")
    ax.errorbar([0, 1], [1, 2], [0.1, 0.1], fmt="o-.")
    ax.legend()
    assert legends.unexplained(ax.figure) == ["--", "-.", ":"]
    assert '<svg data-unexplained="-- -. :" ' in style.svg(ax.figure)


def test_an_entry_explains_its_own_colour_or_in_grey_all(ax):
    ax.plot([0, 1], [0, 1], "--", color="red", label="before")
    ax.legend()
    assert legends.unexplained(ax.figure) == []
    ax.plot([0, 1], [1, 2], "--", color="blue")
    assert legends.unexplained(ax.figure) == ["--"]
    key(ax, "--", "before")
    ax.legend()
    assert legends.unexplained(ax.figure) == [] and "unexplained" not in style.svg(ax.figure)


def test_legends_of_a_figure_and_of_its_parts_count(ax):
    ax.errorbar([0, 1], [1, 2], [0.1, 0.1], fmt="o--", color="red", label="test")
    ax.twinx().plot([0, 1], [1, 2], ":", color="red")
    key(ax, ":", "loss")
    legend_below(ax.figure, ax)
    assert legends.unexplained(ax.figure) == []
    whole = plt.figure()
    part = whole.subfigures(2, 1)[1]
    part.subplots().plot([0, 1], "--", label="test")
    assert legends.unexplained(whole) == ["--"]
    part.legend()
    assert legends.unexplained(whole) == []
    plt.close(whole)


def test_a_line_is_exempt_by_its_label_alone(ax):
    ax.axhline(0, ls=":", label=legends.REFERENCE)
    ax.plot([0, 1], [0, 1], "--", label=legends.BESIDE)
    ax.plot([0], [0], "--")  # a point
    ax.plot([0, 1], [0, 1], "-.", visible=False)
    assert legends.unexplained(ax.figure) == []
    ax.axhline(1, ls=":")
    assert legends.unexplained(ax.figure) == [":"]


def test_a_figure_with_a_legend_can_be_shown_without_it(ax):
    ax.plot([0, 1], [0, 1], label="after")
    assert 'id="small"' not in style.svg(ax.figure)
    ax.legend()
    svg = style.svg(ax.figure)
    assert '#small:target g[id^="legend"] { display: none }' in svg and svg.count('id="small"') == 1
    assert '<g id="legend_1">' in svg and "#small:target" in style.darkened(svg)


def test_a_thumbnail_has_no_legend(ax, browser, tmp_path):
    ax.set_axis_off()
    ax.plot([0, 1], [0, 0], color="none", label="after")
    ax.legend()
    (tmp_path / "x.svg").write_text(style.svg(ax.figure))
    page, drawn = browser.new_page(), []
    for shown in ('<img src="x.svg">', f'<img src="x.svg{legends.SMALL}">', ""):
        (tmp_path / "x.html").write_text(shown)
        page.goto((tmp_path / "x.html").as_uri())
        drawn.append(page.screenshot())
    page.close()
    assert drawn[0] != drawn[1] == drawn[2]
