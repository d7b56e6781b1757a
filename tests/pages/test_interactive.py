"""Pictures with controls: every state as Python draws it, and as a browser shows it."""

import json
import re
import shutil

import numpy as np
import pytest

from alignbook import paths
from companion.pages.interactive import Axis, Control, Field, Layer, Readout, picture
from tests.pages.test_book import Reader

DEPTHS = np.array([10, 20, 40, 80])
FRAMES = np.array([[DEPTHS**power * factor for factor in (1, 2, 4)] for power in (0.5, 0.9)]).reshape(6, 4)


def drawn(**changes):
    """A picture with both kinds of control and every kind of layer, in two fields."""
    arguments = {
        "alt": "A line and crosses.",
        "caption": "</script><b>no tag</b> & so on",
        "x": Axis("depth L", 5, 100, log=True),
        "y": Axis("layer", 0.5, 100, log=True),
        "beside": Field(Axis("u", 0, 4), Axis("v", 0, 2), "A point that moves sideways."),
        "controls": [
            Control("power", "power", [0.5, 0.9]),
            Control("factor", "factor", [1, 2, 4], start=1),
            Control("data", "data", ["</script>", "b"], kind="select"),
        ],
        "layers": [
            Layer("band", "band", DEPTHS, [[DEPTHS / 3, DEPTHS / 2]] * 2, "#0072B2", by=("data",)),
            Layer("line", "line", DEPTHS, FRAMES, "#0072B2", "l", ("power", "factor")),
            Layer("gap", "line", DEPTHS, [2.0, 3.0, np.nan, 5.0], "#000000", dashed=True),
            Layer("dots", "dots", DEPTHS, [1.0, np.nan, 3.0, None], "#000000"),
            Layer("crosses", "crosses", DEPTHS, DEPTHS / 4, "#D55E00", "peaks"),
            Layer("point", "dots", [[1], [3]], [[1], [1]], "#000000", by=("power",), field=1),
        ],
        "readouts": [Readout("share", "share", ("factor",), ["10 %", "20 %", "30 %"])],
    }
    return picture("toy", **(arguments | changes)).data


def states_of(text):
    """What the script reads, as a browser cuts it out of the page."""
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)["states"]


def path_of(text, key):
    (path,) = re.findall(rf'data-key="{key}"[^>]* d="([^"]*)"', text)
    return path


def test_the_start_is_drawn_and_every_other_state_waits_in_the_script():
    text = drawn()
    assert text.count("</script>") == 1 and "&lt;b&gt;no tag" in text and "<b>" not in text
    assert text == drawn() and "nan" not in text and "\n" not in text
    states = states_of(text)
    assert set(states) == {"band", "line", "point", "share"} and len(states["line"]["frames"]) == 6
    assert path_of(text, "line") == states["line"]["frames"][1] and ">20 %<" in text
    # The ends of a field of 240 units from 58 on, 282 to 42 upwards, stand for the axes' ends, in logarithms.
    x, y = map(float, re.match(r"M([\d.]+) ([\d.]+)", path_of(text, "line")).groups())
    assert x == pytest.approx(58 + 240 * np.log(10 / 5) / np.log(20), abs=0.06)
    assert y == pytest.approx(282 - 240 * np.log(FRAMES[1][0] / 0.5) / np.log(200), abs=0.06)
    assert path_of(text, "point") == "M118.0 162.0h0.01"
    assert states["point"]["frames"][1] == "M238.0 162.0h0.01"
    assert path_of(text, "gap").count("M") == 2 and path_of(text, "dots").count("M") == 2
    assert path_of(text, "crosses").count("M") == 4 and path_of(text, "band").endswith("Z")
    first, second = re.findall(r'<svg class="ab-picture".*?</svg>', text)
    assert re.findall(r'text-anchor="middle">([^<]+)<', first)[:-1] == ["5", "10", "20", "50", "100"]
    assert 'data-key="point"' in second and 'aria-label="A point that moves sideways."' in second


def test_frames_that_the_controls_do_not_have_are_refused():
    with pytest.raises(ValueError, match="line: 5 frames for 6"):
        drawn(layers=[Layer("line", "line", DEPTHS, FRAMES[:5], "#000000", by=("power", "factor"))])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page on the file system with the one picture."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("interactive.js", "interactive.css"):
        shutil.copy(paths.root() / "book" / "assets" / name, folder)
    head = '<meta charset="utf-8"><link rel="stylesheet" href="interactive.css">'
    head += '<meta name="viewport" content="width=device-width"><script src="interactive.js"></script>'
    page = folder / "page.html"
    page.write_text(
        f"<!doctype html><html><head>{head}</head><body>{drawn()}</body></html>", encoding="utf-8"
    )
    return page


@pytest.fixture
def tab(browser, file):
    """Opens the page, which asks for nothing outside of its folder."""
    readers = []

    def open_page(**options):
        readers.append(Reader(browser, f"{file.parent.as_uri()}/", **options))
        return readers[-1].open("page")

    yield open_page
    for reader in readers:
        reader.context.close()
        assert reader.outside == [] and reader.errors == []


def shown(page, key):
    """The path in the picture."""
    return page.locator(f'.ab-picture path[data-key="{key}"]').get_attribute("d")


def test_keys_and_selects_lead_to_the_state_that_was_drawn(tab):
    page, states = tab(), states_of(drawn())
    assert shown(page, "line") == states["line"]["frames"][1]
    page.get_by_label("factor").press("ArrowRight")
    assert page.get_by_label("factor").get_attribute("aria-valuetext") == "4"
    assert shown(page, "line") == states["line"]["frames"][2]
    assert page.locator('output[data-key="share"]').text_content() == "30 %"
    page.get_by_label("power").press("End")
    assert shown(page, "line") == states["line"]["frames"][5]
    assert shown(page, "point") == states["point"]["frames"][1]
    page.get_by_label("data").select_option("b")
    assert shown(page, "band") == states["band"]["frames"][1]


def test_without_javascript_the_still_picture_is_there(tab):
    page = tab(java_script_enabled=False)
    assert page.locator(".ab-picture:visible").count() == 2
    assert page.locator(".ab-controls:visible").count() == 0
    assert shown(page, "line") == path_of(drawn(), "line")
    assert "power 0.5; factor 2;" in page.locator("body").inner_text()
