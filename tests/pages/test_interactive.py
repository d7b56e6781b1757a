"""Pictures with controls: the data and the still drawing, and what a browser makes of them."""

import json
import re
import shutil

import numpy as np
import pytest

from alignbook import paths
from companion.pages.interactive import Axis, Control, Field, Fit, Layer, Readout, picture

DEPTHS = np.array([10, 20, 40, 80])
KAPPAS = np.array([0.5, 1.0, 2.0])
EPSILONS = [0.1, 0.9]


def layers_at(eps, kappa):
    """No straight line in the logarithm, and its slope is no round number."""
    return 1.3 * DEPTHS ** (0.6 + eps / 7) + kappa + np.sin(DEPTHS)


FRAMES = [[layers_at(eps, kappa) for kappa in KAPPAS] for eps in EPSILONS]
SEEDS = np.repeat([0, 1, 2], 4)
PEAKS = np.array([2, 5, 9, 17, 3, 4, 11, 21, 1, 7, 8, 30])


def drawn(**changes):
    """A picture with every kind of control and layer."""
    arguments = {
        "alt": "A line and crosses, with what is fitted.",
        "caption": "</script><b>no tag</b> & so on",
        "x": Axis("depth L", 5, 100, log=True),
        "y": Axis("layer", 0.5, 100, log=True),
        "controls": [
            Control("eps", "ε", EPSILONS),
            Control("kappa", "κ", KAPPAS, start=1),
            Control("data", "data", ["</script>", "b"], kind="select"),
            Control("seeds", "seeds", np.unique(SEEDS), kind="checks"),
            Control("from", "depths from", DEPTHS),
        ],
        "layers": [
            Layer("band", "band", DEPTHS, [[DEPTHS / 3, DEPTHS / 2]] * 3, "#0072B2", by=("kappa",)),
            Layer("line", "line", DEPTHS, np.reshape(FRAMES, (6, 4)), "#0072B2", "l", by=("eps", "kappa")),
            Layer("dots", "dots", DEPTHS, [1.0, np.nan, 3.0, None], "#000000"),
            Layer(
                "crosses", "crosses", np.tile(DEPTHS, 3), PEAKS, "#D55E00", "peaks",
                where=(("seed", "in", "seeds"), ("depth", ">=", "from"), ("data", "=", "data")),
                columns={
                    "seed": SEEDS, "depth": np.tile(DEPTHS, 3),
                    "data": np.where(SEEDS < 2, "</script>", "b"),
                },
            ),
        ],
        "fits": [
            Fit("free", "line", "free slope", "#D55E00", digits=4),
            Fit("law", "line", "slope 3/5", "#000000", slope=0.6),
            Fit("peaks", "crosses", "slope of the peaks", "#009E73", needs=3, none="too few", digits=4),
        ],
        "readouts": [Readout("share", "share", ("kappa",), ["10 %", "20 %", "30 %"])],
    }  # fmt: skip
    return picture("toy", **(arguments | changes)).data


def data_of(text):
    """What the script reads, as a browser cuts it out of the page."""
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def path_of(text, key):
    (found,) = re.findall(rf'data-key="{key}"[^>]* d="([^"]*)"', text)
    return found


def slope_of(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_data_are_plain_numbers_and_no_text_ends_the_script():
    text = drawn()
    data = data_of(text)
    assert text.count("</script>") == 1 and "&lt;b&gt;no tag" in text and "<b>" not in text
    assert "np." not in text and "NaN" not in text and "nan" not in text
    by_key = {layer["key"]: layer for layer in data["layers"]}
    assert by_key["dots"]["y"] == [1, None, 3, None]
    assert by_key["crosses"]["columns"]["seed"] == SEEDS.tolist()
    assert data["controls"][2]["values"] == ["</script>", "b"]
    np.testing.assert_allclose(by_key["line"]["y"], np.reshape(FRAMES, (6, 4)), rtol=1e-4)
    assert max(len(str(value)) for row in by_key["line"]["y"] for value in row) <= 6
    assert drawn() == text and text.startswith('<div class="ab-interactive"')


def test_still_drawing_shows_the_starting_state():
    text = drawn()
    assert f"{slope_of(DEPTHS, FRAMES[0][1]):.4f} (4 points)" in text
    peaks = slope_of(np.tile(DEPTHS, 2), PEAKS[:8])
    assert f"{peaks:.4f} (8 points)" in text and ">20 %<" in text
    assert path_of(text, "crosses").count("M") == 8 and path_of(text, "dots").count("M") == 2
    assert path_of(text, "band").endswith("Z")
    # The left and right ends of the field stand for 5 and 100, in logarithms.
    start = float(re.match(r"M([\d.]+) ", path_of(text, "line"))[1])
    assert start == pytest.approx(58 + (496 - 58) * np.log(10 / 5) / np.log(100 / 5), abs=0.06)
    assert re.findall(r"text-anchor=\"middle\">([^<]+)</text>", text)[:-1] == ["5", "10", "20", "50", "100"]


def test_a_gap_divides_a_line_and_too_few_points_are_not_fitted():
    gap = Layer("line", "line", DEPTHS, [2.0, 3.0, np.nan, 5.0], "#000000")
    few = Fit("free", "line", "slope", "#000000", needs=4, none="only three")
    text = drawn(layers=[gap], fits=[few])
    assert path_of(text, "line").count("M") == 2 and path_of(text, "free") == "" and ">only three<" in text


def two_fields():
    """A point that moves sideways in the first field, and up in the second, where a line is fitted."""
    return picture(
        "two",
        alt="A point.",
        caption="",
        x=Axis("x", 0, 4),
        y=Axis("y", 0, 2),
        controls=[Control("turn", "turn", [0, 1])],
        layers=[
            Layer("point", "dots", [[1], [3]], [[1], [1]], "#000000", by=("turn",)),
            Layer("other", "line", [1, 10], [[1, 1], [1, 2]], "#000000", by=("turn",), field=1),
        ],
        fits=[Fit("slope", "other", "slope", "#000000")],
        beside=Field(Axis("u", 1, 100, log=True), Axis("v", 0, 4), "A line."),
    ).data


def test_a_second_field_has_axes_of_its_own():
    text = two_fields()
    # Either field is 240 units wide, from 58 on, and 240 high, from 282 up.
    assert path_of(text, "point") == "M118.0 162.0h0.01"
    assert path_of(text, "other") == path_of(text, "slope") == "M58.0 222.0L178.0 222.0"
    first, second = re.findall(r'<svg class="ab-picture".*?</svg>', text)
    assert 'data-key="point"' in first and 'data-key="slope"' in second and 'aria-label="A line."' in second
    assert len(set(re.findall(r'<clipPath id="([^"]*)"', text))) == 2


LINE = Layer("line", "line", [1, 2], [3, 4], "#000000")
EPS = Control("eps", "ε", EPSILONS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": [LINE, LINE], "fits": []}, "twice"),
        ({"controls": [Control("eps", "ε", EPSILONS, start=2)]}, "start"),
        ({"controls": [Control("eps", "ε", EPSILONS, texts=["0.1"])]}, "a text for each"),
        ({"controls": [Control("eps", "ε", EPSILONS, kind="knob")]}, "knob"),
        ({"layers": [Layer("line", "bars", [1, 2], [3, 4], "#000000")]}, "bars"),
        ({"layers": [Layer("line", "line", [1, 2], [[3, 4]], "#000000", by=("eps",))]}, "1 frames for 2"),
        ({"layers": [Layer("line", "line", [1, 2], [[3, 4]], "#000000", by=("no",))]}, "no slider"),
        ({"layers": [Layer("line", "line", [1, 2], [3], "#000000")]}, "different lengths"),
        ({"layers": [Layer("line", "line", [1, 2], [3, 0], "#000000")]}, "not positive"),
        ({"layers": [Layer("line", "line", [0, 2], [3, 1], "#000000")]}, "not positive"),
        (
            {"layers": [Layer("line", "line", [1, 2], [3, 1], "#000000", where=(("x", "=", "eps"),))]},
            "x = eps",
        ),
        ({"layers": [Layer("line", "line", [1, 2], [3, 4], "#000000", field=1)]}, "no field 1"),
        (
            {"layers": [Layer("line", "line", [[1, 2]], [[3, 4], [5, 6]], "#000000", by=("eps",))]},
            "1 frames of x for 2",
        ),
        ({"layers": [LINE], "fits": [Fit("free", "no", "slope", "#000000")]}, "no layer no"),
        ({"layers": [Layer("line", "line", [1, 2], [3, np.inf], "#000000")]}, "JSON"),
        ({"caption": "x" * 100_000}, "more than"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        drawn(**({"controls": [EPS], "layers": [LINE], "fits": [], "readouts": []} | changes))


# In a browser


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page on the file system with the one picture."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("interactive.js", "interactive.css"):
        shutil.copy(paths.root() / "book" / "assets" / name, folder)
    head = '<meta charset="utf-8"><link rel="stylesheet" href="interactive.css">'
    head += '<meta name="viewport" content="width=device-width"><script src="interactive.js"></script>'
    body = drawn() + two_fields()
    page = folder / "page.html"
    page.write_text(
        f'<!doctype html><html data-theme="light"><head>{head}</head><body>{body}</body></html>',
        encoding="utf-8",
    )
    return page


@pytest.fixture
def tab(browser, file):
    """Opens the page and watches what it asks for and what goes wrong."""
    contexts, asked, wrong = [], [], []

    def open_page(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == [] and asked and all(url.startswith(file.parent.as_uri()) for url in asked)


def shown(page, key):
    """The path in the picture."""
    return page.locator(f'.ab-picture path[data-key="{key}"]').get_attribute("d")


def said(page, key):
    return page.locator(f'output[data-key="{key}"]').text_content()


def test_the_browser_draws_what_python_drew(tab):
    page, still = tab(), drawn()
    numbers = re.compile(r"-?\d+\.\d")
    for key in ("band", "line", "dots", "crosses", "free", "law", "peaks"):
        here, there = shown(page, key), path_of(still, key)
        assert numbers.sub("", here) == numbers.sub("", there) and here, key
        # Halves may be rounded to either side.
        np.testing.assert_allclose(
            [float(n) for n in numbers.findall(here)], [float(n) for n in numbers.findall(there)], atol=0.11
        )
    assert said(page, "free") in still and said(page, "share") == "20 %"


def test_least_squares_are_numpys(tab):
    page = tab()
    u, v = np.log(DEPTHS), np.log(FRAMES[1][2])
    call = "([u, v, slope]) => Object.values(alignbook.leastSquares(u, v, slope))"
    np.testing.assert_allclose(page.evaluate(call, [u.tolist(), v.tolist(), None]), np.polyfit(u, v, 1))
    given = page.evaluate(call, [u.tolist(), v.tolist(), 0.6])
    np.testing.assert_allclose(given, [0.6, np.mean(v - 0.6 * u)])


def test_a_slider_moved_by_keys_moves_the_line_and_its_slope(tab):
    page = tab()
    before = shown(page, "line"), shown(page, "free"), shown(page, "band")
    page.get_by_label("κ").press("ArrowRight")
    assert page.get_by_label("κ").get_attribute("aria-valuetext") == "2"
    assert all(
        now != then for now, then in zip((shown(page, "line"), shown(page, "free")), before, strict=False)
    )
    assert shown(page, "band") == before[2] and said(page, "share") == "30 %"
    page.get_by_label("ε").press("End")
    slope = slope_of(DEPTHS, FRAMES[1][2])
    assert float(said(page, "free").split()[0]) == pytest.approx(slope, abs=5e-4)
    assert slope != pytest.approx(slope_of(DEPTHS, FRAMES[0][1]), abs=5e-3)


def test_rows_are_chosen_and_refitted(tab):
    page = tab()
    page.get_by_label("1", exact=True).uncheck()
    assert float(said(page, "peaks").split()[0]) == pytest.approx(slope_of(DEPTHS, PEAKS[:4]), abs=5e-4)
    page.get_by_label("depths from").press("ArrowRight")
    assert float(said(page, "peaks").split()[0]) == pytest.approx(slope_of(DEPTHS[1:], PEAKS[1:4]), abs=5e-4)
    page.get_by_label("depths from").press("ArrowRight")
    assert said(page, "peaks") == "too few" and shown(page, "peaks") == "" and shown(page, "crosses")
    # Only seed 2 has the other data.
    assert page.get_by_label("2", exact=True).is_disabled()
    page.get_by_label("data").select_option("b")
    assert [page.get_by_label(f"{seed}", exact=True).is_disabled() for seed in range(3)] == [
        True,
        True,
        False,
    ]
    page.get_by_label("depths from").press("Home")
    assert float(said(page, "peaks").split()[0]) == pytest.approx(slope_of(DEPTHS, PEAKS[8:]), abs=5e-4)


def test_without_javascript_the_still_picture_is_there(tab):
    page = tab(java_script_enabled=False)
    assert page.locator(".ab-picture:visible").count() == 3
    assert page.locator(".ab-controls:visible").count() == 0
    assert shown(page, "line") == path_of(drawn(), "line")
    assert "ε 0.1; κ 1;" in page.locator("body").inner_text()


def test_on_a_phone_it_fits_and_can_be_read_and_touched(tab):
    page = tab(viewport={"width": 390, "height": 844}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    size = "e => parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a"
    assert min(page.locator(".ab-picture text").evaluate_all(f"all => all.map({size})")) >= 11
    before = shown(page, "line")
    box = page.get_by_label("κ").bounding_box()
    assert box["height"] >= 24
    page.touchscreen.tap(box["x"] + box["width"] - 9, box["y"] + box["height"] / 2)
    assert shown(page, "line") != before


def test_points_move_sideways_and_a_fit_follows_in_the_second_field(tab):
    page = tab()
    assert shown(page, "point") == path_of(two_fields(), "point") and said(page, "slope").startswith("0.00")
    page.get_by_label("turn").press("ArrowRight")
    assert shown(page, "point") == "M238.0 162.0h0.01"
    assert shown(page, "slope") == shown(page, "other") == "M58.0 222.0L178.0 162.0"
    assert said(page, "slope").startswith(f"{1 / np.log(10):.2f}")
