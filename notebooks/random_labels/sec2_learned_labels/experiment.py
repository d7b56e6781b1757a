"""Computed filters against filters pre-trained for longer and longer (Section 2.5, Tables 1 and 7).

One pre-training with random labels is interrupted again and again: its convolutions are handed on as they are
then, beside a fresh start and filters computed from the data's covariances.
"""

import copy

import numpy as np
import pandas as pd

from alignbook import data
from alignbook.seeding import torch_stream
from alignbook.training.initialise import covariance_filters_, eigenvector_filters
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import copy_convolutions_, layer_norms, rescale_
from companion.jobs import Job

from ..shared.downstream import learning_curve, shrunk, tasks
from .design import COMPUTED, PRETRAINED, RANDOM

LAYERS, FILTERS, CLASSES = 3, 16, 10  # E.3
F1 = [1.0, 2.0, 3.0, *np.linspace(4, 1, 13).tolist()]  # τ of Table 1; Figure 23 prints no numbers


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Job(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(
    *, dataset, units, side, images, test_images, upstream_epochs, upstream_rate, epochs, record, batch_size,
    learning_rate, seed, device, report,
):  # fmt: skip
    """Learn real labels from each of ``design.starts(upstream_epochs)``.

    images : of either task. Pre-training keeps its rate; the second task divides it by 3 twice. All starts
    share the dense layers, the images and their order. Columns ``start``, ``epoch``, ``accuracy`` on all
    training images and ``test``, on ``test_images`` others, ``fitted``, the share of its random labels that
    pre-training had learned by then, NaN of the other starts. Raises Diverged.
    """
    split = tasks(
        dataset, upstream=images, upstream_classes=CLASSES, downstream=images, classes=CLASSES, side=side,
        seed=seed, device=device,
    )  # fmt: skip
    held_out = data.load(dataset, "test", n=test_images, seed=seed)
    test_x, test_y = shrunk(held_out.x, side).to(device), held_out.y.to(device)
    parts = len(upstream_epochs) + 3

    def part(number):
        return lambda done, text: report((number + done) / parts, text)

    def network(name):
        net = SimpleCNN(split.x.shape[1:], [FILTERS] * LAYERS, units, CLASSES, pool=(3, 2, "same"))
        return he_normal_(net, 1.0, torch_stream(seed, "learned labels", name)).to(device)

    started = {RANDOM: network("downstream"), COMPUTED: network("downstream")}
    draw = torch_stream(seed, "learned labels", "signs")
    covariance_filters_(started[COMPUTED], split.x, LAYERS, make=eigenvector_filters, tau=F1, generator=draw)
    source, fitted, per_epoch = network("upstream"), {}, images // batch_size
    norms = layer_norms(source)

    def hand_on(step, net):
        start = PRETRAINED.format(step // per_epoch)
        fitted[start] = accuracy(net, split.upstream_x, split.upstream_y)
        scaled_back = rescale_(copy.deepcopy(net), norms)
        started[start] = copy_convolutions_(network("downstream"), scaled_back, LAYERS)

    fit(
        source, split.upstream_x, split.upstream_y, steps=per_epoch * max(upstream_epochs),
        batch_size=batch_size, learning_rate=upstream_rate, schedule="constant",
        generator=torch_stream(seed, "learned labels", "upstream batches"),
        at=[per_epoch * count for count in upstream_epochs], on=hand_on, report=part(0),
    )  # fmt: skip
    tables = []
    for number, (start, net) in enumerate(started.items(), start=1):
        curve = learning_curve(
            net, split.x, split.y["real"], epochs=epochs, record=record, batch_size=batch_size,
            learning_rate=learning_rate, generator=torch_stream(seed, "learned labels", "batches"),
            report=part(number), extra=lambda net: {"test": accuracy(net, test_x, test_y)},
        )  # fmt: skip
        tables.append(curve.assign(start=start, fitted=fitted.get(start)))
    return pd.concat(tables, ignore_index=True)
