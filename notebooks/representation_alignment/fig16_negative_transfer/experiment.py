"""Pre-training on random labels of one domain, fine-tuning on another (Figure 16 and Table 1).

Three kinds of digits stand in for Office-31's three domains, which the same code reads where they are.
"""

import copy
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import random_labels
from alignbook.seeding import torch_stream
from alignbook.training import loop
from alignbook.training.fine_tune import accuracy_and_loss, crops_and_flips, features_of
from alignbook.training.imagenet import imagenet_network
from alignbook.training.pretrained import pretrained
from alignbook.training.resnet import fresh_head_
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve

from .design import DOMAINS, NONE
from .domains import domain

DECAY = 30  # epochs after which the rate is divided by ten, again and again (Appendix D)
WEIGHT_DECAY = 1e-4
MOMENTUM = 0.1  # of batch norm's running statistics, as PyTorch's ResNet-18 has it


def jobs(parameters):
    """Per seed, one job without a source and one per source domain, with all of its targets."""
    shared = {name: v for name, v in parameters.items() if name not in ("seeds", "handwritten", "base")}
    shared["dataset"] = parameters["handwritten"] if parameters["domains"] == "digits" else None
    shared["source"] = parameters["base"] if parameters["base"] != "imagenet" else None
    starts = (NONE, *DOMAINS[parameters["domains"]])
    return jobs_over("{start}-seed{seed}", compute, shared, seed=range(parameters["seeds"]), start=starts)


def compute(
    *,
    domains,
    dataset,
    sizes,
    test_images,
    source,
    base_images,
    base_epochs,
    width,
    start,
    source_epochs,
    source_learning_rate,
    tune_epochs,
    tune_learning_rate,
    batch_size,
    seed,
    device,
    report,
):
    """Train the base network on random labels of ``start``, then look at it from every other domain.

    dataset : the grey digits, None for Office-31. source : the image set on which the base network is
    trained, None for the one trained on ImageNet. start : a domain, or "none". Rows, by ``kind``:

    ``source`` : fitted, percent of the random labels that the network gives (without a source there is none);
    ``area`` : target, area, mean over all pairs of its classes, and pairs, how many;
    ``curve`` : target, threshold (over √n), alignment over ‖y‖², mean over the pairs;
    ``accuracy`` : target, accuracy on its test images and train_accuracy after fine-tuning, percent.
    """
    drawn = {
        name: domain(domains, name, handwritten=dataset, sizes=sizes, test_images=test_images, seed=seed)
        for name in DOMAINS[domains]
    }
    settings = {"batch_size": batch_size, "augment": domains == "office31", "device": device}
    net = base(source, base_images, base_epochs, width, seed, device, lambda d, text: report(0.2 * d, text))
    tables = []
    if start != NONE:
        fitted = learn_random_labels(
            net, drawn[start], torch_stream(seed, "fig16", start), epochs=source_epochs,
            rate=source_learning_rate, report=lambda d, text: report(0.2 + 0.4 * d, text), **settings,
        )  # fmt: skip
        tables.append(pd.DataFrame([{"kind": "source", "fitted": fitted}]))
    targets = [name for name in drawn if name != start]
    for number, name in enumerate(targets):
        found = alignments(net, drawn[name], device)
        accuracy = tuned(
            net, drawn[name], torch_stream(seed, "fig16", "fine-tuning", name), epochs=tune_epochs,
            rate=tune_learning_rate, **settings,
            report=lambda d, text, n=number: report(0.6 + 0.4 * (n + d) / len(targets), text),
        )  # fmt: skip
        found.append(pd.DataFrame([{"kind": "accuracy"} | accuracy]))
        tables += [table.assign(target=name) for table in found]
    return pd.concat(tables, ignore_index=True)


def base(source, images, epochs, width, seed, device, report):
    """The network that all start from: trained on ``source``, or on ImageNet where that is None."""
    if source is not None:
        return pretrained(
            source, images=images, epochs=epochs, width=width, seed=seed, device=device, report=report
        )
    net = imagenet_network()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = MOMENTUM
    return net.to(device)


def learn_random_labels(net, images, generator, *, epochs, rate, device, report, **settings):
    """Train ``net`` in place by Adam on uniform labels of ``images``; percent of them that it then gives."""
    y = random_labels(len(images.y), images.classes, generator).to(device)
    x = images.x.to(device)
    fresh_head_(net, images.classes, generator).to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, weight_decay=WEIGHT_DECAY)
    _train(net, x, y, optimiser, generator, epochs=epochs, rate=rate, report=report, **settings)
    return 100 * accuracy_and_loss(net, x, y)[0]


def tuned(net, images, generator, *, epochs, rate, device, report, **settings):
    """{accuracy, train_accuracy} in percent of a copy of ``net`` that is fine-tuned on ``images`` by SGD."""
    net = fresh_head_(copy.deepcopy(net), images.classes, generator).to(memory_format=torch.channels_last)
    x, y = images.x.to(device), images.y.to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=WEIGHT_DECAY)
    _train(net, x, y, optimiser, generator, epochs=epochs, rate=rate, report=report, **settings)
    test = accuracy_and_loss(net, images.x_test.to(device), images.y_test.to(device))[0]
    return {"accuracy": 100 * test, "train_accuracy": 100 * accuracy_and_loss(net, x, y)[0]}


def _train(net, x, y, optimiser, generator, *, epochs, rate, batch_size, augment, report):
    batch_size = min(batch_size, len(x))
    decay = DECAY * (len(x) // batch_size)
    transform = (lambda batch: crops_and_flips(batch, generator)) if augment else None
    loop.train(
        loop.module_step(net, x, y, optimiser, transform=transform),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=lambda count: rate * 0.1 ** ((count - 1) // decay),
        last_batch="drop",
        generator=generator,
        device=x.device,
        report=report,
    )


def alignments(net, images, device):
    """Frames of kinds ``area`` and ``curve``: the last hidden layer, mean over all pairs of classes.

    Of the training images of two classes, labelled −1 and 1; without pairs of which a class has no image.
    """
    features = features_of(net, images.x.to(device)).cpu().double()
    areas, curves = [], []
    for first, second in combinations(range(images.classes), 2):
        chosen = (images.y == first) | (images.y == second)
        y = torch.where(images.y[chosen] == second, 1.0, -1.0).double()
        if abs(float(y.sum())) == len(y):
            continue
        area, alignment = curve(features[chosen], y)
        areas.append(area)
        curves.append(alignment)
    grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
    mean = np.mean(curves, 0).round(DIGITS)
    return [
        pd.DataFrame([{"kind": "area", "area": np.mean(areas), "pairs": len(areas)}]),
        pd.DataFrame({"kind": "curve", "threshold": grid, "alignment": mean}),
    ]
