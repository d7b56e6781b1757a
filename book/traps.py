"""The pictures of the page "Seven traps in measuring alignment": toys, and one study's stored runs.

Every picture shows the same thing measured in two ways: in the trap, and beside it.
"""

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.stats
import torch
from torch import nn
from torch.nn import functional

from alignbook import metrics
from alignbook.data import load
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import numpy_stream, torch_stream
from companion.pages import style
from companion.pages.plots import label_ends, octaves
from companion.prose import one_network

BLUE, ORANGE, GREEN, PINK, GREY = (style.SEQUENCE[n] for n in (0, 1, 2, 3, 7))


def write(pages: Path) -> None:
    """Write ``traps/<name>.svg`` for every picture into the folder ``pages``, where results are stored."""
    if not one_network.folder().is_dir():
        return
    style.apply()
    (pages / "traps").mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        figure, ax = plt.subplots(figsize=(5.6, 2.9))
        picture(ax)
        (pages / "traps" / f"{name}.svg").write_text(style.svg(figure), encoding="utf-8")
        plt.close(figure)


def _named(ax, x, lines, look="o-", **axes):
    """Draw ``lines``, (values, label, colour), over ``x``, and name each where it ends."""
    for values, _, colour in lines:
        ax.plot(x, values, look, color=colour)
    ax.set(**axes)
    label_ends(ax, [(x[-1], values[-1], label, colour) for values, label, colour in lines])


def _powers_of_two(ax, ticks, labels, y):
    """Logarithmic axes with ``ticks`` of x."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=y)
    ax.set_xticks(ticks, labels)


def _random_labels():
    """The stored network's means over the seeds while it learns random labels, by step."""
    return one_network.table().query("task == 'random'").groupby("step").mean(numeric_only=True)


def start(ax):
    """Misalignment of a convolutional network's filters while it learns random labels."""
    seen, floor = _random_labels(), floors(filters=64, entries=27)
    steps = seen.index.to_numpy()
    lines = [
        (seen["random_bases"].to_numpy(), "random axes", "0.35"),
        (seen["misalignment"].to_numpy(), "the data’s axes", ORANGE),
        (np.full(len(steps), floor), "floor", GREEN),
    ]
    octaves(ax, steps[-1], (0, 4, 16, 64, 256))
    axes = {"xlabel": "step", "ylabel": "misalignment", "xlim": (0, steps[-1]), "ylim": (floor - 1, None)}
    _named(ax, steps, lines, "-", title="It rises, and yet the filters take on the data’s axes", **axes)


def floors(filters: int, entries: int, draws: int = 20) -> float:
    """Mean misalignment of as many Gaussian filters whose covariance is aligned."""
    rng = numpy_stream(0, "traps", "floor")
    diagonal = np.diag(np.arange(1.0, entries + 1))
    sampled = rng.standard_normal((draws, filters, entries))
    return np.mean([metrics.misalignment(diagonal, np.cov(draw, rowvar=False)) for draw in sampled])


STEPS = (60, 140, 240)


def stopping(ax):
    """A_l of ten layers at three steps of one run."""
    lines = []
    for (step, accuracy, values), colour in zip(stops(), style.ordered(len(STEPS)), strict=True):
        ax.plot(values.argmax() + 1, values.max(), "o", color=colour, ms=7)
        lines.append((values, f"step {step}: {100 * accuracy:.0f} % learned", colour))
    layers = np.arange(1, len(values) + 1)
    axes = {"xlabel": "layer", "ylabel": "$A_l$", "ylim": (0, None), "xticks": layers}
    _named(ax, layers, lines, "-", title="Which layer leads depends on when one looks", **axes)


def stops() -> Iterator[tuple[int, float, np.ndarray]]:
    """Yield (step, accuracy, A_l) of a network of ten layers, that of the chapter's third exercise."""
    digits = load("digits", n=200)
    x, y = functional.normalize(digits.x.flatten(1)).double(), digits.y
    torch.manual_seed(0)
    layers = [nn.Linear(64, width, bias=False) for width in [64] * 9 + [10]]
    net = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1]).double()
    for weight in net.parameters():
        nn.init.kaiming_normal_(weight)
    for step in range(STEPS[-1] + 1):
        outputs = net(x)
        if step in STEPS:
            right = outputs.detach().argmax(1) == y
            yield step, float(right.double().mean()), tangent_alignment(net, x, y)
        _descend(net, functional.cross_entropy(outputs, y), 0.1)


def _descend(net, loss, rate):
    """One step of gradient descent."""
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    for weight, slope in zip(net.parameters(), slopes, strict=True):
        weight.data -= rate * slope


ENDS = (64, 128, 256, 512)


def end(ax):
    """Half-times of two measures of the same runs, had these ended earlier."""
    seen = _random_labels()
    measures = {
        "filters’ preference": (seen["random_bases"] - seen["misalignment"], ORANGE),
        "training accuracy": (seen["accuracy"], BLUE),
    }
    lines = [
        ([half_time(values.loc[:last]) for last in ENDS], name, colour)
        for name, (values, colour) in measures.items()
    ]
    _powers_of_two(ax, ENDS, ENDS, 2)
    ax.set_yticks(ENDS, ENDS)
    axes = {"xlabel": "step at which the run ends", "ylabel": "half-time (steps)"}
    lines.append((ENDS, "end of the run", "0.35"))
    _named(ax, ENDS, lines, title="Until a measure settles, its half-time follows the run", **axes)


def half_time(values) -> float:
    """The step at which ``values`` (by step) have first made half of the way from the first to the last."""
    share = ((values - values.iloc[0]) / (values.iloc[-1] - values.iloc[0])).to_numpy()
    at = int(np.argmax(share >= 0.5))
    return np.interp(0.5, share[at - 1 : at + 1], values.index[at - 1 : at + 1])


FACTORS = (1, 2, 4, 8)


def scale(ax):
    """The largest Hessian eigenvalue of one function, its first two layers scaled against each other."""
    weights, relative = np.transpose([curvatures(factor) for factor in FACTORS])
    lines = [
        (weights / weights[0], "of weights", PINK),
        (relative / relative[0], "of relative\nweights", GREEN),
    ]
    _powers_of_two(ax, FACTORS, [f"×{factor}" for factor in FACTORS], 10)
    x, y = "first layer (second divided by as much)", "curvature (1: as trained)"
    title = "The same outputs, as sharp as you like"
    _named(ax, FACTORS, lines, xlabel=x, ylabel=y, ylim=(0.5, None), title=title)


def curvatures(factor: float) -> list[float]:
    """Largest Hessian eigenvalues in the weights and in relative weights, of a rescaled trained network."""
    digits = load("digits", n=200)
    x, y = functional.normalize(digits.x.flatten(1)).double(), digits.y
    net = nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 10, bias=False)).double()
    draw = torch_stream(1, "traps")
    for weight in net.parameters():
        start = torch.randn(weight.shape, generator=draw, dtype=torch.float64)
        weight.data = start * (2 / weight.shape[1]) ** 0.5
    for _ in range(300):
        _descend(net, functional.cross_entropy(net(x), y), 1.0)
    net[0].weight.data *= factor
    net[2].weight.data /= factor
    (raw,) = metrics.hessian_eigenvalues(net, functional.cross_entropy, x, y, k=1).eigenvalues
    lengths = 1.0
    for weight in net.parameters():  # outputs are proportional to the length of either layer
        lengths *= weight.detach().norm()
        weight.data /= weight.detach().norm()

    def loss(outputs, labels):
        return functional.cross_entropy(lengths * outputs, labels)

    (relative,) = metrics.hessian_eigenvalues(net, loss, x, y, k=1).eigenvalues
    return [raw, relative]


DEPTH, WIDTH = 6, 256


def shared(ax):
    """Alignment of untrained layers' features with the labels, with and without their mean."""
    raw, less = untrained().T
    lines = [(raw / raw[0], "as they are", ORANGE), (less / less[0], "less their mean", GREEN)]
    layers = np.arange(DEPTH)
    axes = {"xlabel": "layers of random weights", "ylabel": "alignment (1: pixels)", "ylim": (0, 1.15)}
    title = "Random layers lose alignment, mostly in one direction"
    _named(ax, layers, lines, xticks=layers, title=title, **axes)


def untrained() -> np.ndarray:
    """Area under the alignment curve (layers, 2), pixels first: rows of length one, then less their mean.

    The area is Σ σᵢ ‖uᵢᵀ Ỹ‖² / (‖Ỹ‖² ‖Φ‖), Ỹ the centred labels.
    """
    digits, draw, areas = load("digits", n=200), torch_stream(2, "traps"), []
    features, labels = digits.x.flatten(1).double(), functional.one_hot(digits.y, 10).double()
    labels = labels - labels.mean(0)
    for _ in range(DEPTH):
        rows = functional.normalize(features)
        for part in (rows, rows - rows.mean(0)):
            left, singular, _ = torch.linalg.svd(part, full_matrices=False)
            along = (left.T @ labels).square().sum(1)
            areas.append(float((singular * along).sum() / (labels.square().sum() * part.norm())))
        weights = torch.randn(features.shape[1], WIDTH, generator=draw, dtype=torch.float64)
        features = functional.relu(features @ weights * (2 / len(weights)) ** 0.5)
    return np.reshape(areas, (DEPTH, 2))


STATISTICS = "representation_alignment/sec7_stale_statistics"


def statistics(ax):
    """Alignment of trained networks' features after other images have passed through them."""
    names = ["as trained", "other images\npassed through", "these images\npassed through"]
    ax.barh([2, 1, 0], refreshed(), color=[BLUE, ORANGE, BLUE], height=0.6)
    for place, percent in zip([2, 1, 0], refreshed(), strict=True):
        ax.text(percent - 1.5, place, f"{percent:.0f} %", ha="right", va="center", color="white")
    ax.set_yticks([2, 1, 0], names)
    ax.set(xlabel="alignment (% of that as trained)", xlim=(0, 110), title="No weight has changed")


def refreshed() -> list[float]:
    """Mean alignment (% of that as trained): as trained, with other images' statistics, with these."""
    rows = one_network.table(STATISTICS, "*").query("kind == 'measured'")
    areas = rows.groupby(["arm", "statistics"])["area"].mean()
    arms = [("none", "kept"), ("statistics", "kept"), ("none", "target")]
    return [100 * float(areas[arm] / areas[arms[0]]) for arm in arms]


TRUE = (0.16, 0.6)  # the peaks' law: a factor, and the power of the depth


def censored(ax):
    """Peaks that follow a power law but cannot be below 1, and two fits."""
    rng = numpy_stream(0, "traps", "peaks")
    depths = np.repeat([10, 14, 20, 28, 40, 56, 80], 12)
    peaks = TRUE[0] * depths ** TRUE[1] * np.exp(0.25 * rng.standard_normal(len(depths)))
    layers = np.maximum(1, peaks.round())
    squares = np.polyfit(np.log(depths), np.log(layers), 1)[::-1]
    ax.plot(depths * rng.uniform(0.96, 1.04, len(depths)), layers, "o", color=GREY, ms=4, alpha=0.6)
    ends = np.array([9, 90])
    for name, (offset, power), colour, look in (
        ("law", (np.log(TRUE[0]), TRUE[1]), "black", "--"),
        ("least squares", squares, ORANGE, "-"),
        ("censored", censored_fit(depths, layers), GREEN, "-"),
    ):
        ax.plot(ends, np.exp(offset) * ends**power, look, color=colour, label=f"{name}: {power:.2f}")
    ax.set(xscale="log", yscale="log", xlabel="depth $L$", ylabel="best aligned layer", ylim=(0.5, 6))
    ax.set_xticks([10, 20, 40, 80], [10, 20, 40, 80])
    ax.set_yticks([1, 2, 4], [1, 2, 4])
    ax.minorticks_off()
    ax.legend(title="power of the depth", loc="upper left", fontsize=9.5, title_fontsize=9.5)
    ax.set_title("Peaks in layer 1 flatten the slope")


def censored_fit(depths: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """(offset, power) of ln peak, most likely where a layer stands for all that is rounded to it."""
    low = np.where(layers > 1, np.log(np.maximum(layers, 1.5) - 0.5), -np.inf)
    high, x = np.log(layers + 0.5), np.log(depths)

    def cost(law):
        offset, power, spread = law
        middle, spread = offset + power * x, np.exp(spread)
        inside = scipy.stats.norm.cdf(high, middle, spread) - scipy.stats.norm.cdf(low, middle, spread)
        return -np.log(np.maximum(inside, 1e-300)).sum()

    return scipy.optimize.minimize(cost, (-1.0, 0.5, -1.0), method="Nelder-Mead").x[:2]


PICTURES = {
    "start": start,
    "stopping": stopping,
    "end": end,
    "scale": scale,
    "shared": shared,
    "statistics": statistics,
    "censored": censored,
}
