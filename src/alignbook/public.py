"""The metrics as :mod:`alignbook` hands them out: one sentence for whatever goes wrong, networks left alone.

Studies call the functions of :mod:`alignbook.metrics`, whose code counts for their stored results. Here,
around the same functions, arguments are checked, an error inside becomes a ValueError of one line with its
cause attached, results are numbers, and the caller's network, tensors and random states are as before.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from alignbook import metrics
from alignbook.kernels.gauss_newton_product import GaussNewtonProduct
from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos
from alignbook.metrics import HessianEigenvalues, arrays
from alignbook.metrics.any_network import by_layer
from alignbook.metrics.checks import instance, one_of, one_sentence, tensor
from alignbook.metrics.landscape import Landscape
from alignbook.metrics.loss_variation import LossVariation
from alignbook.metrics.spectral_density import (
    MATRICES,
    SpectralDensity,
    spectral_density as plain_spectral_density,
)
from alignbook.metrics.weight_deviation import WeightDeviation
from alignbook.probing.copies import measured, require_steady, unwrapped
from alignbook.probing.curvature import asymmetry
from alignbook.probing.data import gathered
from alignbook.probing.network import Network
from alignbook.probing.parameters import TRAINABLE
from alignbook.probing.task import settled

P, R = ParamSpec("P"), TypeVar("R")
Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Names: TypeAlias = str | Sequence[str]

RETURNS = "\n    Returns\n"
PARAMETERS = """    parameters : str or list of str
        Which of the model's parameters are meant: ``"trainable"``, those that require gradients; ``"all"``;
        or names and patterns of parameters or of the modules that hold them, as in ``["blocks.0.*"]``.
"""
MATRIX = """    matrix : {"hessian", "gauss-newton"}
        The Gauss-Newton matrix Jᵀ H J has no negative eigenvalues where the loss is convex in the outputs;
        for cross-entropy it is the Fisher matrix. It takes all examples in one batch.
"""


def _public(
    metric: Callable, adds: str = "", finite: bool = True
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: ``metric``'s docstring with ``adds`` among the parameters, and errors of one sentence.

    finite : refuse results with entries that are not finite.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        checked = one_sentence(function, finite)
        checked.__doc__ = (metric.__doc__ or "").replace(RETURNS, adds + RETURNS, 1)
        return checked

    return decorate


def _function(loss):
    if not callable(loss) or isinstance(loss, type):
        raise TypeError(f"loss must be a function of outputs and targets, not {type(loss).__name__}")
    return lambda outputs, targets: loss(outputs, targets.clone())


def _require_steady(network, inputs, targets):
    """Raise ValueError or TypeError for what are no examples, and for a network that is random."""
    tensor(inputs, "inputs")
    tensor(targets, "targets")
    require_steady(network, inputs)


@torch.no_grad()
def _examples(network, loss, inputs, targets):
    """(network, loss, inputs, targets) of tensors; data of other kinds become numbers of examples.

    Then the network takes these numbers; a ``loss`` of None stands for the one that the probe would measure.
    """
    if isinstance(inputs, torch.Tensor) and isinstance(targets, torch.Tensor):
        _require_steady(network, inputs, targets)
        return network, _function(loss), inputs, targets
    data, _ = gathered(inputs, targets, examples=2**31, least=1, floats=None)
    network = Network(network, data)
    targets = network.data.targets
    rows = torch.arange(len(targets), device=targets.device)
    network.prepared(network.few)
    if loss is None:
        task, _ = settled(network, None, 0)
        rows, loss = task.labelled(rows), task.loss
        targets = task.targets[rows]
    require_steady(network, rows)
    return network, _function(loss), rows, targets


misalignment = one_sentence(metrics.misalignment)
transfer_function = one_sentence(metrics.transfer_function)
patch_covariance = one_sentence(metrics.patch_covariance)
alignment_curve = one_sentence(metrics.alignment_curve)


@_public(metrics.tangent_alignment, PARAMETERS, finite=False)
def tangent_alignment(
    model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, *, parameters: Names = TRAINABLE
) -> np.ndarray:
    with measured(model, parameters) as network:
        alignments = by_layer(network, inputs, labels)
        alignments = [value for layer, value in alignments.items() if layer.weight.requires_grad]
    if not alignments:
        raise ValueError("no layer's weight trains: parameters='all' takes all of them")
    return np.array(alignments, dtype=np.float64)


@_public(metrics.hessian_eigenvalues, MATRIX + PARAMETERS)
def hessian_eigenvalues(
    model: nn.Module,
    loss: Loss | None,
    inputs: Any,
    targets: ArrayLike | torch.Tensor | None = None,
    k: int = 20,
    tol: float = 1e-3,
    batch_size: int = 256,
    basis: int | None = None,
    max_products: int = 2000,
    seed: int = 0,
    matrix: Literal["hessian", "gauss-newton"] = "hessian",
    *,
    parameters: Names = TRAINABLE,
) -> HessianEigenvalues:
    one_of(matrix, "matrix", MATRICES)
    with measured(model, parameters) as network:
        given = _examples(network, loss, inputs, targets)
        if matrix == "gauss-newton":
            return _eigenvalues(GaussNewtonProduct(*given), k, tol, basis, max_products, seed)
        pairs = metrics.hessian_eigenvalues(*given, k, tol, batch_size, basis, max_products, seed)
        if line := asymmetry(HessianProduct(*given, batch_size)):
            warnings.warn(line, RuntimeWarning, stacklevel=4)
    return pairs


def _eigenvalues(product, k, tol, basis, max_products, seed):
    if k >= product.total:
        raise ValueError(f"k = {k} must be below the {product.total} parameters")
    basis = max(3 * k, 60) if basis is None else basis
    if basis < k + 10 or max_products <= k:
        raise ValueError(f"basis = {basis} and max_products = {max_products}: at least k + 10, above k")
    pairs = lanczos(product, product.size, k, tol, basis, max_products, seed, product.dtype, product.device)
    return HessianEigenvalues(pairs.values, pairs.residuals, pairs.vectors, pairs.products, pairs.converged)


@_public(plain_spectral_density, PARAMETERS)
def spectral_density(
    model: nn.Module,
    loss: Loss | None,
    inputs: Any,
    targets: ArrayLike | torch.Tensor | None = None,
    vectors: int = 10,
    steps: int = 40,
    matrix: Literal["hessian", "gauss-newton"] = "hessian",
    batch_size: int = 256,
    seed: int = 0,
    *,
    parameters: Names = TRAINABLE,
) -> SpectralDensity:
    with measured(model, parameters) as network:
        given = _examples(network, loss, inputs, targets)
        return plain_spectral_density(*given, vectors, steps, matrix, batch_size, seed)


@_public(metrics.weight_deviation)
def weight_deviation(
    before: nn.Module | Mapping[str, torch.Tensor],
    after: nn.Module | Mapping[str, torch.Tensor],
    n: int | None = None,
) -> WeightDeviation:
    states = []
    for name, network in (("before", before), ("after", after)):
        instance(network, name, nn.Module | Mapping, "a torch.nn.Module or a state dict")
        states.append(unwrapped(network).state_dict() if isinstance(network, nn.Module) else network)
    return metrics.weight_deviation(*states, n)


class _Moving:
    """The modules of a network, and those of its parameters that require gradients."""

    def __init__(self, model):
        self.named_modules = model.named_modules
        self._parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]

    def named_parameters(self):
        return self._parameters


@_public(metrics.filter_normalised_directions, PARAMETERS)
def filter_normalised_directions(
    model: nn.Module,
    generator: torch.Generator,
    count: int = 2,
    layer: str | None = None,
    *,
    parameters: Names = TRAINABLE,
) -> list[dict[str, torch.Tensor]]:
    with measured(model, parameters) as network:
        return metrics.filter_normalised_directions(_Moving(network), generator, count, layer)


@_public(metrics.landscape, PARAMETERS, finite=False)
def landscape(
    model: nn.Module,
    loss: Loss,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    directions: Sequence[Mapping[str, torch.Tensor]] | None = None,
    *,
    generator: torch.Generator | None = None,
    radius: float = 0.1,
    points: int = 21,
    layer: str | None = None,
    mode: Literal["eval", "train"] = "eval",
    parameters: Names = TRAINABLE,
) -> Landscape:
    with measured(model, parameters) as network:
        _require_steady(network, inputs, targets)
        if directions is None and generator is not None:
            moving = _Moving(network)
            directions = metrics.filter_normalised_directions(moving, generator, 2, layer)
            generator = layer = None
        options = {"generator": generator, "radius": radius, "points": points, "layer": layer, "mode": mode}
        plane = metrics.landscape(network, _function(loss), inputs, targets, directions, **options)
    if not math.isfinite(middle := plane.loss[points // 2, points // 2]):
        raise ValueError(f"the loss of the model itself is {middle}")
    return plane


@_public(metrics.loss_variation, PARAMETERS, finite=False)
def loss_variation(
    model: nn.Module,
    loss: Loss,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    lengths: Iterable[float],
    scaled: bool = True,
    mode: Literal["eval", "train"] = "train",
    *,
    parameters: Names = TRAINABLE,
) -> LossVariation:
    with measured(model, parameters) as network:
        _require_steady(network, inputs, targets)
        lengths = arrays.float64(lengths, "lengths")
        return metrics.loss_variation(network, _function(loss), inputs, targets, lengths, scaled, mode)
