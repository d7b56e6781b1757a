"""How the gradient's size changes on its way back to the images, random and pre-trained weights (Figure 7).

The gradient of each image's loss by what a layer reads is what back-propagation hands on (∂L/∂X, Section 4).
Its size is followed from the last convolution to the images, beside that of the gradient by the layer's
weights.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.layer_gradients import gradient_projections, layer_gradients
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import fine_tune
from companion.jobs import Job
from companion.studies.transferability.shared.layers import main_layers, middle
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import STARTS, named, start_of
from companion.studies.transferability.shared.tuned import started, target

BIN = 0.1  # decades, of the histogram of the gradient's entries
TRAINING = ("batch_size", "learning_rate", "steps")  # arguments of a job that say how it is trained


def jobs(parameters):
    """One unit per target, start and seed; where ``activations`` asks for them, one of those beside it."""
    made, beside = [], []
    for name in parameters["targets"]:
        arguments = named(name) | start_of(parameters)
        for key in ("examples", "batch_size", "learning_rate", "batch"):
            arguments[key] = parameters[key]
        per_epoch = parameters["examples"] // parameters["batch_size"]
        arguments["steps"] = sorted({0, *(epoch * per_epoch for epoch in parameters["epochs"])})
        for start in STARTS:
            for seed in range(parameters["seeds"]):
                given = arguments | {"start": start, "seed": seed}
                made.append(Job(f"{name}-{start}-seed{seed}", compute, given))
                if parameters["activations"]:
                    kept = {key: value for key, value in given.items() if key not in TRAINING}
                    beside.append(Job(f"{name}-activations-{start}-seed{seed}", activations, kept))
    # Two neighbours that start from one pre-training would wait for it, both of them.
    return made + beside + source_jobs(parameters)


def compute(
    *,
    dataset,
    part,
    start,
    source,
    pretrain_epochs,
    pretrain_images,
    width,
    blocks,
    examples,
    batch_size,
    learning_rate,
    batch,
    steps,
    seed,
    device,
    report,
):
    """Train to the last of ``steps``, and at each measure the gradients, in batches of ``batch`` images.

    Rows of three kinds, all with ``step`` and ``kind``:
    "scale": ``layer``, its ``position`` from the images on (the head is last); ``inputs``: root mean square
    over images of ‖∂L_i/∂X‖; ``spread``: standard deviation of its log10; ``weights``: root mean square over
    batches of ‖∂L/∂W‖; ``weights_relative``: that times ‖W‖.
    "projection": ``layer``, ``position``, ``index`` of the singular value and :func:`gradient_projections`
    of the batches, means; not for the head.
    "histogram", of the middle layer: ``decade``, lower end of a bin of log10 |∂L_i/∂x|, x an entry of what
    the layer reads; ``count`` of entries; zeros are left out.
    """
    x, y, *_, classes = target(dataset, examples, seed, part)
    x, y = x.to(device), y.to(device)
    net = started(
        start,
        classes,
        (dataset, part),
        source,
        pretrain_epochs,
        pretrain_images,
        width,
        blocks,
        seed,
        device,
        lambda done, text: report(done / 2, text),
    )
    rows = []
    fine_tune(
        net,
        x,
        y,
        steps=max(steps),
        batch_size=batch_size,
        learning_rate=learning_rate,
        generator=torch_stream(seed, "fine-tuning", dataset, part, start),
        at=steps,
        on=lambda step, net: rows.append(measured(net, x, y, batch).assign(step=step)),
        report=lambda done, text: report(0.5 + done / 2, text),
    )
    return pd.concat(rows, ignore_index=True)


def measured(net, x, y, batch):
    """The rows of :func:`compute` for one network; images that fill no batch are left out."""
    layers = [*main_layers(net), "head"]
    central = middle(layers[:-1])[1]
    sizes = {name: [] for name in layers}  # of each image's gradient
    weights = {name: [] for name in layers}  # of each batch's
    profiles = {name: [] for name in layers[:-1]}
    entries = []
    for start in range(0, len(x) - batch + 1, batch):
        images = x[start : start + batch].contiguous(memory_format=torch.channels_last)
        found = layer_gradients(net, images, y[start : start + batch], layers)
        for name in layers:
            sizes[name].append(found.inputs[name].flatten(1).norm(dim=1).double().cpu().numpy())
            weights[name].append(found.weights[name].double().norm().item())
        for name, profile in profiles.items():
            both = gradient_projections(net.get_submodule(name).weight, found.weights[name])
            profile.append(pd.DataFrame(both))
        entries.append(found.inputs[central].abs().double().cpu().numpy().ravel())
    parts = []
    for position, name in enumerate(layers):
        size = np.concatenate(sizes[name])
        norm = math.sqrt(np.mean(np.square(weights[name])))
        row = {
            "kind": "scale",
            "inputs": math.sqrt(np.mean(size**2)),
            "spread": float(np.std(np.log10(size[size > 0]))),
            "weights": norm,
            "weights_relative": norm * net.get_submodule(name).weight.detach().double().norm().item(),
        }
        parts.append(pd.DataFrame([row]).assign(layer=name, position=position))
        if name in profiles:
            mean = sum(profiles[name]) / len(profiles[name])
            mean = mean.assign(kind="projection", index=np.arange(len(mean)), layer=name, position=position)
            parts.append(mean)
    values = np.concatenate(entries)
    bins = np.floor(np.log10(values[values > 0]) / BIN).astype(int)
    decades, counts = np.unique(bins, return_counts=True)
    parts.append(
        pd.DataFrame(
            {"kind": "histogram", "layer": central, "decade": np.round(decades * BIN, 9), "count": counts}
        )
    )
    return pd.concat(parts, ignore_index=True)


def activations(
    *, dataset, part, start, source, pretrain_epochs, pretrain_images, width, blocks, examples, batch, seed,
    device, report,
):  # fmt: skip
    """Before training: how a convolution multiplies the leading directions of the gradient by its output.

    Back-propagation multiplies ∂L/∂X_k, the gradient by what layer k gives out, with the layer's weight W
    (Section 4). Over all images and places of it, ∂L_i/∂X_k is a matrix (channels, images · places) =
    Σ_i σ_i u_i v_i', σ descending. Rows of kind "activation", at ``step`` 0, one per convolution and
    direction: ``layer``, ``position``, ``index``; ``singular``, σ_i; ``left``, ‖u_i'W‖; ``shuffled``, what
    the same weights in a random order would give, see :func:`shuffled_left`; ``norm``, ‖W‖.
    """
    x, y, *_, classes = target(dataset, examples, seed, part)
    x, y = x.to(device), y.to(device)
    length = (source, pretrain_epochs, pretrain_images, width, blocks)
    net = started(start, classes, (dataset, part), *length, seed, device, report).train()
    parts = []
    for position, (name, gram) in enumerate(output_grams(net, x, y, batch).items()):
        weight = net.get_submodule(name).weight.detach().cpu().double().flatten(1)
        values, vectors = torch.linalg.eigh(gram)
        u = vectors.flip(1)
        found = {
            "index": range(len(u)),
            "singular": values.flip(0).clamp(min=0).sqrt(),
            "left": (u.T @ weight).norm(dim=1),
            "shuffled": shuffled_left(u, weight),
            "norm": weight.norm().item(),
        }
        parts.append(pd.DataFrame(found).assign(layer=name, position=position))
    return pd.concat(parts, ignore_index=True).assign(kind="activation", step=0)


def output_grams(net, x, y, batch):
    """{convolution: Σ g g', (channels, channels) float64}, g the gradient of an image's loss by what the
    convolution gives out at one place; over all places of all images, but for those that fill no batch.

    Batch norm is in training mode; running statistics of ``net`` move.
    """
    layers = main_layers(net)
    given, grams = {}, dict.fromkeys(layers, 0.0)
    hooks = [
        net.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: given.update({name: output})
        )
        for name in layers
    ]
    for start in range(0, len(x) - batch + 1, batch):
        images = x[start : start + batch].contiguous(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(net(images), y[start : start + batch], reduction="sum")
        found = torch.autograd.grad(loss, [given[name] for name in layers])
        for name, gradient in zip(layers, found, strict=True):
            rows = gradient.transpose(0, 1).flatten(1).double().cpu()  # (channels, images · places)
            grams[name] = grams[name] + rows @ rows.T
    for hook in hooks:
        hook.remove()
    return grams


def shuffled_left(u, weight):
    """Root mean square of ‖u_i'W‖ over all orders of the entries of W (out, else), one per column of u.

    With q the mean square of an entry and c the mean product of two different ones, u_i of norm 1,
    the mean square is else · (q + c ((Σ_a u_ai)² - 1)).
    """
    square, count = weight.square().sum(), weight.numel()
    product = (weight.sum().square() - square) / (count * (count - 1))
    return (weight.shape[1] * (square / count + product * (u.sum(0).square() - 1))).clamp(min=0).sqrt()
