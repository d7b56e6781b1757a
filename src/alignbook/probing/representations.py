"""What layers return, handed out; their ranks; and the tangent kernel as a matrix."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.checks import one_sentence, patterns, shown, tensor, whole
from alignbook.metrics.evaluation import evaluation_mode

from .axes import ALONE
from .data import batches
from .in_place import checked_network, left_alone
from .outputs import Reader
from .parameters import TRAINABLE


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
        The least number of examples in a batch that is cut from arrays or a dataset.

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
    TypeError
        For a network that is no nn.Module, and ``layers`` that are no texts.

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
    model = checked_network(model)
    with left_alone(model):
        arrays, _ = _activations(model, inputs, patterns(layers), batch_size)
    return {name: np.concatenate(parts) for name, parts in arrays.items()}


def _activations(model, inputs, layers, batch_size):
    """({layer: [(n, …) array of a batch]}, {layer: why it has none})."""
    whole(batch_size, "batch_size", 1)
    reader, parts = Reader(model, layers), {}
    for batch in batches(inputs, batch_size):
        for name, values in reader(batch).items():
            parts.setdefault(name, []).append(values.float().cpu().numpy())
    left = reader.left
    arrays = {name: parts[name] for name in reader.modules if name in parts and name not in left}
    if not arrays:
        raise ValueError("; ".join(f"{name}: {why}" for name, why in left.items()) or "there are no examples")
    if odd := [name for name, part in arrays.items() if len({values.shape[1:] for values in part}) > 1]:
        raise ValueError(f"the outputs of {odd[0]} differ in shape from batch to batch")
    return arrays, left


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
        A row for each layer: ``width`` (how many features there are), ``rankme`` (the exponential of the
        entropy of σ_k / Σσ, Garrido et al. 2023), ``participation`` ((Σσ²)² / Σσ⁴) and ``stable``
        (Σσ² / σ_1²), σ the singular values of the (n, features) matrix, for ``participation`` and ``stable``
        less the mean of each feature. ``.attrs["left_out"]`` says which layers have no numbers, and why.

    Raises
    ------
    ValueError
        As :func:`alignbook.activations`, and for features that are not finite.
    TypeError
        For a network that is no nn.Module, and ``layers`` that are no texts.

    Notes
    -----
    None is larger than the number of examples. Cost: a forward pass and an eigendecomposition of n rows for
    each layer.

    References
    ----------
    Garrido et al. 2023, https://arxiv.org/abs/2210.02885.

    Examples
    --------
    >>> import torch, alignbook
    >>> net = torch.nn.Linear(4, 4, bias=False)
    >>> with torch.no_grad():
    ...     _ = net.weight.copy_(torch.eye(4))
    >>> alignbook.layer_ranks(net, torch.cat([torch.eye(4), -torch.eye(4)])).round(3).iloc[0].tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    model = checked_network(model)
    with left_alone(model):
        arrays, left = _activations(model, inputs, patterns(layers), batch_size)
    rows = {}
    for name, parts in arrays.items():
        values = np.concatenate(parts).astype(np.float64).reshape(sum(map(len, parts)), -1)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has entries that are not finite")
        values /= np.abs(values).max() or 1.0
        plain, centred = (_squares(v) for v in (values, values - values.mean(0)))
        share = np.sqrt(plain / (plain[0] or 1.0))
        share = share[share > 0] / (share.sum() or 1.0)
        entropy = float(np.exp(-(share * np.log(share)).sum())) if len(share) else 0.0
        total, squared = centred.sum(), np.square(centred).sum()
        spread = (total**2 / squared, total / centred[0]) if squared else (0.0, 0.0)
        rows[name] = (values.shape[1], entropy, *spread)
    table = pd.DataFrame.from_dict(rows, "index", columns=["width", "rankme", "participation", "stable"])
    table.attrs["left_out"] = left
    return table


KEPT = 0.99  # of the variance, for canonical correlations


def similarities(networks, inputs, layers, batch_size, measure):
    """The table of :func:`alignbook.layer_cka` by Procrustes or canonical correlations."""
    data = list(batches(inputs, batch_size))
    sides, left = [], {}
    for network, whose in zip(networks, ("", "other: "), strict=False):
        arrays, why = _activations(network, data, layers, batch_size)
        left |= {whose + name: reason for name, reason in why.items()}
        turned = {name: _turned(np.concatenate(parts)) for name, parts in arrays.items()}
        left |= {f"{whose}{name}": f"it {ALONE}" for name, side in turned.items() if side is None}
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


def _squares(values):
    """σ² of a matrix, descending; rounding is 0."""
    gram = values @ values.T if len(values) <= values.shape[1] else values.T @ values
    squares = np.linalg.eigvalsh(gram)[::-1]
    return np.where(squares > 1e-14 * len(squares) * max(squares[0], 0.0), squares, 0.0)


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
    TypeError
        For a model that is no nn.Module, or inputs that are no tensors.

    Notes
    -----
    Gradients are taken one output of one example at a time, in the model's precision, and multiplied in it.
    Cost: (n + m) k backward passes and n m k² products of as many entries as there are parameters. Memory:
    (n + m) k gradients.

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
    model = checked_network(model)
    with left_alone(model, parameters=parameters, steady=inputs), evaluation_mode(model):
        weights = [p for p in model.parameters() if p.requires_grad]
        if not weights:
            raise ValueError("no parameter of the model requires gradients")
        rows = _jacobian(model, weights, inputs, outputs)
        others = rows if columns is None else _jacobian(model, weights, columns, outputs)
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
        for a, value in enumerate(each):
            last = a + 1 == len(each)
            gradients = torch.autograd.grad(value, weights, retain_graph=not last, materialize_grads=True)
            rows.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(rows).view(len(inputs), -1, rows[0].numel())
