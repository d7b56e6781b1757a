"""What a reader hands in as data: arrays, dicts, tuples, datasets or batches, as one tree of tensors.

Of data with a length examples are read that lie evenly from first to last, the same ones every time.
"""

import hashlib
import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import data as loading
from torch.utils._pytree import tree_leaves as leaves, tree_map, tree_structure

from .budget import positions

MOST = 1000  # examples that are read, unless more are asked for
LEAST = 10
IGNORED = -100  # the class that PyTorch's losses leave out
KEYS = ("labels", "label", "targets", "target", "y")  # of a dict's targets
MASK = "attention_mask"  # dicts with one may be padded
TOKENS = ("input_ids", MASK)  # of one example a row, of a batch a matrix


@dataclass(frozen=True)
class Data:
    """Examples.

    Attributes
    ----------
    inputs : tensor (n, …), or a tuple or dict of such
    targets : tensor (n, …)
    key : str, optional
        The name that the targets had in a dict.
    said : tuple of str
        What a reader should know, a line each.
    """

    inputs: object
    targets: torch.Tensor
    key: str | None = None
    said: tuple[str, ...] = ()

    def __len__(self):
        return len(self.targets)

    def rows(self, rows):
        """The inputs of these examples, always a copy."""
        return tree_map(lambda values: values[rows.to(values.device)], self.inputs)

    def each(self, function):
        """The same with ``function`` of every tensor in its place."""
        return replace(self, inputs=tree_map(function, self.inputs), targets=function(self.targets))

    @property
    def digest(self):
        """Twelve hex digits that tell whether two probes saw the same examples."""
        sha = hashlib.sha256()
        for values in [*leaves(self.inputs), self.targets]:
            sha.update(f"{values.dtype}{tuple(values.shape)}".encode())
            sha.update(np.ascontiguousarray(values.cpu().numpy()).tobytes())
        return sha.hexdigest()[:12]

    @property
    def shape(self):
        """What one example is, in words."""
        return ", ".join(" × ".join(map(str, v.shape[1:])) or "1" for v in leaves(self.inputs))


def gathered(
    data: Any,
    targets: Any = None,
    examples: int | None = None,
    least: int = LEAST,
    floats: torch.dtype | None = torch.float32,
) -> tuple[Data, int | None]:
    """(:class:`Data` of whatever a reader has, of how many examples; None where this is not known).

    Parameters
    ----------
    data : tensor, array, tuple, dict, Dataset, DataLoader, list of examples, or iterable of batches
        Inputs, with ``targets``; (inputs, targets), (input, another, …, targets) or ((input, another),
        targets); a dict, its targets under one of ``KEYS``; or batches or examples of such. Rows of examples
        that are shorter are filled up where they have an ``attention_mask``.
    examples : int, optional
        How many are read; None: 1,000 at most.
    least : int
        Fewer are refused.
    floats : torch.dtype, optional
        The type of all floats; None: as they are.

    Raises
    ------
    ValueError
        One line, for what cannot be understood.
    """
    most, dropped = MOST if examples is None else examples, {}
    if targets is None:
        batches, total, whole = _batches_of(data, most)
    elif _is_array(data) or isinstance(data, Mapping | tuple):
        batches, total, whole = [(data, targets)], None, True
    else:
        kind = type(data).__name__
        raise ValueError(
            f"with targets, data must be a tensor, array or dict, not {kind}: batches hold their own"
        )
    inputs, wanted, key = _joined(batches, math.inf if whole else most, dropped)
    if not isinstance(inputs, torch.Tensor) and not inputs:
        raise ValueError("the data hold targets, but no inputs")
    counts = {len(values) for values in leaves(inputs)}
    if counts != {len(wanted)} or len(wanted) < min(least, most):
        many = " or ".join(map(str, sorted(counts)))
        raise ValueError(
            f"{many} inputs and {len(wanted)} targets: at least {min(least, most)}, as many of each"
        )
    if whole or (total is None and len(wanted) < most):
        total = len(wanted)
    rows = positions(len(wanted), most) if whole else slice(most)
    read = Data(inputs, wanted, key).each(lambda values: values[rows])
    if floats is not None:
        read = read.each(lambda values: values.to(floats) if values.is_floating_point() else values)
    if not all(v.isfinite().all() for v in leaves(read.inputs) if v.is_floating_point()):
        raise ValueError("inputs have entries that are not finite")
    lines = [f"entries of text are left out: {', '.join(map(str, dropped))}"] if dropped else []
    if total is None:
        lines.append(f"the first {len(read):,} examples are read: the data do not say how many there are")
    elif total != len(read):
        lines.append(f"{len(read):,} of {total:,} examples are read, evenly from first to last")
    return replace(read, targets=_targets(read.targets), said=tuple(lines)), total


def inputs_of(data: Any) -> Any:
    """All inputs alone, as a tensor, a tuple or a dict of tensors.

    data : as :func:`gathered` has them, with or without targets; of a tuple the last part is the targets, and
        a list of tensors that are alike is a list of batches.
    """
    if isinstance(data, list) and data and isinstance(data[0], list | Number):
        data = np.asarray(data)
    tensors = isinstance(data, list) and data and all(isinstance(part, torch.Tensor) for part in data)
    if tensors and data[0].ndim > 1 and len({(part.dtype, part.shape[1:]) for part in data}) == 1:
        data = torch.cat(data)
    parts = [_parts(batch, {}, labelled=False) for batch in _batches_of(data, 2**31)[0]]
    if not parts or not leaves(parts[0][0]):
        raise ValueError("the data hold no inputs")
    return _stack(parts)[0]


def _batches_of(data, most):
    """(batches, how many examples there are or None, whether all are to be read).

    Of what has a length at most ``most`` examples are in them, evenly from first to last.
    """
    if isinstance(data, str | bytes) or not (_is_array(data) or isinstance(data, Iterable | loading.Dataset)):
        raise ValueError(
            f"data must be tensors, arrays, a dict or batches of them, not {type(data).__name__}"
        )
    if _is_batch(data):
        return [data], None, True
    if isinstance(data, loading.DataLoader):
        if not _reads_all(data):
            return data, None, False
        chosen = loading.Subset(data.dataset, positions(len(data.dataset), most))
        loader = loading.DataLoader(chosen, batch_size=data.batch_size, collate_fn=data.collate_fn)
        return loader, len(data.dataset), False
    sized = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if sized and len(data) and (isinstance(data, loading.Dataset) or _is_example(data[0])):
        return (_one(data[i]) for i in positions(len(data), most)), len(data), False
    if isinstance(data, list | tuple):
        return data, None, True
    single = isinstance(data, loading.IterableDataset)
    return (_one(v) if single or _is_example(v) else v for v in data), None, False


def _reads_all(loader):
    """Whether a DataLoader goes through a dataset with a length, in its order or in a random one."""
    kinds = loading.SequentialSampler, loading.RandomSampler
    usual = type(loader.batch_sampler) is loading.BatchSampler and isinstance(loader.sampler, kinds)
    return usual and hasattr(loader.dataset, "__len__") and len(loader.sampler) == len(loader.dataset)


def _is_example(item):
    """Whether an item is one example and no batch: it has a number for its class, or one row of tokens."""
    if isinstance(item, Mapping):
        if any(_axes(v) == 0 for v in item.values() if v is not None):
            return True
        return any(_axes(item[name]) == 1 for name in TOKENS if name in item)
    return isinstance(item, tuple | list) and len(item) > 1 and _axes(item[-1]) == 0


def _axes(value):
    """How many axes an array or a nested list of numbers has; None for what is neither."""
    try:
        return np.ndim(value) if _is_array(value) or isinstance(value, Number | list) else None
    except ValueError:  # rows of different lengths
        return None


def _one(item):
    """A batch of this example alone."""
    if isinstance(item, Mapping):
        return {name: _one(v) for name, v in item.items() if v is not None}
    if isinstance(item, tuple) or (isinstance(item, list) and item and isinstance(item[0], torch.Tensor)):
        return tuple(map(_one, item))
    return item[None] if isinstance(item, torch.Tensor) else np.asarray(item)[None]


def _is_array(value):
    return hasattr(value, "__array__") and hasattr(value, "shape")


def _is_batch(data):
    if _is_array(data) or isinstance(data, Mapping):
        return True
    if not isinstance(data, tuple | list) or not data:
        return False
    first, *others = data
    whole = len(others) == 1 and (isinstance(first, Mapping) or _several(first))
    return all(_is_array(v) and np.ndim(v) for v in (others if whole else data))


def _several(inputs):
    """Whether these are several inputs, as in ((input, another), targets)."""
    return isinstance(inputs, tuple | list) and all(map(_is_array, inputs))


def _parts(batch, dropped, labelled=True):
    """(inputs, targets, the targets' key) of one batch; ``dropped`` gets the names of entries of text.

    labelled : False where the data need no targets: a dict's entries are all inputs.
    """
    targets = key = None
    if isinstance(batch, tuple | list):
        if not batch:
            raise ValueError("a batch holds nothing")
        if len(batch) > 1:
            *batch, targets = batch
        batch = batch[0] if len(batch) == 1 else batch
    if isinstance(batch, Mapping):
        inputs = _entries(batch, dropped)
        key = next((k for k in KEYS if k in inputs and (labelled or targets is not None)), None)
        own = inputs.pop(key, None)
        targets = own if targets is None else targets
        if labelled and targets is None:
            raise ValueError(f"a dict needs targets, under {', '.join(KEYS)}; it has {', '.join(inputs)}")
    elif _several(batch):
        inputs = tuple(tensor(v, "a part of the data") for v in batch)
    else:
        inputs = tensor(batch, "inputs")
    if labelled and targets is None:
        raise ValueError("there are no targets: give inputs and targets, or a dict with labels")
    return inputs, None if targets is None else tensor(targets, "targets"), key


def _entries(batch, dropped):
    """A dict's entries as tensors, without those of text, where there are others."""
    entries = {}
    for name, v in batch.items():
        text = v is not None and not isinstance(v, torch.Tensor) and np.asarray(v).dtype.kind in "USO"
        if text and len(batch) > 2 and name not in KEYS:
            dropped[name] = None
        elif v is not None:
            entries[str(name)] = tensor(v, f"data[{name!r}]")
    return entries


def _joined(batches, most, dropped):
    """(inputs, targets, the targets' key) of the first batches that hold ``most`` examples, as one."""
    parts, count = [], 0
    for batch in batches:
        parts.append(_parts(batch, dropped))
        wanted = parts[-1][1]
        if wanted.is_floating_point() and not wanted.isfinite().all():
            raise ValueError("targets have entries that are not finite")
        count += len(wanted)
        if count >= most:
            break
    if not parts:
        raise ValueError("there are no batches in the data")
    return _stack(parts)


def _stack(parts):
    """The same of several batches as one."""
    inputs, targets, (key, *_) = zip(*parts, strict=True)
    first = tree_structure(inputs[0])
    if any(tree_structure(each) != first for each in inputs):
        raise ValueError("the batches hold different things")
    masked = isinstance(inputs[0], dict) and MASK in inputs[0]
    joined = tree_map(lambda *batches: _stacked(batches, masked, 0), *inputs)
    return joined, None if targets[0] is None else _stacked(targets, masked, IGNORED), key


def _stacked(parts, pad, fill):
    """Batches on top of each other; with ``pad`` shorter rows are filled up at their end."""
    if pad and parts[0].ndim == 2:
        longest = max(v.shape[1] for v in parts)
        fill = math.nan if fill == IGNORED and parts[0].is_floating_point() else fill
        parts = [nn.functional.pad(v, (0, longest - v.shape[1]), value=fill) for v in parts]
    if len({v.shape[1:] for v in parts}) > 1:
        raise ValueError("the batches hold examples of different shapes: make them one, or pad them")
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def tensor(values, what):
    """A tensor of what PyTorch or NumPy may hold. Raises ValueError, one line."""
    if isinstance(values, torch.Tensor):
        dense = values.detach()
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            kind = {"U": "text", "S": "bytes"}.get(array.dtype.kind, "rows of different lengths, or objects")
            raise ValueError(f"{what} holds {kind}, not numbers")
        wide = array.dtype.kind == "u" and array.dtype.itemsize > 1  # which PyTorch does little with
        kind = np.int64 if wide else array.dtype.newbyteorder("=")
        dense = torch.from_numpy(np.array(array, kind, order="C"))
    if dense.is_complex() or dense.is_quantized or dense.layout != torch.strided:
        raise ValueError(f"{what} is {dense.dtype}, {dense.layout}: a dense tensor of real numbers will do")
    if dense.ndim == 0:
        raise ValueError(f"{what} is a single number")
    return dense


def _targets(targets):
    if targets.is_floating_point():
        return targets
    if targets.dtype == torch.bool:
        raise ValueError("targets are True or False: give classes as integers, or numbers as floats")
    targets = targets.long()
    if bool(((targets < 0) & (targets != IGNORED)).any()):
        raise ValueError(f"classes must be integers from 0 on, or {IGNORED} where there is none")
    if not (targets != IGNORED).any():
        raise ValueError(f"all targets are {IGNORED}: nothing is labelled")
    return targets


def taken(forward, inputs):
    """(those of a dict's entries that ``forward`` takes, the names of the others)."""
    names, anything = names_of(forward)
    if anything or not isinstance(inputs, Mapping):
        return inputs, []
    return {k: v for k, v in inputs.items() if k in names}, [k for k in inputs if k not in names]


def names_of(forward):
    """(names of what a function takes, whether it takes any others by name, or tells none)."""
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return [], True
    return [p.name for p in parameters], any(p.kind is p.VAR_KEYWORD for p in parameters)
