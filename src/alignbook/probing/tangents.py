"""How far each layer's tangent kernel is aligned with the labels.

:func:`alignbook.tangent_alignment` is exact and fast, on linear and convolutional layers that are used once.
For other networks a layer is a parameter: attention, grouped convolutions and tied weights have some.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.metrics.any_network import by_layer
from alignbook.seeding import torch_stream

from .budget import positions
from .errors import DoesNotApply
from .features import labels
from .network import HELD, Direct
from .parameters import matches

OUTPUTS = 10  # of the network's that the kernels take
NONE = "no parameter of two or more dimensions trains (parameters='all' takes all of them)"
BUCKETS = 2048  # of each of the two sketches of a gradient that is longer


def tangent(network, task, rows, seed, layers=None, most=100, chance=True):
    """A_l of every layer (Lou et al. 2022, Equation 7).

    With more than ten classes (or numbers) on the ten that come most often among the targets (or vary most),
    and their outputs; where each position has a class, on one position of each example.
    Returns one row per layer: ``alignment``, ``chance`` (that with shuffled labels), ``parameter`` (whose
    gradients these are) and ``method``, ``exact``, or ``sketched`` where the network is none that
    :func:`alignbook.tangent_alignment` takes and the layer has more than 4,096 weights.
    most : of the examples that have one of these classes so many are taken, evenly from first to last.
    chance : without it nan stands there, which takes half the time.
    """
    rows, centred, outputs = asked(network, task, rows)
    exact = _takes_exact(network, task, rows, outputs)
    fit = max(2, int(HELD / max(1, _bytes_of_each(network, rows, outputs, exact))))
    said = [f"{fit} examples: more take over {HELD / 1e9:.0f} GB"] if fit < min(most, len(rows)) else []
    if len(rows) > (most := min(most, fit)):
        some = positions(len(rows), most)
        rows, centred = rows[some], centred[some] - centred[some].mean()
    if (centred == centred[:1]).all():
        raise DoesNotApply("all targets are equal")
    shuffle = torch.randperm(len(rows), generator=torch_stream(seed, "probe", "shuffle"))
    if exact:
        table = _exact(network, task, rows, outputs, shuffle if chance else None, layers)
    else:
        names, alignment, by_chance, whole = parameter_alignment(
            network, task, rows, outputs, centred, centred[shuffle], layers, seed=seed
        )
        columns = {"alignment": alignment, "chance": by_chance if chance else np.nan}
        table = pd.DataFrame(names, columns=["layer", "parameter"]).assign(**columns)
        table["method"] = np.where(whole, "exact", "sketched")
    table.insert(0, "depth", range(len(table)))
    table.attrs["said"] = said
    return table


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
    if not task.where and first.ndim != 2:
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


def _takes_exact(network, task, rows, outputs):
    """Whether :func:`alignbook.tangent_alignment` takes this network, tried on two examples."""
    if not task.classes or task.where or len(outputs) < 2:
        return False
    try:
        by_layer(Direct(network, outputs), network.data.rows(rows[:2]), torch.tensor([0, 1]))
    except (ValueError, RuntimeError):
        return False  # as of a layer of another kind: by its gradients
    return True


def _bytes_of_each(network, rows, outputs, exact):
    """Bytes per example: layers' inputs and their outputs' gradients, or the parameters' gradients."""
    if not exact:
        weights = named_weights(network.model).values()
        return 4 * len(outputs) * sum(min(w.numel(), 2 * BUCKETS) for w in weights)
    sizes = []

    def keep(layer, given, output):
        sizes.append(2 * given[0].numel() + (len(outputs) + 2) * output.numel())

    hooks = [m.register_forward_hook(keep) for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    with torch.no_grad():
        network(rows[:1])
    for hook in hooks:
        hook.remove()
    return 4 * sum(sizes)


@torch.no_grad()
def _exact(network, task, rows, outputs, shuffle, layers):
    """The table by :func:`alignbook.tangent_alignment`, in the order of the calls."""
    inputs, classes = network.data.rows(rows), torch.searchsorted(outputs, task.wanted(rows))
    direct, chance, names = Direct(network, outputs), np.nan, network.names()
    alignment = by_layer(direct, inputs, classes)
    if shuffle is not None:
        chance = [*by_layer(direct, inputs, classes[shuffle.to(classes.device)]).values()]
    called = [names[layer] for layer in alignment]
    columns = {"layer": called, "parameter": "weight", "alignment": [*alignment.values()], "chance": chance}
    table = pd.DataFrame(columns)
    meant = {layer for layer, _ in named_weights(network.model)}
    chosen = [matches(name, layers) and name in meant for name in called]
    if not any(chosen):
        raise DoesNotApply(NONE)
    return table[chosen].reset_index(drop=True).assign(method="exact")


def parameter_alignment(
    network, task, rows, outputs, centred, shuffled, layers=None, buckets=BUCKETS, seed=0
):
    """A_l (Lou et al. 2022, Equation 7) of every parameter of two or more dimensions that trains.

    outputs : (k,) which of the network's outputs.
    centred : (n, k) float64, Ỹ: targets less their mean; shuffled : the same in another order.
    layers : names and patterns of modules, or None.
    buckets : gradients with more than twice as many entries are replaced by two sketches of that length
    (Charikar et al. 2002), drawn from ``seed``: signed sums of entries, whose inner products have the right
    mean. ‖C K C‖² is the inner product of the two sketches' kernels, so that it has the right mean as well.

    Returns ([(module, parameter)], (layers,) float64, the same for shuffled targets, (layers,) bool: exact).
    A layer whose kernel is constant has nan. One backward pass for each example and output; memory is
    16 · n · k · layers · buckets bytes at most.
    """
    weights = {whose: w for whose, w in named_weights(network.model).items() if matches(whose[0], layers)}
    if not weights:
        raise DoesNotApply(NONE)
    generator = torch_stream(seed, "sketch")
    sketches = {whose: _sketches(w, buckets, generator) for whose, w in weights.items()}
    n, k = centred.shape
    # Allocated at once: one by one between gradients, sketches would hold the gradients' memory, too.
    gradients = {
        whose: [w.new_empty(n * k, w.numel() if sketch is None else buckets) for sketch in sketches[whose]]
        for whose, w in weights.items()
    }
    with torch.enable_grad():
        for i, row in enumerate(rows.split(1)):
            signal = task.signal(network(row), row)[0, outputs.to(row.device)]
            for a, flats in enumerate(gradients_of(signal, list(weights.values()))):
                for whose, flat in zip(weights, flats, strict=True):
                    for features, sketch in zip(gradients[whose], sketches[whose], strict=True):
                        features[i * k + a] = flat if sketch is None else sketch(flat)
    targets = torch.stack([centred.flatten(), shuffled.flatten()], 1).to(next(iter(weights.values())).device)
    alignments = np.array(
        [_alignment([features.double() for features in gradients.pop(whose)], targets) for whose in weights]
    )
    exact = np.array([len(sketches[whose]) == 1 for whose in weights])
    return list(weights), alignments[:, 0], alignments[:, 1], exact


def named_weights(model):
    """{(module, parameter): tensor} of two or more dimensions, of floats that train, each once."""
    return {
        (name.rpartition(".")[0] or "(network)", name.rpartition(".")[2]): w
        for name, w in model.named_parameters()
        if w.ndim >= 2 and w.is_floating_point() and w.requires_grad
    }


def gradients_of(signal, weights):
    """For each of the outputs (k,) the list of its gradients (P,) by the weights."""
    for a, value in enumerate(signal):
        gradients = torch.autograd.grad(
            value, weights, retain_graph=a + 1 < len(signal), materialize_grads=True
        )
        yield [gradient.flatten() for gradient in gradients]


def _sketches(weight, buckets, generator):
    """[None] where gradients are kept whole, else two functions (P,) → (buckets,)."""
    size = weight.numel()
    if size <= 2 * buckets:
        return [None]

    def drawn():
        bucket = torch.randint(buckets, (size,), generator=generator).to(weight.device)
        sign = (torch.randint(2, (size,), generator=generator) * 2 - 1).to(weight)
        # The same sums as index_add_, in the same order, in a third of the time.
        return lambda flat: flat.new_zeros(buckets).scatter_add_(0, bucket, flat * sign)

    return [drawn(), drawn()]


def _alignment(features, targets):
    """One for each of the targets (n·k, m), from one or two (n·k, ·) float64 matrices.

    The matrices' products with their transposes are the kernel.
    """
    features = [f / (f.abs().max() if f.any() else 1) for f in features]
    means = [f - f.mean(0) for f in features]
    whole = math.prod(float((f @ f.T).norm()) for f in (features[0], features[-1])) ** 0.5
    squares = float((means[0].T @ means[-1]).square().sum()) if len(features) == 1 else None
    if squares is None:
        squares = float(((means[0] @ means[0].T) * (means[1] @ means[1].T)).sum())
    if not squares > (1e-6 * whole) ** 2:
        return [math.nan] * targets.shape[1]
    numerators = sum((f.T @ targets).square().sum(0) for f in means) / len(means)
    return (numerators / (math.sqrt(squares) * targets.square().sum(0))).tolist()
