"""How alike the layers of networks are: centred kernel alignment on data of any kind."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from torch import nn

from alignbook.metrics.checks import one_of, one_sentence, patterns, whole
from alignbook.metrics.cka import LEAST, centred_gram, enough

from .axes import ALONE
from .data import batches, leaves
from .in_place import checked_network, left_alone
from .outputs import Reader, left_out

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
    readers = [Reader(network, patterns) for network in networks]
    sums, scales, short = 0.0, {}, []
    for batch in batches(inputs, batch_size):
        if (count := len(leaves(batch)[0])) < LEAST:
            short.append(count)
            continue
        grams = []
        for place, reader in enumerate(readers):
            outputs = reader(batch)
            for name in reader.modules:
                gram = centred_gram(outputs[name], name) if name in outputs else None
                if gram is None:
                    reader.left.setdefault(name, f"it {ALONE}")
                    gram = np.zeros((count, count))
                scale = scales.setdefault((place, name), np.abs(gram).max() or 1.0)  # one for all batches
                grams.append(gram.ravel() / scale / (count * (count - 3)) ** 0.5)
        flat = np.stack(grams)
        sums = sums + flat @ flat.T
    if np.ndim(sums) == 0:
        enough(max(short, default=0))
    table = _table(sums, readers)
    line = f"batches of fewer than {LEAST} examples are left out: {sum(short)} examples"
    table.attrs["said"] = [line] if short else []
    return table


def _table(sums, readers):
    names = [(place, name) for place, reader in enumerate(readers) for name in reader.modules]
    known = [i for i, (place, name) in enumerate(names) if name not in readers[place].left and sums[i, i] > 0]
    rows = [i for i in known if names[i][0] == 0]
    columns = [i for i in known if names[i][0] == len(readers) - 1]
    if not rows or not columns:
        raise ValueError("no layer tells the examples apart")
    root = np.sqrt(np.diag(sums))
    values = sums[np.ix_(rows, columns)] / np.outer(root[rows], root[columns])
    table = pd.DataFrame(values, index=[names[i][1] for i in rows], columns=[names[i][1] for i in columns])
    table.attrs["left_out"] = left_out(readers)
    return table
