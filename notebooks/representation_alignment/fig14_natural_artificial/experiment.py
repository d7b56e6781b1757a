"""From natural or artificial classes to CIFAR-10's: alignment and fine-tuning (Figures 14, 15, 21).

The halves of CIFAR-100 stand in for ImageNet's, and a small residual network for ResNet-18 and T2T-ViT.
"""

import copy
from itertools import combinations

import numpy as np
import pandas as pd
import torch

from alignbook.data import colour32, half, load
from alignbook.data.halves import HALVES
from alignbook.errors import AlignbookError
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.pretrained import pretrained
from alignbook.training.resnet import fresh_head_
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve

# Appendix D; six natural classes, not the four that alignbook.data.half has.
TARGETS = {
    "cifar10": {
        "natural": ("bird", "cat", "deer", "dog", "frog", "horse"),
        "artificial": ("airplane", "automobile", "ship", "truck"),
    },
    "photos": HALVES["photos"],
}
BATCH = 250  # images that go through a network at once


def jobs(parameters):
    """One job per source and seed; both sources of a seed see the same images of the target."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "target")}
    shared["dataset"] = parameters["target"]
    parts = ("natural", "artificial")
    return jobs_over("{part}-seed{seed}", compute, shared, seed=range(parameters["seeds"]), part=parts)


def compute(
    *,
    dataset,
    source,
    part,
    width,
    blocks,
    stride,
    epochs,
    batch_size,
    learning_rate,
    points,
    examples,
    tune_epochs,
    tune_batch_size,
    tune_learning_rate,
    seed,
    device,
    report,
):
    """Pre-train on one ``part`` of ``source``, measure alignment, fine-tune on both parts of ``dataset``.

    Rows, by ``kind``, with ``part`` the source and ``target`` the kind of the target's classes:

    ``area`` : target, pair (of classes), layer (1: first convolution, then stages), area and features;
    ``curve`` : target, pair, layer, threshold (over √n), alignment over ‖y‖²;
    ``accuracy`` : target, accuracy on its test images and train_accuracy on those it was tuned with, percent;
    ``source`` : accuracy on the source's own test images, percent.
    """
    net = pretrained(
        source,
        epochs=epochs,
        subset=part,
        width=width,
        blocks=blocks,
        stride=stride,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        device=device,
        report=lambda done, text: report(0.5 * done, text),
    )
    test = half(load(source, "test"), part)
    rows = [{"kind": "source", "accuracy": _accuracy(net, colour32(test.x), test.y, device)}]
    tables = [pd.DataFrame(rows)]
    for number, (target, classes) in enumerate(TARGETS[dataset].items()):
        images = {name: drawn(dataset, name, points // 2, seed) for name in classes}
        tables += [found.assign(target=target) for found in alignments(net, images, device)]
        report(0.6 + 0.1 * number, f"alignment, {target}")
    for number, target in enumerate(TARGETS[dataset]):
        found = tuned(
            net, dataset, target, examples, tune_epochs, tune_batch_size, tune_learning_rate, seed, device,
            lambda done, text, start=0.8 + 0.1 * number: report(start + 0.1 * done, text),
        )  # fmt: skip
        tables.append(pd.DataFrame([{"kind": "accuracy", "target": target} | found]))
    return pd.concat(tables, ignore_index=True)


def drawn(dataset, name, count, seed):
    """``count`` training images of the class called ``name``, drawn by ``seed``: (count, 3, 32, 32).

    Raises AlignbookError where there are fewer.
    """
    images = load(dataset)
    x = images.x[images.y == images.classes.index(name)]
    if count > len(x):
        raise AlignbookError(f"{dataset} has {len(x)} training images of {name}, not {count}")
    return colour32(x[torch.randperm(len(x), generator=torch_stream(seed, "fig14", name))[:count]])


def alignments(net, images, device):
    """Frames of kinds ``area`` and ``curve`` of all pairs of classes and all layers.

    images : {class: (n, 3, 32, 32)}, equally many of each; the second of a pair is labelled 1, the first −1.
    """
    tables = []
    grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
    for first, second in combinations(images, 2):
        x = torch.cat([images[first], images[second]])
        y = torch.ones(len(x), dtype=torch.float64)
        y[: len(images[first])] = -1
        for layer, features in enumerate(hidden(net, x, device), 1):
            area, alignment = curve(features.double(), y)
            about = {"pair": f"{first}-{second}", "layer": layer}
            row = about | {"kind": "area", "area": area, "features": features.shape[1]}
            found = {"kind": "curve", "threshold": grid, "alignment": alignment.round(DIGITS)}
            tables += [pd.DataFrame([row]), pd.DataFrame(about | found)]
    return tables


@torch.no_grad()
def hidden(net, x, device):
    """What the first convolution and each stage of a :class:`ResNet` put out, every unit a feature.

    After ReLU. x (n, 3, H, W); returns [(n, channels · height · width)] float32, CPU, the first layer first.
    """
    found = []
    for batch in x.split(BATCH):
        h = batch.to(device, memory_format=torch.channels_last)
        h = net.norm(net.stem(h)).relu()
        parts = [h]
        for stage in net.stages:
            parts.append(stage(parts[-1]))
        found.append([part.flatten(1).cpu() for part in parts])
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def tuned(net, dataset, target, examples, epochs, batch_size, learning_rate, seed, device, report):
    """{accuracy, train_accuracy} in percent of a copy of ``net``, fine-tuned on one part of ``dataset``.

    examples : training images of each class. All of the network is trained, with a new head (Appendix D).
    """
    classes = TARGETS[dataset][target]
    x = torch.cat([drawn(dataset, name, examples, seed) for name in classes])
    y = torch.arange(len(classes)).repeat_interleave(examples)
    net = fresh_head_(copy.deepcopy(net), len(classes), torch_stream(seed, "fig14", "head", target))
    fine_tune(
        net,
        x.to(device),
        y.to(device),
        steps=epochs * (len(x) // batch_size),
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=1e-4,
        augment=True,
        generator=torch_stream(seed, "fig14", "fine-tuning", target),
        report=report,
    )
    test = load(dataset, "test")
    to = torch.tensor([classes.index(name) if name in classes else -1 for name in test.classes])
    labels = to[test.y]
    return {
        "accuracy": _accuracy(net, colour32(test.x[labels >= 0]), labels[labels >= 0], device),
        "train_accuracy": _accuracy(net, x, y, device),
    }


def _accuracy(net, x, y, device):
    return 100 * accuracy_and_loss(net, x.to(device), y.to(device))[0]
