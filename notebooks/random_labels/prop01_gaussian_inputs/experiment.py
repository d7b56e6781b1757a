"""Proposition 1 on Gaussian inputs: many networks, and what their first layers have in common (Section 2.2).

Inputs are N(0, Σ_x) with eigenvectors that are turned against the axes. Every network has inputs, random
labels and initial weights of its own, so that Σ_w is an expectation over all three, as the proposition says.
"""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.data import random_labels
from alignbook.errors import AlignbookError, require_finite
from alignbook.metrics.misalignment import misalignment
from alignbook.seeding import numpy_stream, torch_stream
from companion.jobs import Job

from ..shared.random_bases import random_bases
from . import design

PLAIN = {"loss": "cross-entropy", "optimiser": "descent", "turned": True, "stretch": 1.0, "shift": 0.0}
ALONE = 8  # networks, at most, of which every one is looked at alone


def jobs(parameters):
    """One job per condition and seed. Raises AlignbookError for variances that do not ascend."""
    variances, widths = parameters["variances"], [parameters["width"], *parameters["wide"]]
    if sorted(variances) != variances or len(variances) < design.EQUAL:
        raise AlignbookError(f"variances must ascend and be at least {design.EQUAL}, not {variances}")
    if min(widths) <= len(variances):
        raise AlignbookError(f"width {min(widths)} is too small for {len(variances)} dimensions")
    if len({*parameters["wide"]}) != len(parameters["wide"]) or not parameters["wide"]:
        raise AlignbookError(f"wide must name different widths, not {parameters['wide']}")
    own = ("seeds", "wide", "networks_wide", "stretch", "shift")
    shared = {
        name: value for name, value in parameters.items() if not (name in own or name.startswith("alone_"))
    }
    shared = PLAIN | shared
    return [
        Job(f"{name}-seed{seed}", compute, shared | changed | {"condition": name, "seed": seed})
        for seed in range(parameters["seeds"])
        for name, changed in design.settings(parameters).items()
    ]


def compute(
    *,
    condition,
    variances,
    turned,
    shift,
    inputs,
    classes,
    width,
    hidden,
    scale,
    stretch,
    networks,
    loss,
    optimiser,
    rate,
    steps,
    draws,
    seed,
    device,
    report,
):
    """Train ``networks`` networks d-width-hidden-classes and measure their first layers together.

    The eigenvectors of Σ_x are random where ``turned``, else the axes; the others are as in :func:`draw`.
    Rows: one of ``kind`` "misalignment" with ``misalignment`` of Σ_w, ``floor`` and ``random``
    (:func:`misaligned`); ``merged``, its misalignment where the first ``EQUAL`` directions are taken for one
    eigenspace; ``alone``, ``alone_floor`` and ``alone_random``, the first three of single networks, mean over
    ``ALONE`` of them; ``mean_square``, ‖E[w]‖² over E‖w‖², without bias; ``fitted``, share of labels;
    ``final_loss``. And of ``kind`` "entry" with ``row`` ≤ ``column`` and ``value``, Σ_w in the eigenvectors
    of Σ_x. Raises Diverged.
    """
    d = len(variances)
    basis = random_bases(d, 1, numpy_stream(seed, "proposition 1", "basis"))[0] if turned else np.eye(d)
    x, labels, weights = draw(
        basis * np.sqrt(variances), shift, inputs, [d, width, hidden, classes], scale, stretch, networks,
        torch_stream(seed, "proposition 1", "networks"),
    )  # fmt: skip
    biases = [torch.zeros(networks, 1, weight.shape[2]) for weight in weights]
    parameters = [part.to(device).requires_grad_() for part in (*weights, *biases)]
    final, fitted = descend(parameters, x.to(device), labels.to(device), loss, optimiser, rate, steps, report)
    filters = parameters[0].detach().double().cpu().numpy()
    filters = np.swapaxes(filters, 1, 2) @ basis  # (networks, width, d), along the eigenvectors of Σ_x
    rng = numpy_stream(seed, "proposition 1", "measure")
    found = summary(filters, design.blocks(variances), draws, rng)
    return rows(found, condition=condition, fitted=fitted, final_loss=final)


def draw(axes, shift, inputs, sizes, scale, stretch, networks, generator):
    """(x (networks, inputs, d), labels (networks, inputs), weights, a list of (networks, before, after)).

    axes : (d, d), eigenvectors of Σ_x times the standard deviation along each; ``shift``, the inputs' mean in
    these standard deviations. He normal weights; the first layer's times ``scale`` and times factors along
    the axes of the input space, from 1 to ``stretch``.
    """
    d, *_, classes = sizes
    x = torch.randn(networks, inputs, d, generator=generator) + shift
    labels = random_labels(networks * inputs, classes, generator).reshape(networks, inputs)
    weights = [
        torch.randn(networks, before, after, generator=generator) * math.sqrt(2 / before)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    weights[0] *= scale * torch.linspace(1, stretch, d)[:, None]
    return x @ torch.from_numpy(axes.T).float(), labels, weights


def rows(found, **shared):
    """The table of :func:`compute`."""
    covariance = found.pop("covariance")
    row, column = np.triu_indices(len(covariance))
    entries = pd.DataFrame({"kind": "entry", "row": row, "column": column, "value": covariance[row, column]})
    first = pd.DataFrame([{"kind": "misalignment", **found, **shared}])
    return pd.concat([first, entries.assign(condition=shared["condition"])], ignore_index=True)


def logits_of(parameters, x):
    """(networks, inputs, classes) for weights and then biases, each (networks, ., .)."""
    layers = len(parameters) // 2
    for n in range(layers):
        x = torch.baddbmm(parameters[layers + n], x, parameters[n])
        x = x.relu() if n < layers - 1 else x
    return x


def losses_of(logits, targets, loss):
    """(networks,) mean losses over the inputs; targets one-hot."""
    if loss == "squared error":
        return (logits - targets).square().sum(2).mean(1)
    return -(torch.log_softmax(logits, 2) * targets).sum(2).mean(1)


def descend(parameters, x, labels, loss, optimiser, rate, steps, report):
    """Train in place on all inputs at once; returns (mean loss before the last step, share of labels fitted).

    Reference for descent on the cross-entropy: :mod:`alignbook.kernels.many_mlps`, in the test.
    """
    targets = torch.nn.functional.one_hot(labels, parameters[-1].shape[2]).to(x.dtype)
    update = UPDATES[optimiser](parameters, rate)
    for count in range(steps):
        losses = losses_of(logits_of(parameters, x), targets, loss)
        update(torch.autograd.grad(losses.sum(), parameters))
        if count % 50 == 0 or count == steps - 1:
            require_finite(float(losses.detach().sum()), count)
            report(count / steps, f"step {count}, loss {float(losses.detach().mean()):.3f}")
    with torch.no_grad():
        fitted = (logits_of(parameters, x).argmax(2) == labels).float().mean()
    return float(losses.detach().mean()), float(fitted)


def descent(parameters, rate):
    """Gradient descent: a function of the gradients that changes ``parameters`` in place."""
    return torch.no_grad()(
        lambda gradients: [part.sub_(rate * g) for part, g in zip(parameters, gradients, strict=True)]
    )


def exponentiated(parameters, rate):
    """Exponentiated gradient on the first layer, gradient descent on the others.

    w = u − v with u v = β²/4 and both positive; a step multiplies u by exp(−η g) and v by exp(η g), which
    keeps their product: w = β sinh(asinh(w/β) − η g), β = ``design.PRODUCT``.
    """
    beta, others = design.PRODUCT, descent(parameters[1:], rate)

    @torch.no_grad()
    def update(gradients):
        first = parameters[0]
        first.copy_(beta * torch.sinh(torch.asinh(first / beta) - design.EXPONENTIATED_RATE * gradients[0]))
        others(gradients[1:])

    return update


def adam(parameters, rate):
    """Adam with PyTorch's defaults, which scales every weight's step by that weight's own gradients."""
    means = [torch.zeros_like(part) for part in parameters]
    squares = [torch.zeros_like(part) for part in parameters]
    count = 0

    @torch.no_grad()
    def update(gradients):
        nonlocal count
        count += 1
        for part, mean, square, gradient in zip(parameters, means, squares, gradients, strict=True):
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.001)
            scale = (square / (1 - 0.999**count)).sqrt() + 1e-8
            part.sub_(rate / (1 - 0.9**count) * mean / scale)

    return update


UPDATES = {"descent": descent, "exponentiated": exponentiated, "adam": adam}


def summary(filters, sizes, draws, rng):
    """What :func:`compute` stores of ``filters`` (networks, width, d), in the eigenvectors of Σ_x."""
    networks, width, _ = filters.shape
    moments = np.einsum("kfi,kfj->kij", filters, filters) / width  # (networks, d, d)
    means, covariance = filters.mean(1), moments.mean(0)
    cross = np.square(means.sum(0)).sum() - np.square(means).sum()  # pairs of different networks
    alone = [misaligned(np.einsum("fi,fj->fij", one, one), sizes, draws, rng) for one in filters[:ALONE]]
    merged = [min(design.EQUAL, len(covariance))] + [1] * max(len(covariance) - design.EQUAL, 0)
    return {
        **dict(zip(("misalignment", "floor", "random"), misaligned(moments, sizes, draws, rng), strict=True)),
        **dict(zip(("alone", "alone_floor", "alone_random"), np.mean(alone, axis=0), strict=True)),
        "merged": misalignment(spaces(merged), covariance),
        "mean_square": cross / (networks * (networks - 1)) / np.trace(covariance),
        "covariance": covariance,
    }


def spaces(sizes):
    """A diagonal matrix with eigenspaces of these dimensions, in this order."""
    return np.diag(np.repeat(np.arange(1.0, len(sizes) + 1), sizes))


def misaligned(moments, sizes, draws, rng):
    """(M of Σ_w = the mean of ``moments`` (n, d, d); its mean were Σ_w aligned; its mean in a random basis).

    What the proposition leaves unchanged in distribution, an orthogonal map that keeps the eigenspaces of Σ_x
    (of dimensions ``sizes``), is drawn anew for each of the n, ``draws`` times: the floor that sampling
    gives, exact in the mean however dependent the weights of one network are.
    """
    aligned = spaces(sizes)
    floor = []
    for _ in range(draws):
        maps = symmetries(sizes, len(moments), rng)
        floor.append(misalignment(aligned, (maps @ moments @ np.swapaxes(maps, 1, 2)).mean(0)))
    bases = random_bases(len(aligned), draws, rng)
    covariance = moments.mean(0)
    random = [misalignment(basis @ aligned @ basis.T, covariance) for basis in bases]
    return misalignment(aligned, covariance), float(np.mean(floor)), float(np.mean(random))


def symmetries(sizes, count, rng):
    """``count`` random elements of O(d_1) × … × O(d_r), the d_i given by ``sizes``; (count, d, d)."""
    maps, start = np.zeros((count, sum(sizes), sum(sizes))), 0
    for size in sizes:
        block = slice(start, start + size)
        maps[:, block, block] = random_bases(size, count, rng)
        start += size
    return maps
