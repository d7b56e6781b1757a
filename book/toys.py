"""Data and networks that a formula gives, for the pictures of :mod:`companion.prose.ideas`."""

import numpy as np
import scipy.special
import torch
from torch import nn
from torch.nn import functional

from alignbook.seeding import torch_stream


def circle(count=60, spread=0.3):
    """Features (count, 2): half of the points around 45°, half opposite, at a normal law's quantiles."""
    off = spread * scipy.special.ndtri((np.arange(count // 2) + 0.5) / (count // 2))
    angles = np.concatenate([np.pi / 4 + off, np.pi / 4 + np.pi + off])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def labels_at(features, turn):
    """±1 by the side of a line through the origin, turned by ``turn`` degrees from between the clouds."""
    angle = np.pi / 4 + np.radians(turn)
    return np.where(features @ [np.cos(angle), np.sin(angle)] > 0, 1.0, -1.0)


def turned(turn, spreads):
    """Covariance (2, 2) with standard deviations ``spreads`` along axes turned by ``turn`` degrees."""
    angle = np.radians(turn)
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return axes @ np.diag(np.square(spreads)) @ axes.T


def ellipse(covariance):
    """x and y of the points one standard deviation from the origin."""
    angles = np.linspace(0, 2 * np.pi, 49)
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values)) @ [np.cos(angles), np.sin(angles)]


def arcs(count=32):
    """(angles in degrees (count,), inputs (count, 2), labels 0 and 1): a circle cut into two classes."""
    degrees = (np.arange(count) + 0.5) * (360 / count)
    angles = torch.from_numpy(np.radians(degrees))
    inputs = torch.stack([angles.cos(), angles.sin()], dim=1)
    return degrees, inputs, (torch.sin(angles - np.radians(35)) > 0).long()


def trained(inputs, labels, steps, width=64, scale=0.6, rate=0.5):
    """Yield a ReLU network of four layers after each of ``steps`` (ascending) of gradient descent.

    Weights start at ``scale`` times He's; the network is one and the same, trained on.
    """
    sizes = (2, width, width, width, 2)
    layers = [nn.Linear(a, b, bias=False) for a, b in zip(sizes, sizes[1:], strict=False)]
    parts = [part for layer in layers for part in (layer, nn.ReLU())]
    network = nn.Sequential(*parts[:-1]).double()
    draw = torch_stream(0, "four ideas")
    for weight in network.parameters():
        start = torch.randn(weight.shape, generator=draw, dtype=torch.float64)
        weight.data = start * scale * (2 / weight.shape[1]) ** 0.5
    for step in range(steps[-1] + 1):
        if step in steps:
            yield network
        loss = functional.cross_entropy(network(inputs), labels)
        parts = torch.autograd.grad(loss, list(network.parameters()))
        for weight, part in zip(network.parameters(), parts, strict=True):
            weight.data -= rate * part


def layer_kernels(network, inputs):
    """Per layer the tangent kernel (n, n) of the second output less the first."""
    margins = network(inputs) @ torch.tensor([-1.0, 1.0], dtype=inputs.dtype)
    rows = [torch.autograd.grad(m, list(network.parameters()), retain_graph=True) for m in margins]
    flat = [torch.stack([part.flatten() for part in layer]) for layer in zip(*rows, strict=True)]
    return [(part @ part.T).numpy() for part in flat]


def valley(curvature, shift):
    """(model, loss, inputs, targets): two weights, a minimum at (shift, 0), curvatures ``curvature`` and 0.1.

    The model starts at (3, 0), on the slope, where its gradient points along the first weight.
    """
    inputs = torch.tensor([[curvature, 0.0], [0.0, 0.1]], dtype=torch.float64).sqrt()
    model = nn.Linear(2, 1, bias=False, dtype=torch.float64)
    model.weight.data = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    return model, functional.mse_loss, inputs, inputs @ torch.tensor([[shift], [0.0]], dtype=torch.float64)
