"""The pre-trained network, rescaled by its layers' ℓ1 norms instead of their ℓ2 norms (Section 2.4)."""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layers_of

from ..shared.downstream import fresh_head_, learning_curve, tasks

STORED_AS = "random_labels/fig05_covariance_initialisation"  # beside the other starts
START = "ell1"


def compute(
    *,
    dataset,
    labels,
    filters,
    units,
    side,
    upstream_images,
    upstream_classes,
    downstream_images,
    classes,
    epochs,
    record,
    batch_size,
    learning_rate,
    init_scale,
    runs,
    device,
    report,
):
    """The start "pretrained" of ``experiment.compute``, scaled back to ℓ1 norms: one more start, ``START``.

    Everything drawn is drawn as there, so that the two differ by the factors of the layers alone. Columns as
    there.
    """
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    tables = []
    for number, seed in enumerate(runs):

        def part(done, text, number=number):
            report((number + done / 2) / len(runs), text)

        split = tasks(
            dataset, upstream=upstream_images, upstream_classes=upstream_classes,
            downstream=downstream_images, classes=classes, side=side, seed=seed, device=device,
        )  # fmt: skip
        source = SimpleCNN(split.x.shape[1:], [filters], units, upstream_classes)
        source = he_normal_(source, init_scale, torch_stream(seed, "fig05", "upstream")).to(device)
        norms = ell1_norms(source)
        fit(
            source, split.upstream_x, split.upstream_y, steps=epochs * (upstream_images // batch_size),
            report=part, generator=torch_stream(seed, "fig05", "upstream batches"), **training,
        )  # fmt: skip
        known = accuracy(source, split.upstream_x, split.upstream_y)
        rescale_(source, norms)
        for kind in labels:
            net = SimpleCNN(split.x.shape[1:], [filters], units, upstream_classes).to(device)
            net.load_state_dict(source.state_dict())
            fresh_head_(net, split.classes[kind], init_scale, torch_stream(seed, "fig05", "head", kind))
            curve = learning_curve(
                net.to(device), split.x, split.y[kind], epochs=epochs, record=record, report=part,
                generator=torch_stream(seed, "fig05", "batches", kind), **training,
            )  # fmt: skip
            tables.append(curve.assign(seed=seed, labels=kind, start=START, upstream_accuracy=known))
    return pd.concat(tables, ignore_index=True)


def ell1_norms(net):
    """ℓ1 norm of all parameters, weights and biases together, of each layer; floats."""
    return [
        sum(parameter.detach().double().abs().sum().item() for parameter in layer.parameters())
        for layer in layers_of(net)
    ]


@torch.no_grad()
def rescale_(net, norms):
    """Multiply each layer's parameters by one number so that its ℓ1 norm is the one in ``norms``."""
    for layer, before, after in zip(layers_of(net), norms, ell1_norms(net), strict=True):
        for parameter in layer.parameters():
            parameter.mul_(before / after)
