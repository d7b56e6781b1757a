"""How alike the layers of networks are: centred kernel alignment on data of any kind."""

import functools
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.checks import one_of, one_sentence, patterns, whole
from alignbook.metrics.cka import LEAST, centred_gram, enough
from alignbook.metrics.evaluation import evaluation_mode

from . import masks
from .axes import ALONE, axes, returning, values_of
from .data import cast, leaves, mapped, taken
from .gathering import batches
from .in_place import checked_network, left_alone
from .measurable import measurable
from .network import device_of

MEASURES = ("cka", "procrustes", "cca")


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
        targets, is left out, and so are entries of a dict that the network does not take. A list of tensors
        that are alike is a list of batches. Arrays and datasets are cut into batches of at least
        ``batch_size`` examples. Both networks see the same ones.
    other : torch.nn.Module, optional
        The network for the columns; ``model`` itself if it is left out.
    layers : names or patterns, optional
        Of modules, as in ``["blocks.*.mlp"]``; by default all that own a weight of two or more dimensions.
    batch_size : int
        The least number of examples in a batch that is cut from arrays or a dataset.
    measure : {"cka", "procrustes", "cca"}
        ``procrustes`` is ‖XᵀY‖_* / (‖X‖ ‖Y‖), 1 less half the squared distance after the best rotation
        (Williams et al. 2021); ``cca`` the mean canonical correlation of the directions that hold 99 % of
        the variance (Raghu et al. 2017), which needs many more examples than such directions. Both are of
        features less their means, of all examples at once. Where a mask hides positions of sequences, they
        count in none of the three.

    Returns
    -------
    pandas.DataFrame
        A row for each layer of ``model``, a column for each of ``other``, in the order of the modules, called
        as :func:`alignbook.probe` calls them: ``(network)`` is the module itself. ``.attrs["left_out"]`` says
        which layers have no number and why: those that tell no examples apart, are not called, or whose
        output has no axis that follows the order of the examples. ``.attrs["said"]`` is a list of lines on
        the data.

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

    Cost, of CKA for each batch of n examples and L layers: a forward pass, O(n² d) operations for a layer
    with d outputs, and O(n² L²) for the table. Memory: all layers' outputs for a batch, and their Gram
    matrices, about 2 L n² float64 numbers.

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
    networks = [checked_network(network) for network in ([model] if other is None else [model, other])]
    chosen = patterns(layers)
    with left_alone(*networks):
        if measure == "cka":
            return _by_batches(networks, inputs, chosen, batch_size)
        from .representations import similarities

        return similarities(networks, inputs, chosen, batch_size, measure)


def _by_batches(networks, inputs, patterns, batch_size):
    """The table of debiased CKA."""
    watched = [_chosen(network, patterns) for network in networks]
    sums, faults, scales, short = 0.0, {}, {}, []
    found, places = [None, None], [{}, {}]  # each network's axes of examples and of positions
    for batch in batches(inputs, batch_size):
        if (count := len(leaves(batch)[0])) < LEAST:
            short.append(count)
            continue
        grams = []
        for place, (network, modules) in enumerate(zip(networks, watched, strict=True)):
            mask = masks.mask_of(batch, network.forward)
            if found[place] is None or (mask is not None and not places[place]):
                few = functools.partial(_some, network, modules, batch)
                found[place], left, places[place] = axes(few, count, mask)
                faults |= {(place, name): _of_output(why) for name, why in left.items()}
            outputs = _outputs(network, modules, batch)
            for name in modules:
                gram = None
                if name in outputs and (place, name) not in faults:
                    values = found[place][name].first(outputs[name], count)
                    if values is not None and mask is not None:
                        values = masks.hidden(values, mask, places[place].get(name, ()))
                    gram = None if values is None else centred_gram(values, name)
                    if gram is None:
                        faults[place, name] = f"it {ALONE}"
                gram = np.zeros((count, count)) if gram is None else gram
                scale = scales.setdefault((place, name), np.abs(gram).max() or 1.0)  # one for all batches
                grams.append(gram.ravel() / scale / (count * (count - 3)) ** 0.5)
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


def _some(network, modules, batch, rows, shorter=False):
    """{name: its output, or why there is none} for these examples of a batch; without the last position."""
    few = mapped(lambda values: values[rows.to(values.device)], batch)
    if shorter:
        few = masks.cut(few, masks.mask_of(batch, network.forward).shape[1])
    outputs = _outputs(network, modules, few)
    return {name: outputs.get(name, "it is not called") for name in modules}


@torch.no_grad()
def _outputs(network, modules, batch):
    """{name: the output, or why there is none} of the modules that are called on a batch."""
    seen, device = {}, device_of(network)
    kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]

    def keep(name, output):
        output = values_of(output)
        # A copy: an activation that works in place must not change what is kept.
        seen[name] = output if isinstance(output, str) else output.clone()

    def placed(values):
        values = values.to(device)
        return values.clone() if values.dtype in kinds else cast(values, (*kinds, None)[0]).clone()

    batch = mapped(placed, batch)
    with measurable(network), evaluation_mode(network), returning(network, modules, keep):
        if isinstance(batch, Mapping):
            network(**taken(network.forward, batch)[0])
        else:
            network(*(batch if isinstance(batch, tuple) else (batch,)))
    return seen


def _of_output(why):
    return why if why.startswith("it ") else f"it {why}" if why == ALONE else f"its output {why}"


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
