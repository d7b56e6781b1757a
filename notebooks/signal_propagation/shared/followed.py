"""A fully connected network followed through training: alignment of every layer at given epochs."""

import math

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.training import loop
from companion.studies.signal_propagation.shared.dense import CLASSES, accuracy, step_of
from companion.studies.signal_propagation.shared.equilibrium_layer import cosines_of, mean_losses

LOSS_IMAGES = 5000  # of the training images, on which the loss is measured


def followed(
    train,
    test,
    *,
    width,
    depth,
    learning_rate,
    batch_size,
    momentum,
    weight_decay,
    epochs,
    alignment_images,
    streams,
    report,
):
    """A_l (Equation 7) after each of ``epochs``, 0 for before training, and the exact losses beside it.

    train, test : (x (n, d), y (n,)); streams : generators of the weights, the order of the images and the
    choice of the ``alignment_images`` among them, of whose pairs the information losses are, too.

    Rows of ``epoch`` and ``layer``: ``alignment``; ``forward`` and ``backward``, means over the pairs at
    infinite width before training; ``forward_now`` and ``backward_now``, the same of the network itself
    (:func:`measured_losses`); and per epoch ``train_loss`` and ``test_accuracy``.
    """
    x, y = train
    weights, order, choice = streams
    mlp = MLP(x.shape[1], width, depth, CLASSES, weights, device=x.device)
    sample = torch.randperm(len(x), generator=choice)[:alignment_images].to(x.device)
    forward, backward = mean_losses(cosines_of(x[sample].cpu()), depth)
    per_epoch, rows = math.ceil(len(x) / batch_size), []

    def record(count):
        with torch.no_grad():
            loss = float(functional.cross_entropy(mlp.logits(x[:LOSS_IMAGES]), y[:LOSS_IMAGES]))
        table = {"layer": np.arange(1, depth + 1), "forward": forward, "backward": backward}
        table |= {"alignment": tangent_alignment(mlp.sequential(), x[sample], y[sample])}
        table |= dict(
            zip(("forward_now", "backward_now"), measured_losses(mlp.weights, x[sample]), strict=True)
        )
        scores = {"train_loss": loss, "test_accuracy": accuracy(mlp.logits, *test)}
        rows.append(pd.DataFrame(table).assign(epoch=count // per_epoch, **scores))

    with float32_products():
        loop.train(
            step_of(mlp, x, y, momentum, weight_decay),
            len(x),
            batch_size=batch_size,
            epochs=max(epochs),
            rate=learning_rate,
            generator=order,
            device=x.device,
            at=[epoch * per_epoch for epoch in epochs],
            on=record,
            report=report,
        )
    return pd.concat(rows, ignore_index=True)


@torch.no_grad()
def measured_losses(weights, x):
    """(forward, backward), (layers,) float64 each: the two losses in a network of finite width, as it is.

    weights : list of (out, in), ReLU between the layers; x : (n, d). forward is the mean over pairs of
    (1 - c)/2 with c the cosine of the pre-activations, backward that of the cosine of an output's gradients
    by them, mean over the outputs; at infinite width before training these are
    :func:`equilibrium_layer.mean_losses`.
    """
    before = [x @ weights[0].T]
    for weight in weights[1:]:
        before.append(before[-1].relu() @ weight.T)
    forward = [(1 - _mean_cosine(z)) / 2 for z in before]
    outputs = len(weights[-1])
    gradient = torch.eye(outputs, device=x.device, dtype=x.dtype)[:, None].expand(-1, len(x), -1)  # (k, n, k)
    backward = [1.0]
    for weight, z in zip(weights[:0:-1], before[-2::-1], strict=True):
        gradient = (gradient @ weight) * (z > 0)  # (k, n, units)
        backward.append(sum(map(_mean_cosine, gradient)) / outputs)
    return np.array(forward), np.array(backward[::-1])


def _mean_cosine(rows):
    """Mean cosine of all pairs of the rows (n, d); a row of zeros has cosine 0 with every other."""
    rows = functional.normalize(rows.double(), dim=1)
    own = rows.square().sum()
    return float((rows.sum(0).square().sum() - own) / (len(rows) * (len(rows) - 1)))
