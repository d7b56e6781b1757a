"""The loss around untrained and pre-trained networks, with three kinds of statistics in batch norm.

The filters of the middle convolution move in a plane, as in Figures 5 and 13 of the ICLR 2020 submission,
which does not say what batch norm does meanwhile. It may take the statistics of the images (``batch``, as a
training step does), the running ones that the network came with (``running``; an untrained network's are mean
0 and variance 1, and normalise nothing), or running ones that fit the images at the plane's centre
(``settled``).
"""

import copy

import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.data import colour32, load
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.metrics.landscape import NORMS, filter_normalised_directions, landscape
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss
from alignbook.training.pretrained import pretrained
from alignbook.training.resnet import ResNet, fresh_head_
from companion.jobs import jobs_over
from companion.studies.transferability.shared.layers import main_layers, middle
from companion.studies.transferability.shared.planes import rows_of

from .design import MODES, PRETRAINED, RANDOM


def jobs(parameters):
    """Untrained networks of every depth, pre-trained ones of one depth, and the untrained ResNet-50."""
    p = parameters
    plane = {name: p[name] for name in ("dataset", "images", "radius", "points", "width")}
    random, name = plane | {"start": RANDOM}, "random-blocks{blocks}-seed{seed}"
    made = jobs_over(name, compute, random, blocks=p["blocks"], seed=range(p["seeds"]))
    source = {name: p[name] for name in ("source", "epochs", "source_images")} | {"start": PRETRAINED}
    blocks, name = [p["pretrained_blocks"]], "pretrained-blocks{blocks}-seed{seed}"
    seeds = range(p["pretrained_seeds"])
    made += jobs_over(name, compute_pretrained, plane | source, blocks=blocks, seed=seeds)
    plane = {name: p[name] for name in ("dataset", "radius", "side")}
    plane |= {"images": p["resnet50_images"], "points": p["resnet50_points"], "start": RANDOM}
    return made + jobs_over("resnet50-seed{seed}", compute_resnet50, plane, seed=range(p["resnet50_seeds"]))


def compute(*, dataset, images, radius, points, width, blocks, start, seed, device, report):
    """The planes of an untrained residual network of 6 × ``blocks`` + 1 convolutions, see :func:`planes`."""
    x, y, classes = _images(dataset, images, seed, device)
    net = ResNet(classes, width=width, blocks=blocks, generator=torch_stream(seed, "fig05-mode", "weights"))
    names = main_layers(net)
    return planes(net.to(device), middle(names)[1], x, y, radius, points, seed, report).assign(
        layers=len(names)
    )


def compute_pretrained(
    *,
    dataset,
    images,
    radius,
    points,
    width,
    source,
    epochs,
    source_images,
    blocks,
    start,
    seed,
    device,
    report,
):
    """The same of a network pre-trained on ``source`` with a new head; ``source_images`` 0: all of them."""
    x, y, classes = _images(dataset, images, seed, device)
    net = pretrained(
        source,
        epochs=epochs,
        images=source_images or None,
        width=width,
        blocks=blocks,
        seed=seed,
        device=device,
        report=lambda done, text: report(done / 2, text),
    )
    test = load(source, "test")
    accuracy, _ = accuracy_and_loss(net, colour32(test.x).to(device), test.y.to(device))
    fresh_head_(net, classes, torch_stream(seed, "fig05-mode", "head"))
    names = main_layers(net)
    found = planes(
        net.to(device),
        middle(names)[1],
        x,
        y,
        radius,
        points,
        seed,
        lambda done, text: report(0.5 + done / 2, text),
    )
    return found.assign(layers=len(names), classes=classes, source_accuracy=accuracy)


def compute_resnet50(*, dataset, images, radius, side, points, start, seed, device, report):
    """The same of an untrained ResNet-50 on images enlarged to ``side`` pixels; the 25th layer moves."""
    x, y, classes = _images(dataset, images, seed, device)
    x = functional.interpolate(x, size=(side, side), mode="bilinear")
    net = import_torchvision().models.resnet50(weights=None, num_classes=classes)
    draw = torch_stream(seed, "fig05-mode", "resnet50")
    with torch.no_grad():  # torchvision's own distributions, from a stream of ours
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=draw)
        net.head = net.fc  # the name of our networks' head
        fresh_head_(net, classes, draw)
        net.fc = net.head
    names = [
        name
        for name, module in net.named_modules()
        if isinstance(module, nn.Conv2d) and "downsample" not in name
    ]
    return planes(net.to(device), middle(names)[1], x, y, radius, points, seed, report).assign(
        layers=len(names) + 1
    )


def planes(net, layer, x, y, radius, points, seed, report):
    """The loss where the filters of ``layer`` move in a plane, in all ``MODES``; the plane is the same.

    Columns ``mode``, ``alpha``, ``beta``, ``loss``; ``layers`` of the network are added.
    """
    directions = filter_normalised_directions(net, torch_stream(seed, "fig05-mode", "plane"), 2, layer)
    settled = _settled(net, x)
    parts = []
    for done, mode in enumerate(MODES):
        found = landscape(
            settled if mode == "settled" else net,
            functional.cross_entropy,
            x,
            y,
            directions,
            radius=radius,
            points=points,
            mode="train" if mode == "batch" else "eval",
        )
        parts.append(rows_of(found).assign(mode=mode))
        report((done + 1) / len(MODES), mode)
    return pd.concat(parts, ignore_index=True)


@torch.no_grad()
def _settled(net, x):
    """A copy of ``net`` whose running statistics are those of ``x``."""
    settled = copy.deepcopy(net).train()
    for module in settled.modules():
        if isinstance(module, NORMS):
            module.momentum = 1.0
    settled(x)
    return settled.eval()


def _images(dataset, count, seed, device):
    found = load(dataset, n=count, seed=seed)
    return colour32(found.x).to(device), found.y.to(device), len(found.classes)
