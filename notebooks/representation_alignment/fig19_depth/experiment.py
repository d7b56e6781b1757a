"""Alignment of untrained networks with two classes of images, by depth (Figure 19) and by width (Section 9).

By depth: the last hidden layer of torchvision's VGG-16, ResNet-50 and ResNet-101 before any training.
By width: one layer of random ReLU features of the pixels. And the last hidden layer of networks whose
weights are to be had, before and after training on ImageNet.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import colour32
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.errors import AlignbookError
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.imagenet import lite_network
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve
from companion.studies.representation_alignment.shared.two_classes import images

from .design import INPUTS, MODES, STATES

CLASSES = {"cifar10": 10, "cifar100": 100, "photos": 10}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the pixels that these networks are trained on
STAND_IN = "resnet18"  # in place of networks whose weights are not installed everywhere
BATCH = 50  # images that go through a network at once


def jobs(parameters):
    """Per data set and seed, which draws two classes and weights: for depth, for width, for training.

    Raises AlignbookError for the stand-in beside trained networks.
    """
    made = []
    alone = parameters["trained"] == [STAND_IN]
    if STAND_IN in parameters["trained"] and not alone:
        raise AlignbookError(f"trained must name {STAND_IN}, a stand-in, alone, not {parameters['trained']}")
    for prefix, function, names, seeds in (
        ("", compute, ("networks", "side", "points"), "seeds"),
        ("wide-", wide, ("widths", "points"), "seeds"),
        ("trained-", stand_in if alone else trained, ("trained", "points"), "trained_seeds"),
    ):
        shared = {name: parameters[name] for name in names}
        axes = {"dataset": parameters["datasets"], "seed": range(parameters[seeds])}
        made += jobs_over(f"{prefix}{{dataset}}-seed{{seed}}", function, shared, **axes)
    return made


def compute(*, dataset, networks, side, points, seed, device, report):
    """Align the inputs and every untrained network with two classes.

    dataset : str; networks : list of torchvision's names; side : pixels that images are brought to;
    points : images, half of each class

    Rows of ``network`` (``inputs`` for the pixels) and ``mode``, how batch norm works: with its running
    statistics, as in evaluation, or with those of the batch. By ``kind``:

    ``area`` : area (:func:`alignment_grid.curve`), features, first and second (the classes)
    ``curve`` : threshold (over √n), alignment over ‖y‖²
    """
    draw = numpy_stream(seed, "fig19", "classes", dataset)
    classes = tuple(int(label) for label in draw.choice(CLASSES[dataset], 2, replace=False))
    x, y = images(dataset, points, classes, seed)["train"]
    mixed = torch.from_numpy(draw.permutation(len(y)))  # a batch of one class would have its own statistics
    x, y = x[mixed], y[mixed]
    tables = [_rows(x, y, classes).assign(network=INPUTS, mode=INPUTS)]
    for number, name in enumerate(networks):
        net = untrained(name, torch_stream(seed, "fig19", dataset, name)).to(device)
        for mode in MODES:
            if mode == "evaluation" or any(isinstance(part, nn.BatchNorm2d) for part in net.modules()):
                found = _through(net, mode, x, side, device)
                tables.append(_rows(found, y, classes).assign(network=name, mode=mode))
        report((number + 1) / len(networks), name)
    return pd.concat(tables, ignore_index=True)


def untrained(name, generator):
    """torchvision's network ``name`` without its last layer, in evaluation mode.

    Weights are drawn from ``generator`` as torchvision does it: He normal by the outputs for convolutions, a
    standard deviation of 0.01 for VGG's dense layers; biases stay 0.
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
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, 0.0, 0.01, generator=generator)
    return net.eval()


@torch.no_grad()
def _through(net, mode, x, side, device):
    """(n, features) float64 of rows x (n, 3·s²) in [-1, 1]; ``net`` is left in evaluation mode."""
    pixels = x.unflatten(1, (3, *2 * [round((x.shape[1] / 3) ** 0.5)])).float()
    mean, std = (torch.tensor(part)[:, None, None] for part in (MEAN, STD))
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.train(mode == "batch")
        norm.momentum = 0.0  # running statistics stay as they are
    found = []
    for batch in colour32(pixels).split(BATCH):
        batch = nn.functional.interpolate((batch + 1) / 2, (side, side), mode="bilinear", antialias=True)
        found.append(net(((batch - mean) / std).to(device)).flatten(1).cpu())
    net.eval()
    return torch.cat(found).double()


def _rows(features, y, classes):
    area, alignment = curve(features, y)
    row = {"kind": "area", "area": area, "features": features.shape[1]}
    row |= dict(zip(("first", "second"), classes, strict=True))
    grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
    line = pd.DataFrame({"kind": "curve", "threshold": grid, "alignment": alignment.round(DIGITS)})
    return pd.concat([pd.DataFrame([row]), line], ignore_index=True)


def wide(*, dataset, widths, points, seed, device, report):
    """Align the inputs and random ReLU features of them with two classes, those of :func:`compute`.

    widths : list of int, features. Rows as of :func:`compute`, with ``width`` (0 for the inputs) in place of
    ``network`` and ``mode``; ``fitted``, the share of ‖y‖² that least squares on the features fits.
    """
    draw = numpy_stream(seed, "fig19", "classes", dataset)
    classes = tuple(int(label) for label in draw.choice(CLASSES[dataset], 2, replace=False))
    x, y = images(dataset, points, classes, seed)["train"]
    tables = []
    for number, width in enumerate((0, *widths)):
        weights = torch_stream(seed, "fig19", "random features", dataset, width)
        features = x
        if width:
            draws = torch.randn(x.shape[1], width, dtype=x.dtype, generator=weights)
            features = (x @ draws).relu()
        table = _rows(features, y, classes).assign(width=width)
        table["fitted"] = table.loc[table["threshold"] == 0, "alignment"].item()
        tables.append(table)
        report((number + 1) / (len(widths) + 1), f"{width} features")
    return pd.concat(tables, ignore_index=True)


def trained(*, dataset, trained, points, seed, device, report):
    """Align the inputs and networks before and after training on ImageNet, with classes as :func:`compute`'s.

    trained : list of str, ``lite0`` to ``lite2`` (:func:`lite_network`), which see images at 96×96. Rows as
    of :func:`compute`, with ``trained`` (the network, ``inputs`` for the pixels) in place of ``network`` and
    ``mode``, and ``state``, before or after.
    """
    draw = numpy_stream(seed, "fig19", "classes", dataset)
    classes = tuple(int(label) for label in draw.choice(CLASSES[dataset], 2, replace=False))
    x, y = images(dataset, points, classes, seed)["train"]
    pixels = colour32(x.unflatten(1, (3, *2 * [round((x.shape[1] / 3) ** 0.5)])).float())
    tables = [_rows(x, y, classes).assign(trained=INPUTS, state=INPUTS)]
    for number, name in enumerate(trained):
        size = int(name.removeprefix("lite"))
        generator = torch_stream(seed, "fig19", dataset, name)
        for state in STATES:
            net = lite_network(size, state == "after", generator).to(device)
            with torch.no_grad():
                found = torch.cat([net.features(batch.to(device)).cpu() for batch in pixels.split(BATCH)])
            tables.append(_rows(found.double(), y, classes).assign(trained=name, state=state))
        report((number + 1) / len(trained), name)
    return pd.concat(tables, ignore_index=True)


def stand_in(*, trained, **given):
    """Rows as of :func:`trained`, of an untrained ResNet-18 with either way of batch norm: tries the code."""
    table = compute(networks=trained, side=32, **given)
    states = {INPUTS: INPUTS} | dict(zip(MODES, STATES, strict=True))
    table["state"] = table.pop("mode").map(states)
    return table.rename(columns={"network": "trained"})
