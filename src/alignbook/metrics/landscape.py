"""The loss on a plane through a network's weights (ICLR 2020 submission on transferability, Appendix A).

Directions are random and normalised filter by filter, after Li et al. 2018,
https://arxiv.org/abs/1712.09913.
"""

import difflib
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from .evaluation import evaluation_mode

NORMS = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True)
class Landscape:
    """The loss on the points of a plane.

    Attributes
    ----------
    alpha : (points,) float64 array
        How far along the first direction.
    beta : (points,) float64 array
        How far along the second.
    loss : (points, points) float64 array
        ``loss[i, j]`` is that at θ + alpha[i] a + beta[j] b. It may be inf or nan.
    """

    alpha: np.ndarray
    beta: np.ndarray
    loss: np.ndarray


@torch.no_grad()
def filter_normalised_directions(model, generator, count=2, layer=None):
    """Random directions in which every filter is as long as the model's own (ICLR 2020, Appendix A).

    Parameters
    ----------
    model : torch.nn.Module
    generator : torch.Generator
        On the CPU.
    count : int
        How many directions, at least 1.
    layer : str, optional
        Name of a module (``model.named_modules()``): only what it holds moves. By default all.

    Returns
    -------
    list of dict
        {name of the parameter: tensor of its shape, precision and device}, those that move only.

    Raises
    ------
    ValueError
        For an unknown layer, one without weights, or a count below 1 or above the number of weights.

    Notes
    -----
    Gaussian vectors over all weights that move are made orthogonal to each other and of length one; then
    a_ij ← a_ij ‖θ_ij‖ / ‖a_ij‖ for the j-th filter of the i-th layer, after which they are orthogonal only
    nearly (ICLR 2020 submission, Appendix A; Li et al. 2018). A filter is what one output channel or unit
    reads, ``weight[j]``. Parameters of fewer than two dimensions, biases and those of batch norm, do not
    move.

    Cost: a few passes over the weights, in float64.

    Examples
    --------
    >>> import torch
    >>> from alignbook import filter_normalised_directions
    >>> model = torch.nn.Linear(3, 2)
    >>> (direction,) = filter_normalised_directions(model, torch.Generator().manual_seed(0), count=1)
    >>> torch.allclose(direction["weight"].norm(dim=1), model.weight.norm(dim=1))
    True
    """
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"count must be an integer from 1 on, not {count}")
    weights = _moving(model, layer)
    size = sum(weight.numel() for weight in weights.values())
    if count > size:
        raise ValueError(f"there are no {count} orthogonal directions of {size} weights")
    vectors = []
    for _ in range(count):
        vector = torch.randn(size, generator=generator, dtype=torch.float64)
        for other in vectors:
            vector -= other @ vector * other
        vectors.append(vector / vector.norm())
    directions = []
    for vector in vectors:
        parts = vector.split([weight.numel() for weight in weights.values()])
        direction = {}
        for (name, weight), part in zip(weights.items(), parts, strict=True):
            rows = part.view(len(weight), -1)  # one filter a row
            norms = weight.detach().double().cpu().flatten(1).norm(dim=1, keepdim=True)
            direction[name] = (rows * (norms / rows.norm(dim=1, keepdim=True))).view(weight.shape).to(weight)
        directions.append(direction)
    return directions


@torch.no_grad()
def landscape(
    model,
    loss,
    inputs,
    targets,
    directions=None,
    *,
    generator=None,
    radius=0.1,
    points=21,
    layer=None,
    mode="eval",
):
    """The loss on a plane through the weights θ, at θ + α a + β b (ICLR 2020, Figures 3, 5, 10, 12, 13).

    Parameters
    ----------
    model : torch.nn.Module
        Left as it was, bit for bit, running statistics included.
    loss : callable
        ``loss(outputs, targets)`` returns a scalar.
    inputs, targets : (n, …) tensors
        On the model's device, taken in one batch; the paper takes 256 fixed examples.
    directions : pair of dict, optional
        Two of :func:`filter_normalised_directions`, {name of the parameter: tensor}.
    generator : torch.Generator, optional
        Draws the directions where none are given; on the CPU.
    radius : float
        Above 0: α and β go from -radius to radius. The paper goes 100 steps of η = 0.001 either way, which
        makes 0.1 (our default).
    points : int
        Number along each axis, odd, so that the middle is θ itself; the paper has 200.
    layer : str, optional
        Draw directions for this layer alone.
    mode : {"eval", "train"}
        "eval" normalises with the running statistics, "train" with those of the inputs themselves, as a
        training step does. All but batch norm is in evaluation mode in both (no dropout).

    Returns
    -------
    Landscape

    Raises
    ------
    ValueError
        Unless exactly one of ``directions`` and ``generator`` is given; for ``layer`` with ``directions``;
        for directions that do not fit the model; for a radius, points or mode out of range; and where the
        model answers differently twice, or its own loss is not finite.

    Notes
    -----
    ICLR 2020 submission on transferability, Appendix A. Cost: points² forward passes.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from alignbook import landscape
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> inputs, targets = torch.eye(2), torch.zeros(2, 1)
    >>> draws, loss = torch.Generator().manual_seed(0), torch.nn.functional.mse_loss
    >>> plane = landscape(model, loss, inputs, targets, generator=draws, radius=1.0, points=5)
    >>> plane.loss.shape, bool(np.isclose(plane.loss[2, 2], loss(model(inputs), targets).item()))
    ((5, 5), True)
    """
    if not radius > 0 or not isinstance(points, Integral) or points < 3 or points % 2 == 0:
        raise ValueError(f"radius = {radius} must be positive, points = {points} odd and at least 3")
    if (directions is None) == (generator is None):
        raise ValueError("either directions or a generator that draws them")
    if directions is None:
        directions = filter_normalised_directions(model, generator, 2, layer)
    elif layer is not None:
        raise ValueError("directions already say which layers move; layer is for those drawn here")
    parameters = dict(model.named_parameters())
    first, second = (_checked(direction, parameters) for direction in directions)
    steps = np.linspace(-radius, radius, points)
    steps[points // 2] = 0.0
    values = np.empty((points, points))
    with batch_norm(model, mode), torch.autocast(inputs.device.type, enabled=False):
        for i, alpha in enumerate(steps):
            row = _moved(parameters, first, float(alpha))
            for j, beta in enumerate(steps):
                point = _moved(row, second, float(beta))
                values[i, j] = loss_at(model, point, loss, inputs, targets)
    return Landscape(steps, steps.copy(), values)


@contextmanager
def batch_norm(model, mode):
    """Inside, ``model`` is in evaluation mode, its batch norm in ``mode`` "eval" or "train"."""
    if mode not in ("eval", "train"):
        raise ValueError(f"mode is {mode!r}; it is either 'eval' or 'train'")
    with evaluation_mode(model):
        norms = [module for module in model.modules() if mode == "train" and isinstance(module, NORMS)]
        try:
            for module in norms:
                module.training = True
            yield
        finally:
            for module in norms:
                module.training = False


def loss_at(model, parameters, loss, inputs, targets):
    """The loss, a float, with ``parameters`` {name: tensor} in place of the model's; buffers stay."""
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    outputs = functional_call(model, {**parameters, **buffers}, (inputs,))
    return float(loss(outputs, targets))


def _moved(parameters, direction, length):
    return {**parameters, **{name: parameters[name] + length * part for name, part in direction.items()}}


def _moving(model, layer):
    names = dict(model.named_modules())
    if layer is not None and layer not in names:
        near = difflib.get_close_matches(str(layer), names, 1)
        raise ValueError(f"no layer {layer!r}" + (f"; the nearest is {near[0]!r}" if near else ""))
    start = "" if layer in (None, "") else f"{layer}."
    weights = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(start) and parameter.ndim >= 2
    }
    if not weights:
        raise ValueError("there are no weights of two or more dimensions" + (f" in {layer}" if layer else ""))
    return weights


def _checked(direction, parameters):
    for name, value in direction.items():
        if name not in parameters or parameters[name].shape != value.shape:
            raise ValueError(f"a direction holds {name} of shape {tuple(value.shape)}, the model does not")
    return direction
