"""What the probe measures on one network: each instrument returns a table, or raises DoesNotApply.

Networks are :class:`alignbook.probing.network.Network`, in evaluation mode, and examples their numbers.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics import (
    misalignment,
    misalignment_basis,
    patch_covariance,
    transfer_function,
    weight_deviation,
)
from alignbook.seeding import numpy_stream, torch_stream

from . import weights
from .errors import DoesNotApply
from .layers import Layers
from .parameters import matches
from .tangents import NONE, named_weights

BASES = 20
DRAWS = 20
PATCH_IMAGES = 1000


def filters(network, task, rows, seed, layers=None):
    """First-layer filters against the patches that they see (Maennel et al. 2020, Sections 2.2 and 2.3).

    Returns one row per eigenvalue of the patch covariance: ``sigma``, ``tau`` (f(σ) = τ), and in all rows
    ``layer``, ``filters``, ``dimension``, ``misalignment``, ``floor`` (its mean for as many Gaussian filters
    whose covariance is aligned) and ``random_bases`` (its mean where random bases take the eigenvectors'
    place); the three are nan with too few filters, whose covariance has no inverse.
    """
    layer, covariance, flat = first_layer(network, rows[:PATCH_IMAGES])
    of_weights = np.cov(flat, rowvar=False, bias=True).reshape(len(covariance), -1)
    sigma, tau = transfer_function(covariance, of_weights)
    count, dimension = flat.shape
    scores = {"misalignment": math.nan, "floor": math.nan, "random_bases": math.nan}
    if count > dimension:
        rng = numpy_stream(seed, "probe", "filters")
        draws = rng.standard_normal((DRAWS, count, dimension))
        turned = np.linalg.qr(rng.standard_normal((BASES, dimension, dimension)))[0]
        diagonal = np.diag(np.arange(1.0, dimension + 1))
        scores = {
            "misalignment": misalignment(covariance, of_weights),
            "floor": np.mean([misalignment(diagonal, np.cov(d, rowvar=False, bias=True)) for d in draws]),
            "random_bases": np.mean([misalignment_basis(basis, of_weights) for basis in turned]),
        }
    known = {"layer": layer, "filters": count, "dimension": dimension}
    return pd.DataFrame({"sigma": sigma, "tau": tau}).assign(**known, **scores)


def first_layer(network, rows, kinds=nn.Conv2d, called="two-dimensional convolution"):
    """(name, covariance (d, d) of what it reads, weights (filters, d)) of the first such layer.

    A convolution reads patches wherever they lie: the statistics of images do not depend on its stride.
    """
    modules = {m: name for m, name in network.names().items() if isinstance(m, kinds)}
    if not modules:
        raise DoesNotApply(f"the network has no {called}")
    reader = Layers(network, modules, rows)
    if not reader.order:
        raise DoesNotApply(f"the first {called} is not called")
    name = reader.order[0]
    layer = next(m for m, own in modules.items() if own == name)
    reader.modules = {layer: name}
    parts = reader.over(rows.split(network.batch)).get(name)
    if parts is None:
        raise DoesNotApply(f"{name}: {reader.left[name]}")
    values, weight = torch.cat(parts), layer.weight.detach().double()
    if not weight.isfinite().all():
        raise DoesNotApply(f"the weights of {name} are not finite")
    flat = weight.flatten(1).cpu().numpy()
    if isinstance(layer, nn.Linear) and values.ndim == 2:
        return name, np.cov(values.double().numpy(), rowvar=False), flat
    square = isinstance(layer, nn.Conv2d) and layer.kernel_size[0] == layer.kernel_size[1]
    if not square or values.ndim != 4 or layer.groups != 1 or layer.dilation != (1, 1):
        raise DoesNotApply(f"{name} has no square filters, has groups or is dilated")
    if min(values.shape[2:]) < layer.kernel_size[0]:
        raise DoesNotApply("the images are smaller than the filters")
    return name, patch_covariance(values, layer.kernel_size[0]).cov, flat


@torch.no_grad()
def slice_(network, task, rows, seed, layers=None, radius=0.1, points=21):
    """The loss along one random direction in which every filter has its own norm (ICLR 2020, Appendix A).

    Weights of two and more dimensions that train move; a filter is what one output channel or unit reads.
    Returns ``alpha`` from -radius to radius and ``loss``. The copy is moved and put back, bit for bit.
    """
    moving = list(named_weights(network.model).values())
    if not moving:
        raise DoesNotApply(NONE)
    generator, start = torch_stream(seed, "probe", "slice"), [w.clone() for w in moving]
    direction = [_filters_like(w, generator) for w in moving]
    alphas, losses = np.linspace(-radius, radius, points), []
    try:
        for alpha in alphas:
            for w, middle, step in zip(moving, start, direction, strict=True):
                torch.add(middle, step, alpha=float(alpha), out=w)
            losses.append(mean_loss(network, task, rows)[0])
    finally:
        for w, middle in zip(moving, start, strict=True):
            w.copy_(middle)
    return pd.DataFrame({"alpha": alphas, "loss": losses})


def _filters_like(weight, generator):
    """Gaussian filters, each of the norm of the weight's own."""
    drawn = torch.randn(weight.shape, generator=generator).to(weight).flatten(1)
    norms = weight.flatten(1).norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True)
    return (norms * drawn).view_as(weight)


def deviation(start, model, layers=None):
    """How far each weight has moved since the state dict ``start`` (ICLR 2020, Section 3).

    Returns a row for each weight that both have: ``layer``, ``parameter``, ``deviation``, and ``relative``
    to the norm at the start. ``.attrs["said"]`` has lines on what they do not share.
    """
    if not (named := named_weights(model)):
        raise DoesNotApply(NONE)
    both, apart = weights.shared(start, model.state_dict())
    full = {whose: ".".join(part for part in whose if part != "(network)") for whose in named}
    wanted = {whose: name for whose, name in full.items() if name in both and matches(whose[0], layers)}
    if not wanted:
        raise DoesNotApply("the two networks share no weights")
    before, now = ({name: both[name][i] for name in wanted.values()} for i in (0, 1))
    moved = weight_deviation(before, now).layers
    norms = [float(before[name].double().norm()) for name in wanted.values()]
    rows = pd.DataFrame(list(wanted), columns=["layer", "parameter"])
    rows["deviation"] = list(moved.values())
    rows["relative"] = [d / n if n else math.nan for d, n in zip(moved.values(), norms, strict=True)]
    rows.attrs["said"] = apart
    return rows


@torch.no_grad()
def mean_loss(network, task, rows):
    """(the loss of these examples, the share of classes that come out right or None), batch by batch."""
    total = weight = right = known = 0
    for outputs, targets in _answers(network, task, rows):
        counts = task.weight(targets)
        if counts:
            total += float(task.loss(outputs, targets)) * counts
            weight += counts
        if task.answers:
            correct, of = task.correct(outputs, targets)
            right, known = right + correct, known + of
    if not weight:
        raise DoesNotApply("none of these examples has a class")
    return total / weight, (right / known if known else None)


def _answers(network, task, rows):
    """(outputs, targets) of the examples, batch by batch, or all at once for a loss that is no mean."""
    at_once = task.whole and task.stated  # the network itself takes the loss of a batch
    parts = (
        (network(part), task.targets[part.to(task.targets.device)])
        for part in rows.split(len(rows) if at_once else network.batch)
    )
    if at_once or not task.whole:
        yield from parts
        return
    outputs, targets = zip(*parts, strict=True)
    yield torch.cat(outputs), torch.cat(targets)
