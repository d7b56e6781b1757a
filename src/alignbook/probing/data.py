"""What the probe is given as data, as one tree of tensors: arrays, dicts, tuples, or batches of these."""

import hashlib
import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

MOST = 1000  # examples that are read, unless more are asked for
LEAST = 10
IGNORED = -100  # the class that PyTorch's losses leave out
KEYS = ("labels", "label", "targets", "target", "y")  # of a dict's targets
MASK = "attention_mask"  # dicts with one may be padded


@dataclass(frozen=True)
class Data:
    """inputs : a tensor (n, …), a tuple of them or a dict of them; targets : a tensor (n, …);
    key : the name that the targets had in a dict, or None; said : what a reader should know, a line each.
    """

    inputs: object
    targets: torch.Tensor
    key: str | None = None
    said: tuple[str, ...] = ()

    def __len__(self):
        return len(self.targets)

    def rows(self, rows):
        """The inputs of these examples, always a copy."""
        return mapped(lambda values: values[rows.to(values.device)], self.inputs)

    def each(self, function):
        """The same with ``function`` of every tensor in its place."""
        return replace(self, inputs=mapped(function, self.inputs), targets=function(self.targets))

    def to(self, device):
        """The same on a device."""
        return self.each(lambda values: values.to(device))

    @property
    def only(self):
        """The inputs where they are one tensor of floats, else None."""
        single = isinstance(self.inputs, torch.Tensor) and self.inputs.is_floating_point()
        return self.inputs if single else None

    @property
    def digest(self):
        """Twelve hex digits that tell whether two probes saw the same examples."""
        found = hashlib.sha256()
        for values in [*leaves(self.inputs), self.targets]:
            found.update(f"{values.dtype}{tuple(values.shape)}".encode())
            found.update(np.ascontiguousarray(values.cpu().numpy()).tobytes())
        return found.hexdigest()[:12]

    @property
    def shape(self):
        """What one example is, in words."""
        return ", ".join(" × ".join(map(str, v.shape[1:])) or "1" for v in leaves(self.inputs))


def leaves(tree):
    """The tensors of a tree."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    return list(tree.values() if isinstance(tree, Mapping) else tree)


def mapped(function, tree):
    """The tree with ``function`` of every tensor in its place."""
    if isinstance(tree, Mapping):
        return {name: function(values) for name, values in tree.items()}
    return tuple(map(function, tree)) if isinstance(tree, tuple) else function(tree)


def read(data, targets=None, examples=None, least=LEAST, floats=torch.float32):
    """:class:`Data` of whatever a reader has.

    data : a tensor or array of inputs; a tuple (inputs, targets), (input, another, …, targets)
        or, with ``targets`` given, of several inputs; a dict of tensors, its targets under one of ``KEYS``;
        a Dataset of PyTorch; a DataLoader, or any iterable of such batches.
    examples : how many are read; None: 1,000 at most. least : fewer are refused.
    floats : the type of all floats; None: as they are.
    Raises ValueError, one line, for what cannot be understood.
    """
    most = MOST if examples is None else examples
    said, dropped = [], {}
    if isinstance(data, torch.utils.data.Dataset):
        data = torch.utils.data.DataLoader(data, batch_size=32)
    if isinstance(getattr(data, "sampler", None), torch.utils.data.RandomSampler):
        said.append("the DataLoader shuffles: another probe of it sees other examples")
    if _one_batch(data):
        inputs, wanted, key = _parts(data, targets, dropped)
        _finite(wanted)
    elif isinstance(data, Iterable):
        if targets is not None:
            raise ValueError(
                f"with targets, data must be a tensor, array or dict of them, not {type(data).__name__}: "
                "batches hold their own targets"
            )
        inputs, wanted, key = _joined(data, most, dropped)
    else:
        raise ValueError(
            f"data must be tensors, arrays, a dict or batches of them, not {type(data).__name__}"
        )
    if isinstance(inputs, dict) and not inputs or isinstance(inputs, tuple) and not inputs:
        raise ValueError("the data hold targets, but no inputs")
    counts = {len(values) for values in leaves(inputs)}
    if counts != {len(wanted)} or len(wanted) < least:
        many = " or ".join(map(str, sorted(counts)))
        raise ValueError(f"{many} inputs and {len(wanted)} targets: at least {least}, as many of each")
    if dropped:
        said.append(f"entries of text are left out: {', '.join(map(str, dropped))}")
    found = Data(inputs, wanted, key, tuple(said)).each(lambda values: cast(values[:most], floats))
    if not all(v.isfinite().all() for v in leaves(found.inputs) if v.is_floating_point()):
        raise ValueError("inputs have entries that are not finite")
    return replace(found, targets=_targets(found.targets))


def cast(values, floats=torch.float32):
    """The tensor, floats of this type; None: as they are."""
    return values.to(floats) if floats is not None and values.is_floating_point() else values


def _one_batch(data):
    if isinstance(data, torch.Tensor | np.ndarray | Mapping):
        return True
    if not isinstance(data, tuple | list) or not data:
        return False
    first, *others = data
    whole = len(others) == 1 and (isinstance(first, Mapping) or _several(first))
    return all(isinstance(v, torch.Tensor | np.ndarray) for v in (others if whole else data))


def _several(inputs):
    """Whether these are a tuple of several inputs, as in ((input, another), targets)."""
    return isinstance(inputs, tuple) and all(isinstance(v, torch.Tensor | np.ndarray) for v in inputs)


def _parts(batch, targets=None, dropped=None):
    """(inputs, targets, the targets' key) of one batch; ``dropped`` gets the names of entries of text."""
    if isinstance(batch, Mapping):
        named = {}
        for name, v in batch.items():
            array = None if v is None or isinstance(v, torch.Tensor) else np.asarray(v)
            if dropped is not None and len(batch) > 2 and name not in KEYS and _is_text(array):
                dropped[name] = None
            elif v is not None:
                named[str(name)] = tensor(v, f"data[{name!r}]")
        key = next((name for name in KEYS if name in named), None)
        if targets is None and key is None:
            raise ValueError(f"a dict needs targets, under {', '.join(KEYS)}; it has {', '.join(named)}")
        held = named.pop(key) if key is not None else None
        return named, held if targets is None else tensor(targets, "targets"), key
    if isinstance(batch, tuple | list):
        if len(batch) == 2 and targets is None and (isinstance(batch[0], Mapping) or _several(batch[0])):
            return _parts(*batch, dropped)
        if not batch:
            raise ValueError("a batch holds nothing")
        values = [tensor(v, "a part of the data") for v in batch]
        if targets is None:
            *values, targets = values
        return values[0] if len(values) == 1 else tuple(values), tensor(targets, "targets"), None
    if targets is None:
        raise ValueError("there are no targets: give inputs and targets, or a dict with labels")
    return tensor(batch, "inputs"), tensor(targets, "targets"), None


def _joined(batches, most, dropped=None):
    """The first ``most`` examples of batches, as one."""
    parts, count = [], 0
    for batch in batches:
        parts.append(_parts(batch, None, dropped))
        _finite(parts[-1][1])
        count += len(parts[-1][1])
        if count >= most:
            break
    if not parts:
        raise ValueError("there are no batches in the data")
    inputs, targets, keys = zip(*parts, strict=True)
    first = inputs[0]
    if len({(type(i), *(i if isinstance(i, dict) else [len(leaves(i))])) for i in inputs}) > 1:
        raise ValueError("the batches hold different things")
    if isinstance(first, dict):
        masked = MASK in first
        joined = {name: _stacked([i[name] for i in inputs], masked, 0) for name in first}
        return joined, _stacked(targets, masked, IGNORED), keys[0]
    if isinstance(first, tuple):
        return tuple(_stacked(v) for v in zip(*inputs, strict=True)), _stacked(targets), keys[0]
    return _stacked(inputs), _stacked(targets), keys[0]


def _stacked(parts, pad=False, fill=0):
    """Batches on top of each other; with ``pad`` shorter rows are filled up at their end."""
    longest = max((v.shape[1] for v in parts if v.ndim > 1), default=0)
    if pad and parts[0].ndim == 2:
        fill = math.nan if fill == IGNORED and parts[0].is_floating_point() else fill
        parts = [nn.functional.pad(v, (0, longest - v.shape[1]), value=fill) for v in parts]
    if len({v.shape[1:] for v in parts}) > 1:
        raise ValueError("the batches hold examples of different shapes: make them one, or pad them")
    return torch.cat(list(parts))


def tensor(values, what):
    """A tensor of what PyTorch or NumPy may hold. Raises ValueError, one line."""
    if isinstance(values, torch.Tensor):
        found = values.detach()
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{what} holds {_kind(array)}, not numbers")
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        # What is read-only is copied: PyTorch warns of it.
        found = torch.from_numpy(np.require(native, requirements=["C", "W"]))
    if found.is_complex() or found.is_quantized or found.layout != torch.strided:
        raise ValueError(f"{what} is {found.dtype}, {found.layout}: a dense tensor of real numbers will do")
    if found.ndim == 0:
        raise ValueError(f"{what} is a single number")
    return found


def _is_text(array):
    return array is not None and (
        array.dtype.kind in "US" or (array.dtype == object and all(isinstance(v, str) for v in array.flat))
    )


def _kind(array):
    return {"U": "text", "S": "bytes", "M": "dates", "m": "durations", "c": "complex numbers"}.get(
        array.dtype.kind, "rows of different lengths, or objects"
    )


def _finite(targets):
    if targets.is_floating_point() and not targets.isfinite().all():
        raise ValueError("targets have entries that are not finite")


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
    if not isinstance(inputs, Mapping):
        return inputs, []
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return inputs, []
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return inputs, []
    names = {p.name for p in parameters}
    return {k: v for k, v in inputs.items() if k in names}, [k for k in inputs if k not in names]
