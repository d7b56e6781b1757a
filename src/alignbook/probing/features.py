"""What each layer reads, and how much of the labels lies along its top singular vectors."""

import fnmatch
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.seeding import torch_stream

from .errors import DoesNotApply

COORDINATES = 8192  # of a layer's features that are kept at most, drawn at random
TOP = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500)
OUTPUT = "(output)"  # what stands for a layer's name where the network's outputs are meant


def features(network, task, rows, seed, layers=None):
    """Along which singular vectors of each layer's inputs the labels lie (Imani et al. 2022, Section 3).

    A layer is a module with weights of its own, attention and its projections among them; its features are
    what it reads when it is first called, flattened, with a constant, rows of length one; of more than 8,192
    as many coordinates are drawn at random. Where there is a class for each position, one position of each
    example is drawn, and features are those of this position. ``(output)`` is what the network returns; where
    numbers are wanted it is taken less its mean, over its standard deviation, without a constant, and rows
    are not scaled: of a single number, rows of length one would say another thing in another unit.

    Returns one row per layer and rank k: ``share`` of ‖Ỹ‖² (labels as one-hot columns, less their means) on
    the top k singular vectors, ``chance`` (its mean over all orders of the labels), ``sigma`` the k-th
    singular value over the first; ``width``, ``coordinates``.
    """
    tables, (_, found) = [], spectra(network, task, rows, seed, layers)
    for depth, (name, ((share, chance, sigma), width, kept)) in enumerate(found.items()):
        ranks = [k for k in TOP if k < len(sigma)] + [len(sigma)]
        at = np.array(ranks) - 1
        columns = {"k": ranks, "share": share[at], "chance": chance[at], "sigma": sigma[at]}
        rows_of_layer = pd.DataFrame({"layer": name, "depth": depth, **columns})
        tables.append(rows_of_layer.assign(width=width, coordinates=kept))
    return pd.concat(tables, ignore_index=True)


def spectra(network, task, rows, seed, layers=None, coordinates=COORDINATES):
    """(how many columns of Ỹ vary, {layer: (its :func:`spectrum`, width, coordinates kept)}).

    Layers in order of their calls, features as :func:`features` takes them. Raises DoesNotApply for
    TorchScript, where all targets are equal, and where a layer reads what is not finite.
    """
    if network.script:
        raise DoesNotApply("TorchScript hides its layers")
    rows = task.labelled(rows)
    centred = labels(task.wanted(rows))
    varying = int(centred.any(0).sum())
    if not varying:
        raise DoesNotApply("all targets are equal")
    found = {}
    for name, (values, width) in layer_inputs(network, task, rows, seed, layers, coordinates).items():
        if not values.isfinite().all():
            raise DoesNotApply(f"what {name} reads is not finite")
        plain = name == OUTPUT and not task.classes
        along = spectrum(standardised(values) if plain else values, centred, plain)
        found[name] = along, width, values.shape[1]
    return varying, found


def labels(targets):
    """Ỹ (n, k) float64: one-hot classes that occur, or the numbers, less the mean of each column."""
    if targets.is_floating_point():
        columns = targets.double().reshape(len(targets), -1)
    else:
        columns = functional.one_hot(targets.unique(return_inverse=True)[1]).double()
    return (columns - columns.mean(0)).cpu()


def standardised(values):
    """Numbers (n, k) less their means, over the standard deviation of all of them."""
    values = values.double() - values.double().mean(0)
    return values / (values.square().mean().sqrt() or 1)


def spectrum(values, centred, plain=False):
    """(share of ‖Ỹ‖² on the top k singular vectors, its mean for shuffled labels, σ_k / σ_1), k = 1 … rank.

    values : features (n, d); each row, with a constant, is scaled to length one. plain : neither is done. By
    the Gram matrix, in float64: singular values below 10⁻⁷ of the largest count as absent. A random order of
    the labels leaves of each vector u what is no constant: 1 - (Σ_i u_i)² / n, over n - 1.
    """
    rows = values.double()
    if not plain:
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        rows = rows / rows.abs().amax(1, keepdim=True)
        rows = rows / rows.norm(dim=1, keepdim=True)
    squares, vectors = torch.linalg.eigh(rows @ rows.T)
    squares, vectors = squares.flip(0), vectors.flip(1)
    rank = int((squares > 1e-14 * squares[0] * len(squares)).sum())
    if not rank:  # plain ones, all zero: nothing lies along them
        return (np.zeros(1),) * 3
    along = (vectors[:, :rank].T @ centred).square().sum(1) / centred.square().sum()
    n = len(rows)
    chance = (1 - vectors[:, :rank].sum(0).square() / n) / (n - 1)
    return along.cumsum(0).numpy(), chance.cumsum(0).numpy(), (squares[:rank] / squares[0]).sqrt().numpy()


def layer_inputs(network, task, rows, seed, layers=None, coordinates=COORDINATES):
    """{layer: ((n, coordinates) float32 on the CPU, how many features there are)}, in order of the calls."""
    parts, chosen, order = {}, {}, []
    generator = torch_stream(seed, "probe", "coordinates")
    called = set()

    def keep(name, values):
        if not isinstance(values, torch.Tensor) or not values.is_floating_point() or name in called:
            return
        if values.ndim < 2 or len(values) != len(part):
            return
        called.add(name)
        flat = values.detach().flatten(1) if name == OUTPUT else task.there(values.detach(), part)
        if name not in chosen:
            order.append((name, flat.shape[1]))
            some = torch.randperm(flat.shape[1], generator=generator)[:coordinates].sort().values
            chosen[name] = some.to(flat.device) if flat.shape[1] > coordinates else slice(None)
        parts.setdefault(name, []).append(flat[:, chosen[name]].float().cpu())

    with torch.no_grad(), listening(network, keep, layers):
        for part in rows.split(network.batch):
            called.clear()
            outputs = task.signal(network(part), part)
            if selected(OUTPUT, layers):
                keep(OUTPUT, outputs)
    whole = {name: (torch.cat(parts[name]), width) for name, width in order}
    return {name: found for name, found in whole.items() if len(found[0]) == len(rows)}


@contextmanager
def listening(network, keep, layers=None):
    """Inside, ``keep(name, what it reads)`` is called for each layer that the network runs."""
    names = {m: name for m, name in network.names().items() if _reads(m) and selected(name, layers)}
    attention = [m for m in names if isinstance(m, nn.MultiheadAttention)]
    with ExitStack() as stack:
        for module, name in names.items():
            hook = module.register_forward_pre_hook(_entering(name, module, keep), with_kwargs=True)
            stack.callback(hook.remove)
        if attention:  # it uses the weights of its last projection without calling it
            stack.enter_context(_projections(attention, network.names(), keep, layers))
        yield


def _entering(name, module, keep):
    def hook(module, given, named):
        values = given[0] if given else next(iter(named.values()), None)
        if isinstance(module, nn.MultiheadAttention) and not module.batch_first and values.ndim == 3:
            values = values.transpose(0, 1)
        keep(name, values)

    return hook


@contextmanager
def _projections(attention, names, keep, layers):
    modules = {id(m.out_proj.weight): m for m in attention if selected(names[m.out_proj], layers)}
    plain, batch = functional.linear, []

    def entering(module, given, named):
        query = given[0] if given else named["query"]
        batch[:] = [query.shape[0 if module.batch_first else 1]] if query.ndim == 3 else []

    def linear(values, weight, bias=None):
        module = modules.get(id(weight))
        if module is not None and batch and values.ndim == 2:  # (positions · n, features)
            keep(names[module.out_proj], values.view(-1, batch[0], values.shape[1]).transpose(0, 1))
        return plain(values, weight, bias)

    hooks = [m.register_forward_pre_hook(entering, with_kwargs=True) for m in attention]
    try:
        with mock.patch.object(functional, "linear", linear):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _reads(module):
    """Whether the module has weights of its own; embeddings, which read numbers of words, do not read."""
    own = any(p.ndim >= 2 and "weight" in name for name, p in module.named_parameters(recurse=False))
    return own and not isinstance(module, nn.Embedding | nn.EmbeddingBag)


def selected(name, layers):
    """Whether a layer of this name is among ``layers``, names and patterns; None: all are."""
    return layers is None or any(name == wanted or fnmatch.fnmatchcase(name, wanted) for wanted in layers)
