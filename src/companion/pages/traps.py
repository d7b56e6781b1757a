"""The pictures of the page "Seven traps in measuring alignment": toys, and one study's stored runs.

Every picture shows the same thing measured in two ways: in the trap, and beside it.
"""

import copy

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
from companion.pages import one_network, style
from companion.pages.plots import label_ends, octaves

BLUE, ORANGE, GREEN, PINK, GREY = (style.SEQUENCE[n] for n in (0, 1, 2, 3, 7))


def draw(pages):
    """Write ``traps/<name>.svg`` for every picture into the folder ``pages``."""
    style.apply()
    (pages / "traps").mkdir(exist_ok=True)
    for name, drawn in PICTURES.items():
        figure, ax = plt.subplots(figsize=(5.6, 2.9))
        drawn(ax)
        (pages / "traps" / f"{name}.svg").write_text(style.svg(figure), encoding="utf-8")
        plt.close(figure)


# 1. A misalignment is read against chance, not against its own start


def start(ax):
    """Misalignment of a convolutional network's filters while it learns random labels."""
    rows = one_network.table().query("task == 'random'")
    seen = rows.groupby("step")[["misalignment", "random_bases"]].mean()
    floor = floors(filters=64, entries=27)
    ax.plot(seen.index, seen["random_bases"], color=GREY)
    ax.plot(seen.index, seen["misalignment"], color=ORANGE)
    ax.axhline(floor, color=GREEN, ls="--")
    octaves(ax, seen.index[-1], (0, 4, 16, 64, 256))
    ax.set(xlabel="step", ylabel="misalignment", xlim=(0, seen.index[-1]), ylim=(floor - 1, None))
    ax.set_title("It rises, and yet the filters take on the data’s axes")
    last = seen.iloc[-1]
    ends = [(last.name, last["random_bases"], "random axes", "0.35")]
    ends += [(last.name, last["misalignment"], "the data’s axes", ORANGE), (last.name, floor, "floor", GREEN)]
    label_ends(ax, ends)


def floors(filters, entries, draws=20):
    """Mean misalignment of as many Gaussian filters whose covariance is aligned."""
    rng = numpy_stream(0, "traps", "floor")
    diagonal = np.diag(np.arange(1.0, entries + 1))
    sampled = rng.standard_normal((draws, filters, entries))
    return np.mean([metrics.misalignment(diagonal, np.cov(draw, rowvar=False)) for draw in sampled])


# 2. The layer that leads depends on when training stops

STEPS = (60, 140, 240)


def stopping(ax):
    """A_l of ten layers at three steps of one run."""
    ends = []
    for (step, accuracy, values), colour in zip(stops(), style.ordered(len(STEPS)), strict=True):
        layers = np.arange(1, len(values) + 1)
        peak = int(values.argmax())
        ax.plot(layers, values, color=colour)
        ax.plot(layers[peak], values[peak], "o", color=colour, ms=7)
        ends.append((layers[-1], values[-1], f"step {step}: {100 * accuracy:.0f} % learned", colour))
    ax.set(xlabel="layer", ylabel="$A_l$", ylim=(0, None), xticks=layers)
    ax.set_title("Which layer leads depends on when one looks")
    label_ends(ax, ends)


def stops():
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
        descend(net, functional.cross_entropy(outputs, y), 0.1)


def descend(net, loss, rate):
    """One step of gradient descent."""
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    for weight, slope in zip(net.parameters(), slopes, strict=True):
        weight.data -= rate * slope


# 3. Half of the change of what never saturates

ENDS = (64, 128, 256, 512)


def end(ax):
    """Half-times of two measures of the same runs, had these ended earlier."""
    rows = one_network.table().query("task == 'random'")
    rows = rows.assign(filters=rows["random_bases"] - rows["misalignment"])
    seen = rows.groupby("step")[["filters", "accuracy"]].mean()
    names = {"filters": ("filters’ preference", ORANGE), "accuracy": ("training accuracy", BLUE)}
    lines = []
    for name, (label, colour) in names.items():
        times = [half_time(seen[name].loc[:last]) for last in ENDS]
        ax.plot(ENDS, times, "o-", color=colour)
        lines.append((ENDS[-1], times[-1], label, colour))
    ax.plot(ENDS, ENDS, "--", color=GREY)
    lines.append((ENDS[-1], ENDS[-1], "end of the run", "0.35"))
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(ENDS, ENDS)
    ax.set_yticks(ENDS, ENDS)
    ax.set(xlabel="step at which the run ends", ylabel="half-time (steps)")
    ax.set_title("Until a measure settles, its half-time follows the run")
    label_ends(ax, lines)


def half_time(values):
    """The step at which ``values`` (by step) have first made half of the way from the first to the last."""
    share = ((values - values.iloc[0]) / (values.iloc[-1] - values.iloc[0])).to_numpy()
    at = int(np.argmax(share >= 0.5))
    return np.interp(0.5, share[at - 1 : at + 1], values.index[at - 1 : at + 1])


# 4. Curvature has the units of the weights

FACTORS = (1, 2, 4, 8)


class Relative(nn.Module):
    """A network whose parameters are its weight matrices as multiples of their lengths."""

    def __init__(self, net):
        super().__init__()
        self.net, self.lengths = net, [float(weight.detach().norm()) for weight in net.parameters()]
        weights = zip(net.parameters(), self.lengths, strict=True)
        self.parts = nn.ParameterList([weight.detach() / length for weight, length in weights])

    def forward(self, x):
        names = [name for name, _ in self.net.named_parameters()]
        scaled = [part * length for part, length in zip(self.parts, self.lengths, strict=True)]
        return torch.func.functional_call(self.net, dict(zip(names, scaled, strict=True)), x)


def scale(ax):
    """The largest Hessian eigenvalue of one function, its first two layers scaled against each other."""
    found = np.array([curvatures(factor) for factor in FACTORS])
    for column, colour in zip(found.T, (PINK, GREEN), strict=True):
        ax.plot(FACTORS, column / column[0], "o-", color=colour)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(FACTORS, [f"×{factor}" for factor in FACTORS])
    ax.set(
        xlabel="first layer (second divided by as much)", ylabel="curvature (1: as trained)", ylim=(0.5, None)
    )
    ax.set_title("The same outputs, as sharp as you like")
    ends = [(FACTORS[-1], found[-1, 0] / found[0, 0], "of weights", PINK)]
    label_ends(ax, [*ends, (FACTORS[-1], found[-1, 1] / found[0, 1], "of relative\nweights", GREEN)])


def curvatures(factor):
    """Largest Hessian eigenvalues in the weights and in relative weights, of a rescaled trained network."""
    digits = load("digits", n=200)
    x, y = functional.normalize(digits.x.flatten(1)).double(), digits.y
    net = nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 10, bias=False)).double()
    draw = torch_stream(1, "traps")
    for weight in net.parameters():
        start = torch.randn(weight.shape, generator=draw, dtype=torch.float64)
        weight.data = start * (2 / weight.shape[1]) ** 0.5
    for _ in range(300):
        descend(net, functional.cross_entropy(net(x), y), 1.0)
    net[0].weight.data *= factor
    net[2].weight.data /= factor
    return [
        metrics.hessian_eigenvalues(model, functional.cross_entropy, x, y, k=1).eigenvalues[0]
        for model in (net, Relative(net))
    ]


# 5. One direction that all features share

DEPTH, WIDTH = 6, 256


def shared(ax):
    """Alignment of untrained layers' features with the labels, with and without their mean."""
    found = untrained()
    layers = np.arange(len(found))
    for column, colour in zip(found.T, (ORANGE, GREEN), strict=True):
        ax.plot(layers, column / column[0], "o-", color=colour)
    ax.set(xlabel="layers of random weights", ylabel="alignment (1: pixels)", ylim=(0, 1.15), xticks=layers)
    ax.set_title("Random layers lose alignment, mostly in one direction")
    names = ("as they are", "less their mean")
    label_ends(ax, [(layers[-1], found[-1, n] / found[0, n], names[n], (ORANGE, GREEN)[n]) for n in (0, 1)])


def untrained():
    """Area under the alignment curve (layers, 2), pixels first: rows of length one, then less their mean.

    The area is Σ σᵢ ‖uᵢᵀ Ỹ‖² / (‖Ỹ‖² ‖Φ‖), Ỹ the centred labels.
    """
    digits, draw, found = load("digits", n=200), torch_stream(2, "traps"), []
    features = digits.x.flatten(1).double()
    labels = functional.one_hot(digits.y, 10).double()
    labels = labels - labels.mean(0)
    for _ in range(DEPTH):
        rows = functional.normalize(features)
        found.append([area(part, labels) for part in (rows, rows - rows.mean(0))])
        weights = torch.randn(features.shape[1], WIDTH, generator=draw, dtype=torch.float64)
        features = functional.relu(features @ weights * (2 / len(weights)) ** 0.5)
    return np.array(found)


def area(features, labels):
    """Of :func:`untrained`."""
    left, singular, _ = torch.linalg.svd(features, full_matrices=False)
    along = (left.T @ labels).square().sum(1)
    return float((singular * along).sum() / (labels.square().sum() * features.norm()))


# 6. Statistics that batch norm keeps


def statistics(ax):
    """Alignment of a trained network's features while other images pass through it."""
    names, found = zip(*passed(), strict=True)
    places = np.arange(len(names))[::-1]
    ax.barh(places, [100 * share for share in found], color=[BLUE, ORANGE, BLUE], height=0.6)
    for place, share in zip(places, found, strict=True):
        ax.text(100 * share - 1.5, place, f"{100 * share:.0f} %", ha="right", va="center", color="white")
    ax.set_yticks(places, names)
    ax.set(xlabel="labels on the top ten directions (%)", xlim=(0, 100))
    ax.set_title("No weight has changed")


def passed():
    """Yield what has passed through a network with batch norm, and the labels' share on its features."""
    digits = load("digits", n=1000)
    x, y, order = digits.x.flatten(1), digits.y, torch_stream(3, "traps")
    torch.manual_seed(0)
    wide = [(nn.Linear(a, 128), nn.BatchNorm1d(128), nn.ReLU()) for a in (64, 128)]
    net = nn.Sequential(*[part for parts in wide for part in parts], nn.Linear(128, 10))
    optimiser = torch.optim.SGD(net.parameters(), 0.1, 0.9)
    for _ in range(15):
        for batch in torch.randperm(len(x), generator=order).split(50):
            optimiser.zero_grad()
            functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    yield "trained", share(net, x, y)
    for name, images in {
        "negatives\npassed through": x.max() + x.min() - x,
        "own images\npassed through": x,
    }.items():
        other = copy.deepcopy(net)
        with torch.no_grad():  # in training mode: the running means and variances follow
            for batch in torch.randperm(len(images), generator=order).repeat(3).split(50):
                other.train()(images[batch])
        net = other
        yield name, share(net, x, y)


def share(net, x, y):
    """Share of the centred labels on the top ten singular vectors of the last features."""
    with torch.no_grad():
        features = net.eval()[:-1](x)
    labels = functional.one_hot(y, 10).double()
    labels = (labels - labels.mean(0)).numpy()
    net.train()
    curves = [metrics.alignment_curve(features, column)[1] for column in labels.T]
    return sum(along[-10] for along in curves) / np.square(labels).sum()


# 7. A peak cannot lie before the first layer

TRUE = (0.16, 0.6)  # the peaks' law: a factor, and the power of the depth


def censored(ax):
    """Peaks that follow a power law but cannot be below 1, and two fits."""
    rng = numpy_stream(0, "traps", "peaks")
    depths = np.repeat([10, 14, 20, 28, 40, 56, 80], 12)
    peaks = TRUE[0] * depths ** TRUE[1] * np.exp(0.25 * rng.standard_normal(len(depths)))
    layers = np.maximum(1, peaks.round())
    naive, whole = np.polyfit(np.log(depths), np.log(layers), 1)[::-1], censored_fit(depths, layers)
    ax.plot(depths * rng.uniform(0.96, 1.04, len(depths)), layers, "o", color=GREY, ms=4, alpha=0.6)
    lines = [("law", (np.log(TRUE[0]), TRUE[1]), "black", "--"), ("least squares", naive, ORANGE, "-")]
    lines.append(("censored", whole, GREEN, "-"))
    for name, (offset, power), colour, line in lines:
        ends = np.array([9, 90])
        ax.plot(ends, np.exp(offset) * ends**power, line, color=colour, label=f"{name}: {power:.2f}")
    ax.set(xscale="log", yscale="log", xlabel="depth $L$", ylabel="best aligned layer", ylim=(0.5, 6))
    ax.set_xticks([10, 20, 40, 80], [10, 20, 40, 80])
    ax.set_yticks([1, 2, 4], [1, 2, 4])
    ax.minorticks_off()
    ax.legend(title="power of the depth", loc="upper left", fontsize=9.5, title_fontsize=9.5)
    ax.set_title("Peaks in layer 1 flatten the slope")


def censored_fit(depths, layers):
    """(offset, power) of ln peak, most likely where a layer stands for all that is rounded to it."""
    low = np.where(layers > 1, np.log(np.maximum(layers, 1.5) - 0.5), -np.inf)
    high, x = np.log(layers + 0.5), np.log(depths)

    def cost(given):
        offset, power, spread = given
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
