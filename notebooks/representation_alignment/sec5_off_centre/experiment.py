"""Alignment as Equation 2 has it, and with the features' mean removed, before and after training.

Features behind a ReLU point in similar directions. Their mean direction takes the first singular value, and
balanced labels are orthogonal to it. So alignment is measured a second time without the mean, together with
how long the mean is and what it costs gradient descent.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data.torchvision_shim import import_torchvision
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.nets import he_normal_layer_
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared import hidden_layers
from companion.studies.representation_alignment.shared.alignment_grid import curve
from companion.studies.representation_alignment.shared.constant_feature import with_constant
from companion.studies.representation_alignment.shared.linear_descent import first_steps, spectrum
from companion.studies.representation_alignment.shared.two_classes import images

from .design import AFTER, BEFORE, INPUTS

LEFT = 0.5  # learned when this share of the loss that a linear model can reduce is left
BATCH = 50  # images that go through a network at once
RATE, BATCH_SIZE, REMAINING = 0.001, 64, 0.01  # of training, as Figure 7's


def jobs(parameters):
    """One job per data set and seed; each seed has two classes of its own."""
    shared = {name: value for name, value in parameters.items() if name not in ("datasets", "seeds")}
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, shared, dataset=datasets, seed=seeds)


def compute(*, dataset, points, layers, width, widths, networks, max_epochs, seed, device, report):
    """Measure (:func:`measured`) the inputs and every representation of two classes of images.

    layers, width : of a fully connected network, which is also trained; widths : list of int, random ReLU
    features; networks : list of torchvision's names, untrained. Rows by ``family``, ``state`` and ``step``,
    the place along the family's axis: layer, width or number of the network.
    """
    draw = numpy_stream(seed, "off centre", dataset)
    classes = tuple(int(label) for label in draw.choice(10, 2, replace=False))
    x, y = images(dataset, points, classes, seed)["train"]
    mixed = torch.from_numpy(draw.permutation(len(y)))
    x, y = x[mixed], y[mixed]
    shuffled = y[torch.from_numpy(draw.permutation(len(y)))]
    rows = []

    def add(features, **about):
        rows.append(about | measured(features, y, shuffled))

    add(x, family=INPUTS, state=BEFORE, step=0)
    net = hidden_layers.network(
        [x.shape[1], *[width] * layers, 1], torch_stream(seed, "off centre", "dense", dataset), device=device
    )
    for state in (BEFORE, AFTER):
        if state == AFTER:
            hidden_layers.fit(
                net, x, y, loss=hidden_layers.logistic, batch_size=BATCH_SIZE, rate=RATE, remaining=REMAINING,
                max_epochs=max_epochs, generator=torch_stream(seed, "off centre", "batches", dataset),
                report=lambda done, text: report(0.4 * done, text),
            )  # fmt: skip
        for layer, features in enumerate(hidden_layers.representations(net, x), 1):
            add(features, family="dense", state=state, step=layer)
    for size in widths:
        weights = torch_stream(seed, "off centre", "wide", dataset, size)
        draws = torch.randn(x.shape[1], size, dtype=x.dtype, generator=weights)
        add((x @ draws).relu(), family="wide", state=BEFORE, step=size)
    for number, name in enumerate(networks):
        report(0.5 + 0.5 * number / len(networks), name)
        net = untrained(name, torch_stream(seed, "off centre", dataset, name)).to(device)
        add(through(net, x, device), family="untrained", state=BEFORE, step=number, network=name)
    return pd.DataFrame(rows)


def measured(features, y, shuffled):
    """What is stored of features (n, d) float64 with labels y (n,) of ±1, equally many of each.

    ``area`` : of Equation 2 (:func:`alignment_grid.curve`); ``centred`` : :func:`centred_area`; ``floor`` :
    the same with shuffled labels; ``mean`` : length of the mean of the rows scaled to length one; ``top``,
    ``top_centred`` : largest squared singular value over the sum of all, with and without the mean;
    ``steps``, ``steps_centred`` : of gradient descent with η = 1/σ_1², until half of the loss that a linear
    model can reduce is left.
    """
    unit = nn.functional.normalize(features, dim=1)
    centred = features - features.mean(0)
    found = {
        "area": curve(features, y)[0],
        "centred": centred_area(centred, y),
        "floor": centred_area(centred, shuffled),
        "mean": float(unit.mean(0).norm()),
    }
    for name, phi in (("", with_constant(features)), ("_centred", centred)):
        left, singular = spectrum(phi.numpy())
        gains = np.square(left.T @ y.numpy())
        found[f"top{name}"] = float(singular[0] ** 2 / np.square(singular).sum())
        found[f"steps{name}"] = first_steps(singular, gains, singular[0] ** -2, [LEFT * gains.sum()])[0]
    return found


def centred_area(centred, y):
    """Σ σ_i (u_iᵀ y)² / (‖y‖² ‖Φ‖_F) of centred features Φ (n, d), float in [0, 1]; y (n,) sums to 0.

    1 where Φ is one direction, along y. No scale of the features enters, and no constant feature.
    """
    left, singular, _ = np.linalg.svd(centred.numpy(), full_matrices=False)
    gains = np.square(left.T @ y.numpy())
    return float(singular @ gains / (y @ y) / np.sqrt(np.square(singular).sum()))


def untrained(name, generator):
    """torchvision's network ``name`` without its last layer, drawn from ``generator``, in evaluation mode.

    Convolutions and dense layers are He normal by their inputs, biases 0.
    """
    import_torchvision()
    from torchvision.models import get_model

    with torch.random.fork_rng(devices=()):  # what it draws is replaced
        net = get_model(name, weights=None)
    if hasattr(net, "fc"):
        net.fc = nn.Identity()
    else:
        net.classifier[-1] = nn.Identity()
    for part in net.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            he_normal_layer_(part, 1, generator)
    return net.eval()


@torch.no_grad()
def through(net, x, device):
    """(n, features) float64 of rows x (n, C·s²), grey or colour, which ``net`` sees as 32×32 colour."""
    channels = 3 if x.shape[1] % 3 == 0 else 1
    side = round((x.shape[1] / channels) ** 0.5)
    pixels = x.float().unflatten(1, (channels, side, side)).expand(-1, 3, -1, -1)
    pixels = nn.functional.interpolate(pixels, (32, 32), mode="bilinear", antialias=True)
    return torch.cat([net(batch.to(device)).flatten(1).cpu() for batch in pixels.split(BATCH)]).double()
