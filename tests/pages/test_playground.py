"""The playground in a browser: its measures are those of alignbook.metrics, its controls do what they say."""

import re
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from alignbook import metrics, paths
from alignbook.metrics.tangent_alignment import tangent_alignment
from companion.prose import playground
from tests.pages.test_book import Reader

ASSETS = paths.root() / "book" / "assets" / "playground"
PAGE = (paths.root() / "book" / "playground.md").read_text(encoding="utf-8")
TRAINED = """const {points, labels, depth, width, rate, scale, seed, steps, until} = given;
    const network = playground.network(), measures = playground.measures(network);
    const data = playground.data(network);
    const digits = JSON.parse(document.getElementById("playground-digits").textContent);
    const task = data.labelled(data.tasks(points, digits, seed).first, labels, seed);
    const sizes = [task.inputs, ...Array(depth - 1).fill(width), task.classes];
    const net = network.create(sizes, scale, seed + 1);
    let accuracy = 0;
    for (let step = 0; step < steps && accuracy < until; step++)
        ({accuracy} = network.descend(net, task, rate));"""
MEASURED = (
    f"""(given) => {{{TRAINED}"""
    + """
    const at = network.gradient(net, task), seen = measures.dataAxes(task.x, task.n, task.inputs, 8, 2);
    const features = network.forward(net, task.x, task.n).at(-2);
    return {
        sizes, theta: [...net.theta], x: [...task.x], labels: task.labels, loss: at.loss,
        accuracy: at.accuracy, gradient: [...at.gradient], axes: [...seen.axes],
        bases: seen.bases.map((basis) => [...basis]),
        filters: measures.filters(net, seen), floor: seen.floor(width),
        curve: measures.alignmentCurve(features, task.n, width, task.labels, task.classes),
        tangent: measures.tangentAlignment(net, task),
        curvature: measures.topCurvature(net, task, {most: 300, tolerance: 1e-8}).value,
    };
}"""
)
SETTINGS = {
    name: dict(zip(("points", "labels", "depth", "width", "rate", "scale", "steps"), values, strict=True))
    for name, values in {
        "digits": ("digits", "random", 4, 32, 0.1, 0.75, 60),
        "stripes": ("stripes", "shuffled", 2, 64, 0.5, 2, 40),
        "spirals": ("spirals", "real", 10, 16, 0.1, 1, 80),
    }.items()
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the playground alone, in a page that is opened as a file."""
    folder = tmp_path_factory.mktemp("playground")
    shutil.copytree(ASSETS, folder / "_static" / "playground")
    playground.write(folder)
    raw = PAGE[PAGE.index("<link") : PAGE.rindex("</script>") + len("</script>")]
    raw = re.sub(
        r"```\{include\} (\S+)\n```", lambda found: (folder / found[1]).read_text(encoding="utf-8"), raw
    )
    marks = "".join(re.findall(r"<span [^>]*data-challenge.*?</span>", PAGE))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = folder / "page.html"
    page.write_text(
        f"<!doctype html><html><head>{head}</head><body class='bd-article'>{raw}{marks}</body></html>",
        encoding="utf-8",
    )
    return page.as_uri()


@pytest.fixture
def tab(browser, address):
    """Opens the page, which asks for nothing outside of its folder."""
    readers = []

    def open_page(settings=""):
        readers.append(Reader(browser, address.rpartition("/")[0]))
        page = readers[-1].page
        page.goto(address + settings)
        page.wait_for_function("playground.latest")
        return page

    yield open_page
    for reader in readers:
        reader.context.close()
        assert reader.outside == [] and reader.errors == []


def model(sizes, theta):
    """The browser's network in PyTorch."""
    layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    net = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1]).double()
    nn.utils.vector_to_parameters(torch.tensor(theta, dtype=torch.float64), net.parameters())
    return net


def curve_by_the_book(features, y, classes, thresholds):
    """Alignment of the centred one-hot labels as a share of them."""
    centred = functional.one_hot(y, classes).double()
    centred = (centred - centred.mean(0)).numpy()
    curves = [metrics.alignment_curve(features, column, thresholds)[1] for column in centred.T]
    return sum(curves) / np.square(centred).sum()


def held_against_python(found, tolerance=1e-5):
    sizes, classes = found["sizes"], found["sizes"][-1]
    net, y = model(sizes, found["theta"]), torch.tensor(found["labels"])
    x = torch.tensor(found["x"], dtype=torch.float64).reshape(len(y), -1)
    close = {"rtol": tolerance, "atol": tolerance}

    outputs = net(x)
    loss = functional.cross_entropy(outputs, y)
    np.testing.assert_allclose(found["loss"], loss.item(), **close)
    assert found["accuracy"] == pytest.approx((outputs.argmax(1) == y).double().mean().item())
    if "gradient" in found:
        slope = torch.autograd.grad(loss, list(net.parameters()))
        np.testing.assert_allclose(found["gradient"], nn.utils.parameters_to_vector(slope), **close)
    values, vectors = np.linalg.eigh(np.cov(x.numpy(), rowvar=False))
    widest = min(8, sizes[0])
    of_weights = np.cov(net[0].weight.detach().numpy() @ vectors[:, -widest:], rowvar=False)
    data = metrics.misalignment(np.diag(values[-widest:]), of_weights)
    np.testing.assert_allclose(found["filters"]["data"], data, **close)
    sigma = np.array(found["curve"]["sigma"])
    between = np.append((sigma[1:] + sigma[:-1]) / 2, 0.0)  # where rounding moves no step
    clear = np.append(-np.diff(sigma) > 1e-6, True)
    expected = curve_by_the_book(net[:-1](x).detach(), y, classes, between)
    np.testing.assert_allclose(np.array(found["curve"]["share"])[clear], expected[clear], **close)

    np.testing.assert_allclose(found["tangent"], tangent_alignment(net, x, y), **close)
    top = metrics.hessian_eigenvalues(net, functional.cross_entropy, x, y, k=1, tol=1e-8).eigenvalues[0]
    np.testing.assert_allclose(found["curvature"], top, **close)


@pytest.mark.parametrize(
    "name", ["digits", *(pytest.param(n, marks=pytest.mark.slow) for n in SETTINGS if n != "digits")]
)
def test_measures_are_those_of_the_book_on_the_same_weights(tab, name):
    found = tab().evaluate(MEASURED, SETTINGS[name] | {"seed": 0, "until": 2})
    held_against_python(found)
    widest = min(8, found["sizes"][0])
    axes = np.reshape(found["axes"], (widest, -1))
    bases = [np.reshape(basis, (widest, widest)) for basis in found["bases"]]
    for rows in [axes, *bases]:
        np.testing.assert_allclose(rows @ rows.T, np.eye(widest), atol=1e-9)
    first = model(found["sizes"], found["theta"])[0].weight.detach().numpy()
    of_weights = np.cov(first @ axes.T, rowvar=False)
    scores = [metrics.misalignment_basis(basis.T, of_weights) for basis in bases]
    assert found["filters"]["random"] == pytest.approx(np.mean(scores), rel=1e-5)
    width, rng = SETTINGS[name]["width"], np.random.default_rng(0)
    draws = rng.standard_normal((2000, width, widest))
    floor = [
        metrics.misalignment(np.diag(np.arange(1.0, widest + 1)), np.cov(d, rowvar=False)) for d in draws
    ]
    assert found["floor"] == pytest.approx(np.mean(floor), abs=5 * np.std(floor) / 20**0.5)


LATEST = """() => {
    const {net, task, ...rest} = playground.latest;
    return {...rest, sizes: net.sizes, theta: [...net.theta], x: [...task.x], labels: task.labels};
}"""


def test_what_the_worker_tells_while_it_trains_is_right_too(tab):
    page = tab("#points=digits&depth=3&width=16&rate=0.2")
    page.get_by_role("button", name="Run").click()
    page.wait_for_function("playground.latest.step >= 12")
    assert len(page.workers) == 1  # which computes, so that the page stays smooth
    page.get_by_role("button", name="Pause").click()
    found = page.evaluate(LATEST)
    held_against_python(found, 1e-3)  # its curvature stops at a residual of a hundredth
    assert page.locator('[data-key="tangent"] rect').count() == 3
    loss = page.locator('[data-key="loss"] .pg-blue').first.get_attribute("d")
    assert loss.startswith("M") and loss.count("L") >= 8


def steps(page):
    return page.evaluate("playground.latest.step")


def test_step_pause_and_reset_by_keyboard_and_the_address_holds_the_settings(tab):
    page = tab("#points=stripes&depth=2&width=16&seed=4&rate=no")
    page.get_by_role("button", name="Step").focus()
    for count in (1, 2):
        page.keyboard.press("Enter")
        page.wait_for_function(f"playground.latest.step === {count}")
    depth = page.get_by_label("layers", exact=True)
    assert depth.get_attribute("aria-valuetext") == "2"
    depth.press("ArrowRight")
    page.wait_for_function("playground.latest.step === 0")
    assert depth.get_attribute("aria-valuetext") == "3"
    assert page.evaluate("playground.latest.net.sizes") == [2, 16, 16, 2]
    assert (
        "depth=3" in page.url and "seed=4" in page.url and "rate=0.1" in page.url
    )  # what is wrong is left out
    before = page.evaluate("[...playground.latest.net.theta]")
    again = tab(page.url[page.url.index("#") :])
    assert again.evaluate("[...playground.latest.net.theta]") == before
    page.get_by_label("labels", exact=True).select_option("random")
    page.wait_for_function("location.hash.includes('labels=random')")
    page.evaluate("location.hash = 'points=spirals&depth=4'")
    page.wait_for_function("playground.latest.net.sizes.join() === '2,32,32,32,2'")


def test_fine_tuning_keeps_all_layers_but_the_last_and_has_a_network_from_scratch_beside_it(tab):
    page = tab("#points=digits&depth=3&width=16&rate=0.2")
    page.get_by_role("button", name="Run").click()
    page.wait_for_function("playground.latest.step >= 8")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Step").click()
    page.wait_for_function("document.querySelector('[data-key=run]').textContent === 'Run'")
    page.wait_for_timeout(300)
    before = page.evaluate(LATEST)
    page.get_by_role("button", name="Fine-tune").click()
    page.wait_for_function("playground.latest.phase === 'second'")
    after = page.evaluate(LATEST)
    head = 16 * 5 + 5
    old, new = (np.array(net["theta"]) for net in (before, after))
    assert (old[:-head] == new[:-head]).all() and (old[-head:-5] != new[-head:-5]).all()
    assert after["step"] == 0 and after["scratch"] != after["loss"]
    page.get_by_role("button", name="Step").click()
    page.wait_for_function("playground.latest.step === 1")
    assert page.evaluate("playground.latest.scratch") < after["scratch"]


def test_rescaling_keeps_every_output(tab):
    tab("#points=spirals&depth=3&width=32&rate=0.3&scale=1").evaluate(
        """() => {
            const network = playground.network(), {net, task} = playground.latest;
            const say = (one) => [...network.forward(one, task.x, task.n).at(-1)];
            const [a, b] = [say(net), say(network.rescaled(net, 8))];
            if (a.some((value, i) => Math.abs(value - b[i]) > 1e-12)) throw Error("other outputs");
        }"""
    )


@pytest.mark.slow
def test_the_solutions_are_solutions(tab):
    links = [link.replace("&amp;", "&") for link in re.findall(r'data-settings="([^"]*)"', PAGE)]
    peaks = []
    for link in links:
        given = {
            key: value if key in ("points", "labels", "next") else float(value)
            for key, value in (part.split("=") for part in link.split("&"))
        }
        tangent = "return {accuracy, tangent: measures.tangentAlignment(net, task)};"
        found = tab().evaluate(f"(given) => {{{TRAINED} {tangent}}}", given | {"steps": 400, "until": 0.995})
        assert found["accuracy"] >= 0.99
        peaks.append(found["tangent"])
    first, hump = peaks
    assert first.index(max(first)) == 0
    assert max(hump) > 1.2 * max(hump[0], hump[-1])
