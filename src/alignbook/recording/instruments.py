"""What a recorder can measure: each instrument returns {layer: number}; "" stands for the whole network."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from alignbook.metrics import (
    hessian_eigenvalues,
    misalignment,
    patch_covariance,
    tangent_alignment,
    weight_deviation,
)
from alignbook.metrics.evaluation import evaluation_mode
from alignbook.seeding import torch_stream

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
COORDINATES = 1024  # of a layer's features at most, drawn at random, the same ones at every step
BATCH = 128
TANGENT = 64  # examples: time and memory grow with their square
CURVED = 128
TOLERANCE = 0.1  # of the curvature's residual over the eigenvalue; its own error is about the square
PRODUCTS = 60  # with the Hessian at most


@dataclass(frozen=True)
class Subject:
    """What an instrument looks at.

    model : examples.Reading; inputs, targets : tensors on its device; loss : callable (outputs, targets) →
    scalar; start : state dict of the weights at the first step, None where it is not known; seed : int.
    """

    model: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor
    loss: object
    start: dict | None
    seed: int


def loss(subject):
    """The mean loss."""
    outputs = _read(subject)[1]
    return {"": float(subject.loss(outputs, subject.targets))}


def alignment(subject):
    """Share of the labels on the top singular vectors of what a layer reads (Imani et al. 2022, Equation 2).

    Ỹ are the labels (classes one-hot), less each column's mean; the share is of ‖Ỹ‖² on as many left singular
    vectors as Ỹ has columns, of features with a constant, rows of length one. Random features have about
    k / n.
    """
    centred = _labels(subject.targets)
    features, outputs = _read(subject, _names(subject.model, LAYERS))
    found = {name: on_top(values, centred) for name, values in features.items()}
    return found | {"output": on_top(outputs.reshape(len(outputs), -1).double().cpu().numpy(), centred)}


def tangent(subject):
    """Alignment of each layer's tangent kernel with the labels (Lou et al. 2022, Equation 7)."""
    inputs, targets = subject.inputs[:TANGENT], subject.targets[:TANGENT]
    if subject.model.fields is not None:  # rows' numbers, which the metric wants as it wants inputs
        inputs = inputs.double()
    values = tangent_alignment(subject.model, inputs, targets)
    names = list(_first_calls(subject.model, (nn.Linear, nn.Conv2d), inputs[:1]))
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}


def curvature(subject):
    """The eigenvalue of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a)."""
    inputs, targets = subject.inputs[:CURVED], subject.targets[:CURVED]
    found = hessian_eigenvalues(
        subject.model, subject.loss, inputs, targets, k=1, tol=TOLERANCE, batch_size=CURVED, basis=20,
        max_products=PRODUCTS, seed=subject.seed,
    )  # fmt: skip
    return {"": float(found.eigenvalues[0])}


def first_layer(subject):
    """Misalignment of the first layer's weights with its inputs (Maennel et al. 2020, Section 2.2).

    Applies where the first layer has more filters than a filter has weights.
    """
    entering = _first_calls(subject.model, LAYERS, subject.inputs)
    if not entering:
        raise ValueError("the network has no linear or convolutional layer")
    name, values = next(iter(entering.items()))
    layer = subject.model.model.get_submodule(name)
    weights = layer.weight.detach().double().flatten(1).cpu().numpy()
    count, size = weights.shape
    if count <= size:
        raise ValueError(f"{name} has {count} filters of {size} weights: it needs more filters than that")
    if isinstance(layer, nn.Linear) and values.ndim == 2:
        data = np.cov(values.double().cpu().numpy(), rowvar=False)
    elif isinstance(layer, nn.Conv2d) and len(set(layer.kernel_size)) == 1 and layer.dilation == (1, 1):
        data = patch_covariance(values.cpu(), layer.kernel_size[0]).cov
    else:
        raise ValueError(f"{name} reads neither vectors nor square patches of images")
    return {name: misalignment(data, np.cov(weights, rowvar=False, bias=True))}


def deviation(subject):
    """‖W - W₀‖ of each weight since the first step, and their sum (ICLR 2020 submission, Section 3)."""
    if subject.start is None:
        raise ValueError("the weights at the start are not known: hand them in as start=")
    found = weight_deviation(subject.start, subject.model.model)
    return {name.removesuffix(".weight"): value for name, value in found.layers.items()} | {"": found.total}


INSTRUMENTS = {
    "loss": loss,
    "alignment": alignment,
    "tangent": tangent,
    "curvature": curvature,
    "misalignment": first_layer,
    "deviation": deviation,
}


def on_top(features, centred):
    """Share of ‖Ỹ‖² on as many top left singular vectors of ``features`` (n, d) as Ỹ (n, k) has columns."""
    rows = np.column_stack([features, np.ones(len(features))])
    rows /= np.abs(rows).max(1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(rows @ rows.T)  # ascending
    top = vectors[:, -centred.shape[1] :][:, values[-centred.shape[1] :] > 1e-12 * values[-1]]
    return float(np.square(top.T @ centred).sum() / np.square(centred).sum())


def _labels(targets):
    if targets.is_floating_point():
        columns = targets.double().reshape(len(targets), -1)
    elif targets.ndim == 1 and targets.min() >= 0:
        columns = functional.one_hot(targets.long()).double()
    else:
        raise ValueError("the labels are not one class for each example")
    columns = columns.cpu().numpy()
    columns = columns[:, np.ptp(columns, axis=0) > 0]
    if not columns.size:
        raise ValueError("all labels are equal")
    return columns - columns.mean(0)


def _names(model, kinds):
    return {module: name for name, module in model.model.named_modules() if isinstance(module, kinds)}


def _first_calls(model, kinds, inputs):
    """{layer: what entered it at its first call}, in the order of the calls."""
    seen = {}
    hooks = [
        module.register_forward_pre_hook(lambda _, given, name=name: seen.setdefault(name, given[0].detach()))
        for module, name in _names(model, kinds).items()
    ]
    try:
        with torch.no_grad(), evaluation_mode(model):
            model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _read(subject, names=None):
    """({layer: float64 features (n, d) that enter it at its first call}, outputs), batch by batch."""
    parts, outputs, chosen = {}, [], {}
    generator = torch_stream(subject.seed, "recorder", "coordinates")

    def keep(name, values):
        if name in called or len(values) != size:
            return
        called.add(name)
        flat = values.detach().reshape(size, -1)
        if name not in chosen:
            chosen[name] = torch.randperm(flat.shape[1], generator=generator)[:COORDINATES].to(flat.device)
        parts.setdefault(name, []).append(flat[:, chosen[name]].double().cpu())

    hooks = [
        module.register_forward_pre_hook(lambda _, given, name=name: keep(name, given[0]))
        for module, name in (names or {}).items()
    ]
    try:
        with torch.no_grad(), evaluation_mode(subject.model):
            for part in subject.inputs.split(BATCH):
                size, called = len(part), set()
                outputs.append(subject.model(part).detach())
    finally:
        for hook in hooks:
            hook.remove()
    return {name: torch.cat(found).numpy() for name, found in parts.items()}, torch.cat(outputs)
