"""What layers return, handed out; their ranks; how alike they are; and the tangent kernel as a matrix."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.checks import one_of, one_sentence, patterns, shown, tensor, whole
from alignbook.metrics.cka import LEAST, centred_gram, enough

from .copies import measured, require_steady
from .data import Data, inputs_of, leaves
from .layers import ALONE, Layers
from .network import Network
from .parameters import TRAINABLE, matches
from .tangents import gradients_of

MEASURES = ("cka", "procrustes", "cca")
KEPT = 0.99  # of the variance, for canonical correlations


def _reader(model, inputs, chosen):
    """:class:`.layers.Layers` that returns what layers of a copy return, by the numbers of examples.

    chosen : names of modules or patterns; None: all that own a weight of two or more dimensions.
    """
    network = Network(model, Data(inputs, torch.zeros(len(leaves(inputs)[0]))))
    network.key = None  # there are no targets
    modules = network.names()
    if chosen is None:
        modules = {m: name for m, name in modules.items() if _has_weight(m)}
    else:
        modules = {m: name for m, name in modules.items() if matches(name, chosen)}
    if not modules:
        raise ValueError(f"the network has no such layers: {', '.join(chosen or ['with a weight'])}")
    return Layers(network, modules, torch.arange(len(network.data)), returned=True)


def _has_weight(module):
    return any(w.ndim >= 2 for w in module.parameters(recurse=False))


def _batches(reader, size):
    """The numbers of the examples in batches of so many at least."""
    n = len(reader.network.data)
    return torch.arange(n).tensor_split(max(1, n // size))


@partial(one_sentence, finite=False)
def activations(
    model: nn.Module, inputs: Any, layers: Iterable[str] | None = None, batch_size: int = 256
) -> dict[str, np.ndarray]:
    """What the layers of a network return for each example.

    Parameters
    ----------
    model : torch.nn.Module
        Measured in evaluation mode, without gradients, and left as it was.
    inputs : tensor or array (n, ...), tuple, dict, Dataset, DataLoader or iterable of batches
        As :func:`alignbook.layer_cka` takes them.
    layers : names or patterns, optional
        Of modules, as in ``["blocks.*.mlp"]``; by default all that own a weight of two or more dimensions.
    batch_size : int
        The least number of examples in a batch.

    Returns
    -------
    dict of str to (n, ...) float array
        By layer, in the order of the modules, the examples first whichever axis the layer has them on, and
        zeros where a mask hides the position. A layer that is not called, or none of whose axes follows the
        order of the examples, is left out.

    Raises
    ------
    ValueError
        Where no layer is left, or the outputs of a layer differ in shape from batch to batch.

    Notes
    -----
    Of a module that is called more than once the last output counts. Cost: a forward pass. Memory: all that
    the layers return.

    Examples
    --------
    >>> import torch, alignbook
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    >>> {name: values.shape for name, values in alignbook.activations(net, torch.randn(20, 8), "*").items()}
    {'(network)': (20, 3), '0': (20, 16), '1': (20, 16), '2': (20, 3)}
    """
    with measured(model) as network:
        return _activations(network, inputs_of(inputs), patterns(layers), batch_size)[0]


def _activations(model, inputs, chosen, batch_size):
    """({layer: (n, …) array}, {layer: why it has none})."""
    reader = _reader(model, inputs, chosen)
    parts = reader.over(_batches(reader, batch_size), lambda name, values, _: values.float().cpu().numpy())
    if not parts:
        raise ValueError("; ".join(f"{name}: {why}" for name, why in reader.left.items()))
    if odd := [name for name, part in parts.items() if len({values.shape[1:] for values in part}) > 1]:
        raise ValueError(f"the outputs of {odd[0]} differ in shape from batch to batch")
    in_order = [name for name in reader.modules.values() if name in parts]
    return {name: np.concatenate(parts[name]) for name in in_order}, reader.left


@one_sentence
def layer_ranks(
    model: nn.Module, inputs: Any, layers: Iterable[str] | None = None, batch_size: int = 256
) -> pd.DataFrame:
    """How many directions the outputs of each layer spread over.

    Parameters
    ----------
    model : torch.nn.Module
        As for :func:`alignbook.activations`, as are ``inputs``, ``layers`` and ``batch_size``.
    inputs : tensor or array (n, ...), tuple, dict, Dataset, DataLoader or iterable of batches
    layers : names or patterns, optional
    batch_size : int

    Returns
    -------
    pandas.DataFrame
        A row for each layer: ``width`` (how many features), ``rankme`` (the exponential of the entropy of
        σ_k / Σσ, https://arxiv.org/abs/2210.02885), ``participation`` ((Σσ²)² / Σσ⁴) and ``stable``
        (Σσ² / σ_1²), σ the singular values of the (n, features) matrix, for the last two less the mean of
        each feature. ``.attrs["left_out"]`` says which layers have no numbers, and why.

    Raises
    ------
    ValueError
        As :func:`alignbook.activations`, and for features that are not finite.

    Notes
    -----
    Cost: a forward pass and an eigendecomposition of n rows for each layer.

    Examples
    --------
    >>> import torch, alignbook
    >>> net = torch.nn.Linear(4, 4, bias=False)
    >>> with torch.no_grad():
    ...     _ = net.weight.copy_(torch.eye(4))
    >>> alignbook.layer_ranks(net, torch.cat([torch.eye(4), -torch.eye(4)])).round(3).iloc[0].tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    with measured(model) as network:
        arrays, left = _activations(network, inputs_of(inputs), patterns(layers), batch_size)
    rows = {}
    for name, values in arrays.items():
        values = values.astype(np.float64).reshape(len(values), -1)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has entries that are not finite")
        values /= np.abs(values).max() or 1.0
        plain, centred = (np.linalg.svd(v, compute_uv=False) for v in (values, values - values.mean(0)))
        centred = np.square(centred)
        share = plain[plain > 0] / (plain.sum() or 1.0)
        entropy = float(np.exp(-(share * np.log(share)).sum())) if len(share) else 0.0
        total, squared = centred.sum(), np.square(centred).sum()
        spread = (total**2 / squared, total / centred[0]) if squared else (0.0, 0.0)
        rows[name] = (values.shape[1], entropy, *spread)
    table = pd.DataFrame.from_dict(rows, "index", columns=["width", "rankme", "participation", "stable"])
    table.attrs["left_out"] = left
    return table


@one_sentence
def layer_cka(
    model: nn.Module, inputs: Any, other: nn.Module | None = None, layers: Iterable[str] | None = None,
    batch_size: int = 256, measure: Literal["cka", "procrustes", "cca"] = "cka",
) -> pd.DataFrame:  # fmt: skip
    """How alike every layer of a network is to every layer of the same or of another one: debiased CKA.

    Parameters
    ----------
    model : torch.nn.Module
        Measured in evaluation mode, without gradients, and left as it was.
    inputs : tensor or array (n, ...), tuple, dict, Dataset, DataLoader or iterable of batches
        As :func:`alignbook.probe` takes them, targets or none: of a tuple the last entry, which counts as the
        targets, is left out, and so are entries of a dict that the network does not take.
    other : torch.nn.Module, optional
        The network for the columns; ``model`` itself if it is left out.
    layers : names or patterns, optional
        Of modules, as in ``["blocks.*.mlp"]``; by default all that own a weight of two or more dimensions.
    batch_size : int
        The least number of examples in a batch.
    measure : {"cka", "procrustes", "cca"}
        ``procrustes`` is ‖XᵀY‖_* / (‖X‖ ‖Y‖), 1 less half the squared distance after the best rotation
        (Williams et al. 2021); ``cca`` the mean canonical correlation of the directions that hold 99 % of
        the variance (Raghu et al. 2017), which needs many more examples than such directions. Both are of
        features less their means, of all examples at once. Where a mask hides positions of sequences, they
        count in none of the three.

    Returns
    -------
    pandas.DataFrame
        A row for each layer of ``model``, a column for each of ``other``, in the order of the modules;
        ``(network)`` is the module itself. ``.attrs["left_out"]`` says which layers have no number and why,
        ``.attrs["said"]`` is a list of lines on the data.

    Raises
    ------
    ValueError
        Where no layer is left, there are fewer than four examples, or features are not finite.

    Notes
    -----
    As :func:`alignbook.cka` over batches. Cost, for each batch of n examples and L layers: a forward pass,
    O(n² d) operations for a layer with d outputs, and O(n² L²) for the table. Memory: all layers' outputs for
    a batch, and their Gram matrices, about 2 L n² float64 numbers.

    Examples
    --------
    >>> import torch, alignbook
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    >>> alignbook.layer_cka(net, torch.randn(100, 8)).round(2).loc["0", "0"]
    np.float64(1.0)
    """
    whole(batch_size, "batch_size", LEAST)
    one_of(measure, "measure", MEASURES)
    chosen, every = patterns(layers), [model] if other is None else [model, other]
    with ExitStack() as stack:
        networks = [stack.enter_context(measured(network)) for network in every]
        if measure == "cka":
            return _by_batches(networks, inputs_of(inputs), chosen, batch_size)
        return _similarities(networks, inputs_of(inputs), chosen, batch_size, measure)


def _by_batches(networks, inputs, chosen, batch_size):
    """The table of debiased CKA."""
    enough(len(leaves(inputs)[0]))
    readers, sums, scales = [_reader(network, inputs, chosen) for network in networks], 0.0, {}
    for rows in _batches(readers[0], batch_size):
        count, grams = len(rows), []
        for place, reader in enumerate(readers):
            outputs = reader(rows)
            for name in reader.modules.values():
                gram = centred_gram(outputs[name], name) if name in outputs else None
                if gram is None:
                    reader.left.setdefault(name, f"its output {ALONE}")
                    gram = np.zeros((count, count))
                scale = scales.setdefault((place, name), np.abs(gram).max() or 1.0)  # one for all batches
                grams.append(gram.ravel() / scale / (count * (count - 3)) ** 0.5)
        flat = np.stack(grams)
        sums = sums + flat @ flat.T
    return _table(sums, readers)


def _table(sums, readers):
    names = [(place, name) for place, reader in enumerate(readers) for name in reader.modules.values()]
    known = [i for i, (place, name) in enumerate(names) if name not in readers[place].left and sums[i, i] > 0]
    rows = [i for i in known if names[i][0] == 0]
    columns = [i for i in known if names[i][0] == len(readers) - 1]
    if not rows or not columns:
        raise ValueError("no layer tells the examples apart")
    root = np.sqrt(np.diag(sums))
    values = sums[np.ix_(rows, columns)] / np.outer(root[rows], root[columns])
    table = pd.DataFrame(values, index=[names[i][1] for i in rows], columns=[names[i][1] for i in columns])
    whose = ("", "other: ")
    table.attrs["left_out"] = {
        whose[i] + name: why for i, reader in enumerate(readers) for name, why in reader.left.items()
    }
    return table


def _similarities(networks, inputs, layers, batch_size, measure):
    """The table by Procrustes or canonical correlations."""
    sides, left = [], {}
    for network, whose in zip(networks, ("", "other: "), strict=False):
        arrays, why = _activations(network, inputs, layers, batch_size)
        left |= {whose + name: reason for name, reason in why.items()}
        turned = {name: _turned(values) for name, values in arrays.items()}
        left |= {f"{whose}{name}": f"its output {ALONE}" for name, side in turned.items() if side is None}
        sides.append({name: side for name, side in turned.items() if side is not None})
    if not all(sides):
        raise ValueError("no layer tells the examples apart")
    table = pd.DataFrame(
        [[_similar(x, y, measure) for y in sides[-1].values()] for x in sides[0].values()],
        index=list(sides[0]), columns=list(sides[-1]),
    )  # fmt: skip
    directions = [sum(_kept(s)) for side in sides for _, s in side.values()]
    n = len(next(iter(sides[0].values()))[0])
    few = measure == "cca" and 2 * max(directions) >= n
    line = f"{max(directions)} directions and {n} examples: correlations are near 1 for want of examples"
    table.attrs |= {"left_out": left, "said": [line] if few else []}
    return table


def _turned(values):
    """(left singular vectors (n, r), singular values) of features less their means; None: all are equal."""
    values = values.astype(np.float64).reshape(len(values), -1)
    if not np.isfinite(values).all():
        raise ValueError("features have entries that are not finite")
    scale = np.abs(values).max() or 1.0
    vectors, lengths, _ = np.linalg.svd((values - values.mean(0)) / scale, full_matrices=False)
    positive = lengths > 1e-6 * max(1.0, lengths[0]) if len(lengths) else []
    return (vectors[:, positive], lengths[positive]) if np.any(positive) else None


def _similar(x, y, measure):
    (u, s), (v, t) = x, y
    if measure == "cca":
        u, v = u[:, _kept(s)], v[:, _kept(t)]
        return float(np.linalg.svd(u.T @ v, compute_uv=False).mean())
    nuclear = np.linalg.svd((u * s).T @ (v * t), compute_uv=False).sum()
    return float(nuclear / np.linalg.norm(s) / np.linalg.norm(t))


def _kept(lengths):
    """Which of the directions hold ``KEPT`` of the variance."""
    before = np.cumsum(lengths**2) - lengths**2
    return before < KEPT * np.square(lengths).sum()


@one_sentence
def tangent_kernel(
    model: nn.Module, inputs: torch.Tensor, columns: torch.Tensor | None = None,
    outputs: Sequence[int] | None = None, *, parameters: str | Sequence[str] = TRAINABLE,
) -> np.ndarray:  # fmt: skip
    """The tangent kernel of a network: inner products of its outputs' gradients by the parameters.

    Parameters
    ----------
    model : torch.nn.Module
        Returns (n, k); measured in evaluation mode and left as it was.
    inputs : (n, …) tensor
        On the model's device.
    columns : (m, …) tensor, optional
        The examples of the columns; ``inputs`` themselves if it is left out.
    outputs : list of int, optional
        Which of the outputs; all by default.
    parameters : str or list of str
        Which of the model's parameters are meant: ``"trainable"``, those that require gradients; ``"all"``;
        or names and patterns of parameters or of the modules that hold them, as in ``["blocks.0.*"]``.

    Returns
    -------
    (n, k, m, k) float64 array
        ``[i, a, j, b]`` is ∇f_a(x_i) · ∇f_b(x_j).

    Raises
    ------
    ValueError
        For a network that does not return (n, k), mixes examples, or has no parameters that count.

    Notes
    -----
    Cost: (n + m) k backward passes, in the model's precision, and n m k² products of as many entries as there
    are parameters. Memory: (n + m) k gradients.

    Examples
    --------
    >>> import torch, alignbook
    >>> net = torch.nn.Linear(2, 1, bias=False)  # its gradient is the example itself
    >>> alignbook.tangent_kernel(net, torch.tensor([[1.0, 0.0], [1.0, 2.0]]))[:, 0, :, 0]
    array([[1., 1.],
           [1., 5.]])
    """
    for name, values in (("inputs", inputs), ("columns", inputs if columns is None else columns)):
        tensor(values, name)
    if outputs is not None and not (len(outputs) and all(type(output) is int for output in outputs)):
        raise ValueError(f"outputs must be a list of integers, not {shown(outputs)}")
    with measured(model, parameters) as network:
        require_steady(network, inputs)
        weights = [p for p in network.parameters() if p.requires_grad]
        if not weights:
            raise ValueError("no parameter of the model requires gradients")
        rows = _jacobian(network, weights, inputs, outputs)
        others = rows if columns is None else _jacobian(network, weights, columns, outputs)
    (n, k), m = rows.shape[:2], len(others)
    return (rows.flatten(0, 1) @ others.flatten(0, 1).T).double().cpu().numpy().reshape(n, k, m, k)


@torch.enable_grad()
def _jacobian(model, weights, inputs, outputs):
    """(n, k, parameters) the gradients of each example's outputs."""
    whole = model(inputs[:2].clone()) if len(inputs) > 1 else None
    rows = []
    for i, x in enumerate(inputs.split(1)):
        signal = model(x.clone())
        if not isinstance(signal, torch.Tensor) or signal.ndim != 2:
            raise ValueError("the model must return one tensor (n, k)")
        if not i and whole is not None and not torch.allclose(signal, whole[:1], rtol=1e-3, atol=1e-5):
            raise ValueError("the model mixes examples, or is random: outputs depend on the batch")
        each = signal[0] if outputs is None else signal[0, list(outputs)]
        rows += map(torch.cat, gradients_of(each, weights))
    return torch.stack(rows).view(len(inputs), -1, rows[0].numel())
