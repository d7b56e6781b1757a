"""The chapter "Four ideas in ten minutes": its code, its pictures by formula and in a browser."""

import doctest
import re
import shutil

import numpy as np
import pytest
import torch

from alignbook import paths
from companion.pages import ideas, toys
from tests.pages.test_interactive import data_of, path_of

CHAPTER = paths.root() / "book" / "ideas.md"


@pytest.fixture(scope="module")
def drawn():
    return {idea: draw().data for idea, draw in ideas.PICTURES.items()}


def frames(text, key, kind="layers"):
    """What ``key`` shows: the frames of a layer's y, or a readout's texts."""
    (found,) = (part for part in data_of(text)[kind] if part["key"] == key)
    return found["y" if kind == "layers" else "values"]


def test_the_code_of_the_chapter_prints_what_it_shows():
    text = CHAPTER.read_text(encoding="utf-8")
    # What is folded away below a block stands before it: a reader who opens it pastes that first.
    folded = r"^(```pycon\n(?:(?!```).*\n)+```\n)\n:::\{dropdown\}.*\n(```pycon\n(?:(?!```).*\n)+```\n):::$"
    ordered = re.sub(folded, r"\2\n\1", text, flags=re.MULTILINE)
    unfolded = re.sub(folded, r"\1", text, flags=re.MULTILINE)
    shown = re.findall(r"^```pycon\n((?:(?!```).*\n)+)", unfolded, re.MULTILINE)
    assert len(shown) == len(ideas.PICTURES) and ":::" not in ordered
    assert all(block.count(">>> ") <= 3 for block in shown)
    fences = re.sub(r"^```.*$", "", ordered, flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(fences, {}, "ideas.md", str(CHAPTER), 0)
    assert len(examples.examples) > 20
    report = []
    failed = doctest.DocTestRunner(verbose=False).run(examples, out=report.append).failed
    assert not failed, "".join(report)


def test_the_chapter_defines_what_it_measures_by_a_formula():
    shown = "".join(
        re.findall(r"^\$\$\n(.*?)\n\$\$", CHAPTER.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    for measure in (r"\text{Alignment}(\Phi, y, \tau) =", "M(A, B) &=", r"f(\sigma_i) =", "A_l ="):
        assert measure in shown


def test_the_chapter_includes_every_picture():
    included = re.findall(r"```\{include\} (\S+)\.txt", CHAPTER.read_text(encoding="utf-8"))
    assert included == [f"idea-{idea}" for idea in ideas.PICTURES]


def test_labels_along_the_first_singular_vector_leave_it_as_they_turn(drawn):
    features = toys.circle()
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    shares = []
    for turn in ideas.TURNS:
        labels = toys.labels_at(features, turn)
        assert sorted(np.unique(labels)) == [-1, 1]
        shares.append(np.square(left.T @ labels) / len(labels))
    shares = np.array(shares)
    said = frames(drawn["alignment"], "first", "readouts")
    assert said == [f"{100 * first:.0f}\u00a0%" for first in shares[:, 0]]
    areas = [float(text) for text in frames(drawn["alignment"], "area", "readouts")]
    np.testing.assert_allclose(areas, shares @ singular / singular[0], atol=0.0051)
    assert areas[0] > 0.9 and areas[-1] < 0.5 and (np.diff(areas) <= 0).all()


def test_misalignment_is_zero_where_the_axes_agree_and_for_round_weights(drawn):
    by_length = np.reshape(frames(drawn["misalignment"], "here"), (len(ideas.LENGTHS), -1))
    for long, scores in zip(ideas.LENGTHS, by_length, strict=True):
        for turn, score in zip(ideas.TURNS, scores, strict=True):
            weights = toys.turned(turn, (long, ideas.LENGTHS[0]))
            expected = np.sqrt(np.diag(weights) * np.diag(np.linalg.inv(weights))).sum() - 2
            assert score == pytest.approx(expected, rel=1e-4, abs=1e-9)
    np.testing.assert_allclose(by_length[0], 0, atol=1e-9)
    np.testing.assert_allclose(by_length[:, [0, -1]], 0, atol=1e-9)
    assert (by_length[1:, 4] > 0.1).all()
    width = [float(text) for text in frames(drawn["misalignment"], "tau1", "readouts")]
    assert width[10 * 2] == ideas.LENGTHS[2] and width[10 * 2 + 9] == ideas.LENGTHS[0]


def test_a_row_of_a_layers_kernel_is_what_a_small_step_does():
    _, inputs, labels = toys.arcs()
    network = next(toys.trained(inputs, labels, [0]))
    kernels = toys.layer_kernels(network, inputs)

    def margins():
        outputs = network(inputs)
        return outputs[:, 1] - outputs[:, 0]

    for number, weight in enumerate(network.parameters()):
        before = margins()
        (part,) = torch.autograd.grad(before[5], [weight])
        kept, step = weight.data.clone(), 1e-7
        weight.data += step * part
        moved = (margins() - before).detach().numpy() / step
        weight.data = kept
        np.testing.assert_allclose(moved, kernels[number][5], rtol=1e-3, atol=1e-4 * abs(moved).max())


def test_training_aligns_the_kernels_and_ends_the_step_where_the_class_ends(drawn):
    _, _, labels = toys.arcs()
    steps, marked = len(ideas.STEPS), len(ideas.MARKED)
    rows = np.reshape(frames(drawn["tangent"], "row"), (-1, steps, marked, len(labels)))
    signs = 2 * labels.numpy() - 1
    for number, mark in enumerate(ideas.MARKED):
        np.testing.assert_allclose(rows[:, :, number, mark], signs[mark])
    aligned = np.reshape(frames(drawn["tangent"], "here"), (-1, steps))
    assert (aligned[:, -1] > aligned[:, 0]).all() and (aligned > 0).all() and (aligned < 1).all()
    own = signs == signs[ideas.MARKED[1]]
    before, after = (np.abs(rows[2, step, 1][~own]).mean() for step in (0, -1))
    assert after < before / 4 and rows[2, -1, 1][own].mean() > 0.5


def test_the_valley_is_a_parabola_and_gradient_descent_goes_down_it(drawn):
    for curvature in ideas.CURVATURES:
        model, loss, inputs, targets = toys.valley(curvature, 0.5)
        model.weight.data[0, 0] = 0.0
        places = [0.0]
        for _ in ideas.MOVES[1:]:
            (part,) = torch.autograd.grad(loss(model(inputs), targets), [model.weight])
            model.weight.data -= 0.2 * part
            places.append(float(model.weight[0, 0].detach()))
        number = (ideas.CURVATURES.index(curvature) * len(ideas.SHIFTS) + 4) * len(ideas.RATES) + 2
        (layer,) = (part for part in data_of(drawn["landscape"])["layers"] if part["key"] == "steps")
        np.testing.assert_allclose(layer["x"][number], places, rtol=1e-4, atol=1e-4)
        heights = curvature / 2 * np.square(np.array(places) - 0.5)
        np.testing.assert_allclose(layer["y"][number], heights, rtol=1e-3, atol=1e-4)
    (new,) = (part for part in data_of(drawn["landscape"])["layers"] if part["key"] == "new")
    np.testing.assert_allclose(new["y"][-1], 4 * np.square(np.array(new["x"]) - 0.5), rtol=1e-3, atol=1e-4)
    # In the steepest valley the largest rate throws the weights out, and one sees it begin.
    x, y = np.array(layer["x"][-1]), np.array(layer["y"][-1])
    assert (np.diff(y) > 0).all() and ((x > -1.2) & (x < 2.2) & (y < 4.2)).sum() == 3
    assert frames(drawn["landscape"], "top", "readouts") == [f"{c:g}" for c in ideas.CURVATURES]


# In a browser


@pytest.fixture(scope="module")
def file(drawn, tmp_path_factory):
    """A page with the four pictures."""
    folder = tmp_path_factory.mktemp("ideas")
    for name in ("interactive.js", "interactive.css"):
        shutil.copy(paths.root() / "book" / "assets" / name, folder)
    head = '<meta charset="utf-8"><link rel="stylesheet" href="interactive.css">'
    head += '<meta name="viewport" content="width=device-width"><script src="interactive.js"></script>'
    page = folder / "page.html"
    page.write_text(f"<!doctype html><html><head>{head}</head><body>{''.join(drawn.values())}</body></html>")
    return page


@pytest.fixture
def tab(browser, file):
    contexts, wrong = [], []

    def open_page(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


MOVES = {  # per picture a slider, and what it moves
    "alignment": ("turn of the labels", "curve", "area"),
    "misalignment": ("turn of the weights", "weights", "tau1"),
    "tangent": ("training steps", "row", "value"),
    "landscape": ("curvature λ", "new", "end"),
}


def test_a_key_moves_each_picture_to_what_was_computed(tab, drawn):
    page = tab()
    for idea, (slider, line, readout) in MOVES.items():
        box = page.locator(f"#ab-{idea}")
        path = box.locator(f'.ab-picture path[data-key="{line}"]')
        before, output = path.get_attribute("d"), box.locator(f'output[data-key="{readout}"]')
        here, there = (re.findall(r"-?\d+\.\d", text) for text in (before, path_of(drawn[idea], line)))
        np.testing.assert_allclose(np.array(here, float), np.array(there, float), atol=0.11, err_msg=idea)
        said = output.text_content()
        box.get_by_label(slider).press("End")
        assert path.get_attribute("d") != before and output.text_content() != said, idea
    score = page.locator('#ab-misalignment output[data-key="score"]')
    assert score.text_content() == "0.00"  # at a right angle
    page.locator("#ab-misalignment").get_by_label("turn of the weights").press("ArrowLeft")
    assert float(score.text_content()) > 0


def test_each_picture_is_there_without_javascript(tab, drawn):
    page = tab(java_script_enabled=False)
    for idea, (_, line, _) in MOVES.items():
        path = page.locator(f'#ab-{idea} .ab-picture path[data-key="{line}"]')
        assert path.get_attribute("d") == path_of(drawn[idea], line) and path.get_attribute("d")
    assert page.locator(".ab-picture:visible").count() == 2 * len(MOVES)
    assert page.locator(".ab-controls:visible").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_each_picture_can_be_read_and_touched(tab, width):
    page = tab(viewport={"width": width, "height": 844}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    size = "e => parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a"
    assert min(page.locator(".ab-picture text").evaluate_all(f"all => all.map({size})")) >= 11
    fits = """svg => {
      const ends = e => { const box = e.getBoundingClientRect(); return [box.left, box.right]; };
      const [left, right] = ends(svg), texts = [...svg.querySelectorAll('text')].map(ends);
      return texts.every(([from, to]) => from >= left - 2 && to <= right + 2); }"""
    assert page.locator(".ab-picture").evaluate_all(f"all => all.map({fits})") == [True] * 8
    first, second = page.locator("#ab-alignment .ab-picture").all()
    below = second.bounding_box()["y"] >= first.bounding_box()["y"] + first.bounding_box()["height"]
    assert below == (width == 390)
    for idea, (slider, line, _) in MOVES.items():
        path = page.locator(f'#ab-{idea} .ab-picture path[data-key="{line}"]')
        before, box = path.get_attribute("d"), page.locator(f"#ab-{idea}").get_by_label(slider)
        box.scroll_into_view_if_needed()
        place = box.bounding_box()
        assert place["height"] >= 24
        page.touchscreen.tap(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        page.touchscreen.tap(place["x"] + 0.7 * place["width"], place["y"] + place["height"] / 2)
        assert path.get_attribute("d") != before, idea
