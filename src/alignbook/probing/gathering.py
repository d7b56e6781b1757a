"""What a reader hands in, made into what :mod:`.data` reads: a spread of it, its examples put into batches.

Studies reach the code of :mod:`.data`, which reads the first examples; of what has a length, all that is
handed on to it here are examples that lie evenly from first to last, the same ones every time.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Number

import numpy as np
import pandas as pd
import torch
from torch.utils import data as loading

from .budget import positions
from .data import KEYS, LEAST, MASK, MOST, _joined, _one_batch, leaves, read, tensor

TOKENS = ("input_ids", MASK)  # of one example a row, of a batch a matrix


def gathered(data, targets=None, examples=None, least=LEAST, floats=torch.float32):
    """(:class:`.data.Data`, of how many examples; None where this is not known).

    As :func:`.data.read`, which it calls; beyond that data may be pandas' tables, nested lists with
    ``targets``, and lists or other sequences of examples: (input, class), or dicts such as Hugging Face's,
    shorter rows of which are filled up where there is an ``attention_mask``.
    """
    most = MOST if examples is None else examples
    if isinstance(data, str | bytes):
        raise ValueError(f"data must be tensors, arrays or batches of them, not {type(data).__name__}")
    data, targets = _arrays(arrays(data), arrays(targets))
    data, targets, total = _spread(data, targets, most)
    found = read(data, targets, examples, min(least, most), floats)  # as few as were asked for
    if total is None and len(found) < most:
        total = len(found)
    if total is None:
        line = f"the first {len(found):,} examples are read: the data do not say how many there are"
    else:
        line = f"{len(found):,} of {total:,} examples are read, evenly from first to last"
    return found if total == len(found) else replace(found, said=(*found.said, line)), total


def batches(data, size):
    """The inputs alone, as a tensor, a tuple or a dict of tensors, in batches.

    data : as :func:`gathered` has them, with or without targets, all examples; of a tuple the last part is
        the targets, and a list of tensors that are alike is a list of batches.
    size : arrays and examples are cut into batches of so many at least.
    """
    tensors = isinstance(data, list) and data and all(isinstance(part, torch.Tensor) for part in data)
    alike = tensors and len({(part.dtype, part.shape[1:]) for part in data}) == 1 and data[0].ndim > 1
    if isinstance(data, list) and data and not alike and isinstance(data[0], list | Number):
        data = np.asarray(data)
    if not alike and _one_batch(data):
        inputs = _inputs(data)
        parts = max(1, len(leaves(inputs)[0]) // size) if leaves(inputs) else 1
        cut = [part.tensor_split(parts) for part in leaves(inputs)]
        for part in zip(*cut, strict=True):
            if isinstance(inputs, Mapping):
                yield dict(zip(inputs, part, strict=True))
            else:
                yield tuple(part) if isinstance(inputs, tuple) else part[0]
        return
    if _sized(data) and isinstance(data, loading.Dataset):
        data = map(_one, map(data.__getitem__, range(len(data))))
    elif isinstance(data, loading.IterableDataset):
        data = map(_one, data)
    elif isinstance(data, Iterable) and not isinstance(data, Mapping):
        data = iter(data)
        first = next(data, None)
        if first is None:
            return
        data = itertools.chain([first], data)
        if not _is_example(first):
            yield from map(_inputs, data)
            return
        data = map(_one, data)
    else:
        raise ValueError(
            f"inputs must be tensors, arrays, a dict or batches of them, not {type(data).__name__}"
        )
    for part in _batched(data, size):
        yield _inputs(_joined(part, size)[0], whole=True)


def _inputs(batch, whole=False):
    """The inputs of a batch as tensors; ``whole``: it has no targets."""
    if isinstance(batch, Mapping):
        return {str(name): tensor(v, f"data[{name!r}]") for name, v in batch.items() if v is not None}
    if isinstance(batch, tuple | list):
        parts = batch if whole or len(batch) == 1 else batch[:-1]
        if len(parts) == 1:
            return _inputs(parts[0], whole=True)
        return tuple(tensor(v, "a part of the inputs") for v in parts)
    return tensor(batch, "inputs")


def _batched(items, size):
    while part := tuple(itertools.islice(items, size)):
        yield part


def arrays(data):
    """The same with arrays in place of pandas' tables and columns, also in a tuple or dict."""
    if isinstance(data, pd.DataFrame | pd.Series):
        return data.to_numpy()
    if type(data) is tuple:
        return tuple(map(arrays, data))
    return {name: arrays(v) for name, v in data.items()} if type(data) is dict else data


def _arrays(data, targets):
    """Lists as arrays, or as lists of examples that hold their targets."""
    if targets is None:
        if isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, list) for part in data):
            return _arrays(*data)
        return data, None
    if not isinstance(data, list | tuple) or not data or not isinstance(targets, Iterable):
        return data, targets
    count = len(targets) if hasattr(targets, "__len__") else -1
    if all(isinstance(part, torch.Tensor | np.ndarray) for part in data):
        several = all(np.ndim(part) and len(part) == count for part in data)
        if several or len(data) != count or len({tuple(part.shape) for part in data}) > 1:
            return data, targets
        return torch.stack([torch.as_tensor(part) for part in data]), targets
    if all(isinstance(part, Mapping) for part in data) and len(data) == count:
        if any(key in part for part in data for key in KEYS):
            raise ValueError("the targets are given twice: in the examples, and as targets")
        return [{**part, KEYS[0]: target} for part, target in zip(data, targets, strict=True)], None
    if all(isinstance(part, list | tuple | Number) for part in data):
        try:
            return np.asarray(data), targets
        except ValueError:
            raise ValueError(
                f"the inputs are lists of different lengths: pad them, or give dicts with {MASK}"
            ) from None
    return data, targets


def _spread(data, targets, most):
    """(what is read of the data, of the targets, how many examples there are or None)."""
    if _one_batch(data):
        count = _count(data)
        fits = targets is None or _count(targets) == count
        if count is None or count <= most or not fits:
            return data, targets, count
        rows = positions(count, most)
        return _rows(data, rows), targets if targets is None else _rows(targets, rows), count
    if isinstance(data, loading.DataLoader):
        return _of_loader(data, most), targets, _sized(data.dataset) if _plain(data) else None
    if targets is None and _sized(data) and (isinstance(data, loading.Dataset) or _is_example(data[0])):
        count = len(data)
        return [_one(data[i]) for i in positions(count, most)], targets, count
    if isinstance(data, list | tuple) and targets is None:
        return _of_batches(data, most)
    if isinstance(data, loading.IterableDataset):
        return map(_one, data), targets, None
    if targets is None and isinstance(data, Iterable):
        return (_one(item) if _is_example(item) else item for item in data), targets, None
    return data, targets, None


def _sized(data):
    """How many items a sequence has; None for what is none, 0 for one that is empty."""
    sequence = hasattr(data, "__getitem__") and not isinstance(data, Mapping)
    try:
        return len(data) if sequence else None
    except TypeError:
        return None


def _plain(loader):
    """Whether a DataLoader goes through a dataset with a length, in its order or in a random one."""
    usual = type(loader.batch_sampler) is loading.BatchSampler and loader.sampler is not None
    kinds = loading.SequentialSampler, loading.RandomSampler
    if not usual or not isinstance(loader.sampler, kinds) or not _sized(loader.dataset):
        return False
    return not getattr(loader.sampler, "replacement", False) and len(loader.sampler) == len(loader.dataset)


def _of_loader(loader, most):
    if not _plain(loader):
        return loader
    some = loading.Subset(loader.dataset, positions(len(loader.dataset), most))
    return loading.DataLoader(some, batch_size=loader.batch_size, collate_fn=loader.collate_fn)


def _of_batches(batches, most):
    counts = [_count(batch) for batch in batches]
    if None in counts:
        return batches, None, None
    chosen, first, found = positions(sum(counts), most), 0, []
    if len(chosen) == sum(counts):
        return batches, None, len(chosen)
    for batch, count in zip(batches, counts, strict=True):
        rows = [i - first for i in chosen if first <= i < first + count]
        first += count
        if rows:
            found.append(_rows(batch, rows))
    return found, None, sum(counts)


def _parts(batch):
    """The parts of a batch that has such, else None: of a dict, or of a tuple of arrays."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    nested = isinstance(batch, tuple | list) and batch
    return (
        list(batch) if nested and isinstance(batch[0], torch.Tensor | np.ndarray | Mapping | tuple) else None
    )


def _count(batch):
    """How many examples a batch holds; None where this cannot be told, or its parts differ."""
    parts = _parts(batch)
    if parts is not None:
        counts = {_count(part) for part in parts if part is not None}
        return counts.pop() if len(counts) == 1 else None
    if isinstance(batch, torch.Tensor | np.ndarray):
        return len(batch) if batch.ndim else None
    return len(batch) if isinstance(batch, Sequence) else None


def _rows(batch, rows):
    """These examples of a batch."""
    if isinstance(batch, Mapping):
        return {name: part if part is None else _rows(part, rows) for name, part in batch.items()}
    if _parts(batch) is not None:
        return tuple(_rows(part, rows) for part in batch)
    return batch[rows] if isinstance(batch, torch.Tensor | np.ndarray) else [batch[i] for i in rows]


def _is_example(item):
    """Whether an item is one example and no batch: it has a number for its class, or one row of tokens."""
    if isinstance(item, Mapping):
        if any(_axes(v) == 0 for v in item.values() if v is not None):
            return True
        return any(_axes(item[name]) == 1 for name in TOKENS if name in item)
    return isinstance(item, tuple | list) and len(item) > 1 and _axes(item[-1]) == 0


def _axes(value):
    """How many axes an array or a nested list of numbers has; None for what is neither."""
    if isinstance(value, torch.Tensor | np.ndarray | Number):
        return np.ndim(value)
    try:
        return np.ndim(value) if isinstance(value, list) else None
    except ValueError:  # rows of different lengths
        return None


def _one(item):
    """A batch of this example alone."""
    if isinstance(item, Mapping):
        return {name: _one(v) for name, v in item.items() if v is not None}
    if isinstance(item, tuple) or (isinstance(item, list) and item and isinstance(item[0], torch.Tensor)):
        return tuple(map(_one, item))
    return item[None] if isinstance(item, torch.Tensor | np.ndarray) else np.asarray(item)[None]
