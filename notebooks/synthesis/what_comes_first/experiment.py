"""Three kinds of first layer under one instrument, over a grid, and with layers frozen. No paper has this.

Images are cut into windows that tile them. The first layer has the same outputs in all three: a convolution
(one set of filters for all windows), a locally connected layer (a set for each) or a dense one (a set for
each window, and every filter sees the whole image). Each filter has ``window``² × channels weights on the
window it belongs to; these are what is measured.
"""

import itertools
import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_layer_
from companion.jobs import jobs_over
from companion.studies.random_labels.shared.random_bases import random_bases

from ..shared.recorded import recorded

CLASSES = 10
MOMENTUM = 0.9
WINDOW = 3  # pixels: the windows' side
ENTRIES = 3 * WINDOW**2  # of a window, in three colours
BASES = 20  # random orthonormal bases, in place of the data's eigenvectors


def jobs(parameters):
    """One job per first layer, width and seed; each holds the grid of scales and rates.

    Raises AlignbookError for filters so few that their covariance has no inverse, and for values given twice.
    """
    p = parameters
    if min(p["widths"]) <= ENTRIES:
        raise AlignbookError(
            f"widths must be more than {ENTRIES}, not {min(p['widths'])}: else the covariance of a window's "
            "weights has no inverse"
        )
    for name in ("layers", "widths", "scales", "rates"):
        if len({*p[name]}) != len(p[name]):
            raise AlignbookError(f"{name} must name different values, not {p[name]}")
    shared = {name: p[name] for name in "dataset side images scales rates units batch_size steps".split()}
    axes = {"seed": range(p["seeds"]), "layer": p["layers"], "width": p["widths"]}
    return jobs_over("{layer}-width{width}-seed{seed}", compute, shared, **axes)


def compute(
    *, layer, width, dataset, side, images, scales, rates, units, batch_size, steps, seed, device, report
):
    """Train one network per scale, rate and choice of what is trained, and measure it at :func:`recorded`.

    layer : kind of the first layer, see :class:`First`. width : its filters per window. side : of the images
    in pixels, after averaging; what the windows do not tile is cut off. scales : factors on He's initial
    weights of the first layer. units : width of the last hidden layer.

    One row per scale, rate, ``trained`` ("all" layers, "others" than the first, the "first" alone) and step:
    loss (nats) and accuracy on the training images; features (:func:`share_on_top`); misalignment of the
    weights on a window with the windows' covariance, and random_bases, its mean with random bases in place of
    the eigenvectors, both means over the windows. Raises Diverged.
    """
    whole = load(dataset, n=images, seed=seed)
    x = windows(functional.avg_pool2d(whole.x, whole.x.shape[-1] // side)).to(device)
    y = whole.y.to(device)
    axes = np.linalg.eigh(np.cov(x.flatten(0, 1).double().cpu().numpy(), rowvar=False))[1]
    bases = np.stack([axes, *random_bases(ENTRIES, BASES, numpy_stream(seed, "what comes first", "bases"))])
    grid = list(itertools.product(scales, rates, ("all", "others", "first")))

    rows = []
    for number, (scale, rate, trained) in enumerate(grid):
        net = network_of(layer, x.shape[1], width, units)
        initialise(net, scale, torch_stream(seed, "what comes first", layer, "weights"))
        net = net.to(device)
        net[0].requires_grad_(trained != "others")
        net[1:].requires_grad_(trained != "first")
        cell = {"scale": scale, "rate": rate, "trained": trained}
        train(
            module_step(
                net, x, y, torch.optim.SGD([w for w in net.parameters() if w.requires_grad], rate, MOMENTUM)
            ),
            images,
            batch_size=batch_size,
            steps=steps,
            rate=rate,
            # All networks of a seed see the images in the same order.
            generator=torch_stream(seed, "what comes first", "order"),
            device=device,
            at=recorded(steps),
            on=lambda step, cell=cell, net=net: rows.append(
                {**cell, "step": step, **learned(net, x, y), **aligned(net[0], bases)}
            ),
            report=lambda done, text, n=number: report((n + done) / len(grid), text),
        )
    return pd.DataFrame(rows)


def windows(x):
    """(n, windows, entries) of images (n, 3, H, W): windows side by side, from the top left."""
    patches = x.unfold(2, WINDOW, WINDOW).unfold(3, WINDOW, WINDOW)  # (n, 3, rows, columns, WINDOW, WINDOW)
    return patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2).contiguous()


class First(nn.Module):
    """(n, windows, entries) to (n, windows · width), before the activation; weights as they are, with biases.

    kind : ``"convolutional"``: ``weight`` is (1, entries, width) and serves every window; ``"local"``:
    (windows, entries, width), one for each; ``"dense"``: the same for every window that a filter sees, and it
    sees all: (windows, windows · entries, width), the first index that of the filter's own window.
    """

    def __init__(self, kind, count, width):
        super().__init__()
        sets, inputs = {"convolutional": (1, 1), "local": (count, 1), "dense": (count, count)}[kind]
        self.kind, self.count = kind, count
        self.weight = nn.Parameter(torch.empty(sets, inputs * ENTRIES, width))
        self.bias = nn.Parameter(torch.zeros(sets, width))

    def forward(self, x):
        if self.kind == "dense":
            weight = self.weight.transpose(0, 1).flatten(1)  # (windows · entries, windows · width)
            return torch.addmm(self.bias.flatten(), x.flatten(1), weight)
        if self.kind == "convolutional":
            return (x @ self.weight[0] + self.bias).flatten(1)
        return (torch.bmm(x.transpose(0, 1), self.weight).transpose(0, 1) + self.bias).flatten(1)

    def on_windows(self):
        """(sets, width, entries): the filters' weights on the window that each belongs to."""
        weight = self.weight.detach()
        if self.kind == "dense":
            own = torch.arange(self.count)
            weight = weight.unflatten(1, (self.count, ENTRIES))[own, own]
        return weight.transpose(1, 2)


def network_of(layer, count, width, units):
    """The untrained network: first layer, ReLU, a dense layer, ReLU, head."""
    hidden = nn.Linear(count * width, units)
    return nn.Sequential(First(layer, count, width), nn.ReLU(), hidden, nn.ReLU(), nn.Linear(units, CLASSES))


def initialise(net, scale, generator):
    """He normal weights, those of the first layer times ``scale``; biases zero; in place."""
    weight = net[0].weight.detach()
    draw = torch.empty(weight.shape).normal_(generator=generator)
    weight.copy_(draw * (scale * math.sqrt(2 / weight.shape[1])))
    for layer in (net[2], net[4]):
        he_normal_layer_(layer, 1.0, generator)


@torch.no_grad()
def learned(net, x, y):
    """Loss, accuracy and the alignment of the last hidden layer's features with the labels."""
    features = net[:4](x)
    logits = net[4](features)
    return {
        "loss": float(functional.cross_entropy(logits, y)),
        "accuracy": float((logits.argmax(1) == y).double().mean()),
        "features": share_on_top(features, y),
    }


def share_on_top(features, y):
    """Share of ‖Ỹ‖² on the ten top left singular vectors of ``features`` (n, d) (Imani et al., Equation 2).

    Ỹ : one-hot labels less the mean of each column, since the constant feature would catch this; ten as there
    are classes. With labels that have nothing to do with the features about 10 / n.
    """
    centred = functional.one_hot(y, CLASSES).double()
    centred -= centred.mean(0)
    top = torch.linalg.svd(features.double(), full_matrices=False)[0][:, :CLASSES]
    return float((top.T @ centred).square().sum() / centred.square().sum())


def aligned(first, bases):
    """Misalignment of a window's weights with ``bases[0]``, and its mean with the others: over the windows.

    bases : (bases, entries, entries), columns are the vectors. In closed form (Maennel et al., Proposition
    2.7), all windows and bases at once: with lines v for eigenspaces Σ √(vᵀΣ_w v · vᵀΣ_w⁻¹ v) − d.
    """
    weights = first.on_windows().double().cpu().numpy()
    weights = weights - weights.mean(1, keepdims=True)
    cov = np.swapaxes(weights, 1, 2) @ weights / (weights.shape[1] - 1)
    forward, inverse = (along(matrix, bases) for matrix in (cov, np.linalg.inv(cov)))
    scores = (np.sqrt(forward * inverse).sum(-1) - cov.shape[-1]).mean(1)  # (bases,)
    return {"misalignment": scores[0], "random_bases": scores[1:].mean()}


def along(matrices, bases):
    """vᵀ M v for every basis, matrix and column v of the basis: (bases, matrices, d)."""
    return ((matrices[None] @ bases[:, None]) * bases[:, None]).sum(-2)
