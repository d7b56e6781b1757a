"""Parts of figures, which phones show one below another."""

import re

import matplotlib.pyplot as plt
import pytest
from matplotlib.transforms import Bbox

from companion.pages import panels, style


@pytest.fixture(scope="module")
def drawn():
    """(figure, its axes, its SVG): two columns that share everything, a colour bar, a legend for all."""
    with plt.rc_context():
        style.apply()
        figure, axes = plt.subplots(2, 2, sharex=True, sharey=True)
        for row, word in zip(axes, ("upper", "lower"), strict=True):
            row[0].set_ylabel(word)
        for ax, head in zip(axes[0], ("left", "right"), strict=True):
            ax.set_title(head)
        for ax in axes.flat:
            (line,) = ax.plot([0, 1], label="a line with a name")
        mesh = axes[1, 1].pcolormesh([[0, 1], [1, 0]])
        figure.colorbar(mesh, ax=axes, label="colours")
        figure.legend([line], ["a line with a name"], loc="outside lower center")
        figure.supxlabel("steps")
        svg = style.svg(figure)
        yield figure, axes, svg
        plt.close(figure)


def test_the_parts_hold_all_that_is_drawn_and_no_neighbours_data(drawn):
    figure, axes, svg = drawn
    parts = panels.read(svg)
    assert len(parts["panels"]) == 5 and len(parts["keys"]) == 1  # the colour bar stands by itself
    figure.dpi = 72
    figure.draw_without_rendering()
    whole = figure.get_tightbbox().padded(0.1)

    def place(artist, box=None):
        """(left, top, right, bottom) of an artist in the units of the SVG."""
        box = box or artist.get_tightbbox()
        x0, y0, x1, y1 = box.extents / figure.dpi
        return [72 * (x0 - whole.x0), 72 * (whole.y1 - y1), 72 * (x1 - whole.x0), 72 * (whole.y1 - y0)]

    def around(crop, slack=4):  # this renderer sets words a little wider
        x, y, width, height = crop[:4]
        return Bbox([[x - slack, y - slack], [x + width + slack, y + height + slack]])

    seen = [around(crop) for part in parts["panels"] for crop in part[2:]]
    for ax in figure.axes:
        assert any(_within(place(ax), box) for box in seen), ax
    assert _within(place(figure.legends[0].get_texts()[0]), around(parts["keys"][0][2]))
    for part, own in zip(parts["panels"], axes.flat, strict=False):
        for other in axes.flat:
            data = Bbox.from_extents(place(other, other.get_window_extent()))
            both = Bbox.intersection(around(part[2], 0), data)
            assert other is own or both is None or min(both.width, both.height) < 1


def _within(extents, box):
    x0, y0, x1, y1 = extents
    return box.x0 <= x0 and box.y0 <= y0 and x1 <= box.x1 and y1 <= box.y1


def test_a_panel_has_the_numbers_labels_and_title_that_stand_at_its_neighbours(drawn):
    upper_left, upper_right, lower_left, lower_right, bar = panels.read(drawn[2])["panels"]
    # Crops: the panel; at the left numbers; below it numbers and the label of all; above it a title.
    assert [len(part) - 2 for part in (upper_left, upper_right, lower_left, lower_right, bar)] == [
        3,
        4,
        3,
        4,
        1,
    ]
    for part in (upper_right, lower_right):
        (x, _, width, *_), (strip_x, _, strip_width, _, at, _) = part[2], part[3]
        assert strip_x + strip_width < x and at == 0 and part[0] > width
    # The numbers of the lower row stand right below the upper row's data.
    assert upper_right[4][5] < lower_right[2][1] and upper_right[4][1] > lower_right[2][1] + 20
    title = lower_left[-1]
    assert title[1] < upper_left[2][1] + 5 and title[5] == 0


def test_a_page_shows_a_figure_whole_or_in_parts_and_reads_its_text_once(drawn):
    svg = drawn[2]
    shown = panels.stack(svg, "../a.svg", "../a-dark.svg", "Four plots.")
    assert shown.count("Four plots.") == 1 and shown.count('role="img"') == 1
    assert shown.count('<svg class="ab-part" aria-hidden="true"') == 6
    width, height = panels.size(svg)
    found = set(
        re.findall(r'<image class="(only-\w+)" href="([^"]+)" width="([^"]+)" height="([^"]+)"/>', shown)
    )
    sizes = (f"{width:g}", f"{height:g}")
    assert found == {("only-light", "../a.svg", *sizes), ("only-dark", "../a-dark.svg", *sizes)}


@pytest.mark.parametrize(("named", "number"), [(1, 1), (3, 3), (4, 4), (9, 1)])
def test_a_thumbnail_is_the_panel_that_a_study_names_with_what_stands_at_its_neighbours(drawn, named, number):
    images = '<img class="only-light" src="a.svg" alt="Plots."><img class="only-dark" src="b.svg" alt="">'
    shown = panels.cropped(drawn[2], images, named)
    across, (width, height, *crops) = panels.size(drawn[2])[0], panels.read(drawn[2])["panels"][number - 1]
    places = re.findall(r'<img style="width: ([\d.]+)%; left: ([-\d.]+)%; top: ([-\d.]+)%"', shown)
    boxes = re.findall(r'<span style="left: ([-\d.]+)%; top: ([-\d.]+)%; width: ([\d.]+)%; height: ', shown)
    assert len(boxes) == len(crops) and places[::2] == places[1::2] and len(places) == 2 * len(crops)
    assert f"aspect-ratio: {width:g} / {height:g}" in shown and shown.count("Plots.") == 1
    for place, box, (x, y, w, h, left, top) in zip(places[::2], boxes, crops, strict=True):
        scale, aside, up = (float(part) / 100 for part in place)
        assert scale * w == pytest.approx(across, rel=0.01)
        assert (-aside * w, -up * h) == pytest.approx((x, y), abs=0.5)
        shares = [float(part) / 100 for part in box]
        assert shares == pytest.approx([left / width, top / height, w / width], abs=0.001)
    single, _ = plt.subplots()
    assert panels.cropped(style.svg(single), images) == images
    plt.close(single)


def test_what_draws_over_a_neighbour_stays_with_it_and_one_panel_is_narrow_and_whole():
    with plt.rc_context():
        style.apply()
        figure, axes = plt.subplots(1, 3, sharey=True)
        axes[0].annotate("words into the next panel", (0.5, 0.5))
        figure.set_layout_engine("none")
        assert len(panels.read(style.svg(figure))["panels"]) == 2
        single, _ = plt.subplots()
        svg = style.svg(single)
        plt.close("all")
    assert panels.read(svg) is None and panels.stack(svg, "a.svg", "b.svg", "A plot.") == ""
    assert panels.size(svg)[0] < 72 * (panels.NARROW + 0.3)


@pytest.mark.parametrize(("columns", "order"), [(3, "adbecf"), (4, "abcdefgh")])
def test_rows_that_pairs_would_break_stand_side_by_side(columns, order):
    with plt.rc_context():
        style.apply()
        figure, axes = plt.subplots(2, columns, figsize=(7, 4), sharex=True, sharey=True)
        svg = style.svg(figure)
        plt.close(figure)
    parts = panels.read(svg)["panels"]
    assert panels.paired(parts) and "ab-pairs" in panels.stack(svg, "a.svg", "b.svg", "Plots.")
    place = [(part[2][1], part[2][0]) for part in parts]  # in the figure, of the first crop
    middle = sum(top for top, _ in place) / len(place)
    by_row = sorted(place, key=lambda at: (at[0] > middle, at[1]))
    assert "".join("abcdefgh"[by_row.index(at)] for at in place) == order


def test_a_wide_colour_bar_stands_alone_below_pairs():
    with plt.rc_context():
        style.apply()
        figure, axes = plt.subplots(2, 5, figsize=(7, 3.8), sharex=True, sharey=True)
        mesh = [ax.pcolormesh([[0, 1], [1, 0]]) for ax in axes.flat]
        figure.colorbar(mesh[0], ax=axes, orientation="horizontal", shrink=0.7)
        svg = style.svg(figure)
        plt.close(figure)
    *shown, bar = panels.read(svg)["panels"]
    assert bar[0] > panels.SMALL
    lefts = [part[2][0] for part in shown]  # in the figure: both rows of a column stand side by side
    assert lefts[::2] == pytest.approx(lefts[1::2], abs=15) and lefts[::2] == sorted(lefts[::2])
    drawn = panels.stack(svg, "a.svg", "b.svg", "Maps.")
    assert "ab-pairs" in drawn and drawn.count("max-width: 100%") == 1
