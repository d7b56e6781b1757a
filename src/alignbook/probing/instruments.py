"""What the probe measures on one network: each instrument returns a table, or raises DoesNotApply.

Networks are :class:`alignbook.probing.network.Network`, in evaluation mode, and examples their numbers.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.metrics import (
    misalignment,
    misalignment_basis,
    patch_covariance,
    tangent_alignment,
    transfer_function,
)
from alignbook.seeding import numpy_stream, torch_stream

from .axes import axes, reading, values_of
from .budget import positions
from .errors import DoesNotApply
from .features import labels, selected
from .network import Direct, Signal
from .tangents import NONE, named_weights, parameter_alignment

OUTPUTS = 10  # of the network's that the tangent kernels take
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
    conv, entering = first_layer(network, rows[:PATCH_IMAGES])
    if entering.ndim != 4:
        raise DoesNotApply("the first convolution does not see every image once")
    size, weight = conv.kernel_size, conv.weight.detach().double()
    if size[0] != size[1] or conv.groups != 1 or conv.dilation != (1, 1):
        raise DoesNotApply("the first convolution has no square filters, has groups or is dilated")
    if min(entering.shape[2:]) < size[0]:
        raise DoesNotApply("the images are smaller than the filters")
    if not weight.isfinite().all():
        raise DoesNotApply("the filters have entries that are not finite")
    # Patches wherever they lie: the statistics of images do not depend on the network's stride.
    covariance = patch_covariance(entering, size[0]).cov
    flat = weight.flatten(1).cpu().numpy()
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
    known = {"layer": network.names()[conv], "filters": count, "dimension": dimension}
    return pd.DataFrame({"sigma": sigma, "tau": tau}).assign(**known, **scores)


@torch.no_grad()
def first_layer(network, rows, kinds=nn.Conv2d, called="two-dimensional convolution"):
    """The first layer of these kinds that is called, and what enters it, examples first, on the CPU."""
    layers = {module: module for module in network.modules() if isinstance(module, kinds)}
    if not layers:
        raise DoesNotApply(f"the network has no {called}")
    whole = f"the first {called.split()[-1]} does not see every example once"

    def entered(part, first=None):
        seen = []
        with reading(layers, lambda *now: seen.append(now)):
            network(part)
        seen = [(layer, values_of(read)) for layer, read in seen if first in (None, layer)]
        if not seen or len([layer for layer, _ in seen if layer is seen[0][0]]) > 1:
            raise DoesNotApply(whole)
        return dict(seen[:1])

    axis, *_ = axes(lambda at: entered(rows[at.to(rows.device)]), len(rows))
    if not axis:
        raise DoesNotApply(whole)
    ((layer, axis),) = axis.items()
    parts = [axis.first(entered(part, layer)[layer].cpu(), len(part)) for part in rows.split(network.batch)]
    if any(part is None for part in parts):
        raise DoesNotApply(whole)
    return layer, torch.cat(parts)


def tangent(network, task, rows, seed, layers=None, most=None, chance=True):
    """How far each layer's tangent kernel is aligned with the labels: A_l (Lou et al. 2022, Equation 7).

    With more than ten classes (or numbers) on the ten that come most often among the targets (or vary most),
    and their outputs; where each position has a class, on one position of each example.
    Returns one row per layer: ``alignment``, ``chance`` (that with shuffled labels), ``parameter`` (whose
    gradients these are) and ``method``, ``exact``, or ``sketched`` where the network is none that
    :func:`alignbook.tangent_alignment` takes and the layer has more than 4,096 weights.
    most : of the examples that have one of these classes so many are taken, evenly from first to last.
    chance : without it nan stands there, which takes half the time.
    """
    rows, centred, outputs = asked(network, task, rows)
    if most is not None and len(rows) > most:
        some = positions(len(rows), most)
        rows, centred = rows[some], centred[some] - centred[some].mean()
    if (centred == centred[:1]).all():
        raise DoesNotApply("all targets are equal")
    shuffle = torch.randperm(len(rows), generator=torch_stream(seed, "probe", "shuffle"))
    table = _exact(network, task, rows, outputs, shuffle if chance else None, layers)
    if table is not None:
        return table
    names, alignment, by_chance, exact = parameter_alignment(
        Signal(network, task, outputs), network, rows, centred, centred[shuffle], layers, seed=seed
    )
    columns = {"depth": range(len(names)), "alignment": alignment, "chance": by_chance if chance else np.nan}
    rows = pd.DataFrame(names, columns=["layer", "parameter"]).assign(**columns)
    return rows.assign(method=np.where(exact, "exact", "sketched"))


def asked(network, task, rows):
    """(the examples, Ỹ (n, k) float64, the k outputs that it belongs to) that the tangent kernels take."""
    rows = task.labelled(rows)
    with torch.no_grad():
        first = network(rows[:1])
        width = task.signal(first, rows[:1]).shape[1]
    wanted = task.wanted(rows)
    if not task.classes:
        columns = labels(wanted)
        if columns.shape[1] != width:
            raise DoesNotApply(f"{columns.shape[1]} numbers are wanted of each example, {width} are returned")
        outputs = columns.var(0).argsort(descending=True, stable=True)[:OUTPUTS].sort().values
        columns = columns[:, outputs]
        return rows, columns - columns.mean(), outputs
    if not task.positions and first.ndim != 2:
        raise DoesNotApply(f"which of the outputs {tuple(first.shape)} belongs to a class is not known")
    counts = wanted.bincount(minlength=width)
    if len(counts) > width:
        outputs = "1 output" if width == 1 else f"{width} outputs"
        raise DoesNotApply(f"there are {len(counts)} classes, and {outputs}")
    outputs = counts.argsort(descending=True, stable=True)[:OUTPUTS].sort().values
    among = torch.isin(wanted, outputs)
    classes = torch.searchsorted(outputs, wanted[among])
    centred = (functional.one_hot(classes, len(outputs)).double() - 1 / len(outputs)).cpu()
    return rows[among.to(rows.device)], centred, outputs


def takes_exact(network, task, rows, outputs):
    """Whether :func:`alignbook.tangent_alignment` takes this network, tried on two examples."""
    if network.data.only is None or not task.classes or task.positions or len(outputs) < 2:
        return False
    try:
        tangent_alignment(Direct(network, outputs), network.data.rows(rows[:2]), torch.tensor([0, 1]))
    except (ValueError, RuntimeError):
        return False
    return True


def _exact(network, task, rows, outputs, shuffle, layers):
    """The table by :func:`alignbook.tangent_alignment`, or None for a network that it does not take."""
    if not takes_exact(network, task, rows, outputs):
        return None  # a layer of another kind: by its gradients
    inputs, classes = network.data.rows(rows), torch.searchsorted(outputs, task.wanted(rows))
    direct, chance = Direct(network, outputs), np.nan
    alignment = tangent_alignment(direct, inputs, classes)
    if shuffle is not None:
        chance = tangent_alignment(direct, inputs, classes[shuffle.to(classes.device)])
    table = pd.DataFrame({"layer": _called(network, rows[:1]), "parameter": "weight"})
    table = table.assign(depth=range(len(table)), alignment=alignment, chance=chance, method="exact")
    meant = {layer for layer, _ in named_weights(network.model)}
    chosen = [selected(name, layers) and name in meant for name in table["layer"]]
    if not any(chosen):
        raise DoesNotApply(NONE)
    return table[chosen].reset_index(drop=True)


@torch.no_grad()
def _called(network, rows):
    """Names of the linear and convolutional layers in the order of their calls."""
    called = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: called.append(name))
        for module, name in network.names().items()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    try:
        network(rows)
    finally:
        for hook in hooks:
            hook.remove()
    return called


@torch.no_grad()
def slice_(network, task, rows, seed, layers=None, radius=0.1, points=21):
    """The loss along one random direction in which every filter has its own norm (ICLR 2020, Appendix A).

    Weights of two and more dimensions that train move; a filter is what one output channel or unit reads.
    Returns ``alpha`` from -radius to radius and ``loss``. The copy is moved and put back, bit for bit.
    """
    weights = list(named_weights(network.model).values())
    if not weights:
        raise DoesNotApply(NONE)
    generator, start = torch_stream(seed, "probe", "slice"), [w.clone() for w in weights]
    direction = [_filters_like(w, generator) for w in weights]
    alphas, losses = np.linspace(-radius, radius, points), []
    try:
        for alpha in alphas:
            for w, middle, step in zip(weights, start, direction, strict=True):
                torch.add(middle, step, alpha=float(alpha), out=w)
            losses.append(mean_loss(network, task, rows)[0])
    finally:
        for w, middle in zip(weights, start, strict=True):
            w.copy_(middle)
    return pd.DataFrame({"alpha": alphas, "loss": losses})


def _filters_like(weight, generator):
    """Gaussian filters, each of the norm of the weight's own."""
    drawn = torch.randn(weight.shape, generator=generator).to(weight).flatten(1)
    norms = weight.flatten(1).norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True)
    return (norms * drawn).view_as(weight)


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
