"""How alike the layers of networks are: centred kernel alignment on data of any kind."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.checks import integer
from alignbook.metrics.cka import LEAST, centred_gram, enough
from alignbook.metrics.evaluation import evaluation_mode

from .data import cast, leaves, mapped, taken
from .gathering import batches


def layer_cka(
    model: nn.Module, inputs, other: nn.Module | None = None, layers: Iterable[str] | None = None,
    batch_size: int = 256,
) -> pd.DataFrame:  # fmt: skip
    """Debiased CKA of every layer of a network with every layer of the same or of another one.

    Parameters
    ----------
    model : torch.nn.Module
        Measured in evaluation mode, without gradients, and left as it was.
    inputs : tensor or array (n, ...), tuple, dict, Dataset, DataLoader or iterable of batches
        As :func:`alignbook.probe` takes them, targets or none: of a tuple the last entry, which counts as the
        targets, is left out, and so are entries of a dict that the network does not take. A list of tensors
        that are alike is a list of batches. Arrays and datasets are cut into batches of at least
        ``batch_size`` examples. Both networks see the same ones.
    other : torch.nn.Module, optional
        The network for the columns; ``model`` itself if it is left out.
    layers : names or patterns, optional
        Of modules, as in ``["blocks.*.mlp"]``; by default all that own a weight of two or more dimensions.
    batch_size : int
        The least number of examples in a batch that is cut from arrays or a dataset.

    Returns
    -------
    pandas.DataFrame
        A row for each layer of ``model``, a column for each of ``other``, in the order of the modules, called
        as :func:`alignbook.probe` calls them: ``(network)`` is the module itself. ``.attrs["left_out"]`` says
        which layers have no number and why: those that tell no examples apart, are not called, or whose
        output's first axis is not the examples. ``.attrs["said"]`` is a list of lines on the data.

    Raises
    ------
    ValueError
        Where no layer is left, no batch has four examples or more, or features are not finite.
    TypeError
        For networks that are no nn.Module, and ``layers`` that are no texts.

    Notes
    -----
    As :func:`alignbook.cka` over batches; batches of fewer than four examples, as a last one may be, are left
    out. Of a module that is called more than once the last output counts.

    Cost, for each batch of n examples and L layers: a forward pass, O(n² d) operations for a layer with d
    outputs, and O(n² L²) for the table. Memory: all layers' outputs for a batch, and their Gram matrices,
    about 2 L n² float64 numbers.

    Examples
    --------
    >>> import torch, alignbook
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    >>> alignbook.layer_cka(net, torch.randn(100, 8)).round(2).loc["0", "0"]
    np.float64(1.0)
    """
    integer(batch_size, "batch_size", LEAST)
    networks = [model] if other is None else [model, other]
    patterns = None if layers is None else [layers] if isinstance(layers, str) else list(layers)
    watched = [_chosen(network, patterns) for network in networks]
    sums, faults, scales, short = 0.0, {}, {}, []
    for batch in batches(inputs, batch_size):
        if (count := len(leaves(batch)[0])) < LEAST:
            short.append(count)
            continue
        grams = []
        for place, (network, modules) in enumerate(zip(networks, watched, strict=True)):
            outputs, n = _outputs(network, modules, batch), count
            for name in modules:
                gram, why = _gram(outputs, n, name)
                if why:
                    faults.setdefault((place, name), why)
                scale = scales.setdefault((place, name), np.abs(gram).max() or 1.0)  # one for all batches
                grams.append(gram.ravel() / scale / (n * (n - 3)) ** 0.5)
        flat = np.stack(grams)
        sums = sums + flat @ flat.T
    if np.ndim(sums) == 0:
        enough(max(short, default=0))
    table = _table(sums, watched, faults)
    table.attrs["said"] = [
        f"batches of fewer than {LEAST} examples are left out: {sum(short)} examples"
    ] * bool(short)
    return table


def _chosen(network, patterns):
    """{name: module} of the layers that are looked at."""
    modules = {name or "(network)": module for name, module in network.named_modules()}
    if patterns is None:
        found = {
            name: module for name, module in modules.items()
            if any(w.ndim >= 2 for w in module.parameters(recurse=False))
        }  # fmt: skip
    else:
        found = {name: m for name, m in modules.items() if any(fnmatchcase(name, p) for p in patterns)}
    if not found:
        raise ValueError(f"the network has no such layers: {', '.join(patterns or ['with a weight'])}")
    return found


@torch.no_grad()
def _outputs(network, modules, batch):
    """{name: the output, or None for one that is no tensor} of the modules that are called on a batch."""
    seen, fast = {}, torch.backends.mha.get_fastpath_enabled()
    weights = [*network.parameters(), *network.buffers()]
    device = weights[0].device if weights else torch.device("cpu")
    kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]

    def keep(name):
        def hook(module, given, output):
            if isinstance(output, tuple | list):
                output = output[0]
            if not isinstance(output, torch.Tensor):
                seen[name] = None
                return
            if isinstance(module, nn.MultiheadAttention) and not module.batch_first and output.ndim == 3:
                output = output.transpose(0, 1)
            # A copy: an activation that works in place must not change what is kept.
            seen[name] = output.detach().clone()

        return hook

    # Attention uses the weights of its last projection without calling it: what it returns is the output.
    called = {id(m.out_proj): m for m in network.modules() if isinstance(m, nn.MultiheadAttention)}
    handles = [called.get(id(m), m).register_forward_hook(keep(name)) for name, m in modules.items()]
    batch = mapped(
        lambda v: v.to(device) if v.dtype in kinds else cast(v.to(device), (*kinds, None)[0]), batch
    )
    torch.backends.mha.set_fastpath_enabled(False)  # which calls no modules
    try:
        with evaluation_mode(network):
            if isinstance(batch, Mapping):
                network(**taken(network.forward, batch)[0])
            else:
                network(*(batch if isinstance(batch, tuple) else (batch,)))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for handle in handles:
            handle.remove()
    return seen


def _gram(outputs, n, name):
    """The U-centred Gram matrix (n, n) of a layer's output, and why it is zero, else None."""
    output = outputs.get(name)
    if output is None:
        why = "its output is no tensor" if name in outputs else "it is not called"
    elif output.ndim < 2 or len(output) != n:
        why = f"its output is {tuple(output.shape)}, not (examples, features)"
    elif (gram := centred_gram(output, name)) is not None:
        return gram, None
    else:
        why = "it tells no examples apart"
    return np.zeros((n, n)), why


def _table(sums, watched, faults):
    names = [(place, name) for place, modules in enumerate(watched) for name in modules]
    kept = [i for i, key in enumerate(names) if key not in faults and sums[i, i] > 0]
    rows = [i for i in kept if names[i][0] == 0]
    columns = [i for i in kept if names[i][0] == len(watched) - 1]
    if not rows or not columns:
        raise ValueError("no layer tells the examples apart")
    root = np.sqrt(np.diag(sums))
    values = sums[np.ix_(rows, columns)] / np.outer(root[rows], root[columns])
    table = pd.DataFrame(values, index=[names[i][1] for i in rows], columns=[names[i][1] for i in columns])
    whose = ("", "other: ")
    table.attrs["left_out"] = {whose[place] + name: why for (place, name), why in faults.items()}
    return table
