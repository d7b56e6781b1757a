"""What functions hold while they run: taken as plain data, and put back in place in another process.

A training loop is given functions; its state is in what these reach: networks, optimisers, generators, lists
of rows. :func:`taken` follows closures, bound methods, containers, modules and this package's objects down to
tensors, random states and plain values. :func:`put_back` gives functions that were made anew in the same way
the content that was taken, in the same objects, so that whoever else holds these sees it, too.
"""

import functools
import hashlib
import types
from collections import deque

import numpy as np
import pandas as pd
import torch
from torch import nn

LARGE = 2**25  # bytes from which a tensor that nothing has written to is recognised, and not taken
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# Never changed in place; told apart by how they are shown.
_FIXED = (torch.dtype, torch.device, torch.memory_format, type, types.ModuleType, range, slice, np.dtype)
_FRAME = "companion.runs"  # its functions report progress; nothing of training is in them
# Of a module, what training changes; of the others of torch's own, hooks and their like, nothing.
_OF_MODULES = {"training", "_parameters", "_buffers", "_modules"}
_UNCHANGED = (set(vars(nn.Module())) - _OF_MODULES) | {"_recordings"}  # of kernels.cuda_graph: made again
_MISSING = object()


class Unknown(Exception):
    """Something is held whose state is not known, or that is not what was taken."""


def digest(roots):
    """(SHA-256 of what ``roots`` hold, {id of a large tensor: how often it has been written to}).

    Of large tensors, their sum and every so many of their elements count.
    """
    walk = _Digest()
    content = hashlib.sha256(repr(walk.take(roots)).encode()).hexdigest()
    return content, walk.written


def taken(roots, written):
    """What ``roots``, a tuple, hold: tuples, lists, plain values and tensors on the CPU.

    written : as :func:`digest` said it before training
    Raises Unknown.
    """
    return _Taking(written).take(roots)


def put_back(roots, content):
    """Give ``roots`` what :func:`taken` took; where it raises Unknown, nothing has been changed."""
    back = _PuttingBack()
    back.put(roots, content)
    with torch.no_grad():
        for action in back.actions:
            action()


class _Walk:
    """Each object once, numbered in the order in which it is met."""

    def __init__(self):
        self.seen, self.alive, self.written = {}, [], {}

    def take(self, x):
        if isinstance(x, np.generic):
            return ("scalar", x.dtype.str, x.item())
        if isinstance(x, _PLAIN):
            return ("value", x)
        if isinstance(x, _FIXED):
            return ("fixed", repr(x))
        if id(x) in self.seen:
            return ("seen", self.seen[id(x)])
        self.seen[id(x)] = len(self.seen)
        self.alive.append(x)  # an id may be given anew
        return self._first(x)

    def _first(self, x):
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, torch.Generator):
            return ("generator", self.content(x.get_state()))
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            return ("array", self.content(torch.from_numpy(np.ascontiguousarray(x))), x.dtype.str)
        if isinstance(x, pd.DataFrame):
            return self._frame(x)
        if isinstance(x, torch.optim.Optimizer):
            return ("optimiser", self.take(x.state_dict()))
        if isinstance(x, dict):
            return (
                "dict",
                type(x).__name__,
                [(self._key(key), self.take(value)) for key, value in x.items()],
            )
        if isinstance(x, set | frozenset):
            return ("set", type(x).__name__, sorted(map(self._key, x), key=repr))
        if isinstance(x, list | tuple | deque):
            return ("sequence", type(x).__name__, [self.take(item) for item in x])
        if isinstance(x, functools.partial):
            return ("partial", self.take(x.func), self.take(x.args), self.take(x.keywords))
        if isinstance(x, types.CellType):
            try:
                return ("cell", self.take(x.cell_contents))
            except ValueError:  # not bound yet
                return ("cell", None)
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, torch.no_grad | torch.enable_grad):  # a decorator made of one holds it
            return ("fixed", type(x).__qualname__)
        if isinstance(x, types.MethodType | types.BuiltinFunctionType | types.MethodWrapperType):
            owner = getattr(x, "__self__", None)
            return ("method", x.__qualname__, self.take(owner))
        return self._object(x)

    def _tensor(self, x):
        if x.layout is not torch.strided or type(x) not in (torch.Tensor, nn.Parameter):
            raise Unknown(f"a tensor of type {type(x).__name__}")
        if x.nbytes >= LARGE and not self.changed(x):
            return ("large", tuple(x.shape), _sha256(x))
        return ("tensor", self.content(x), x.device.type)

    def _frame(self, x):
        if not isinstance(x.index, pd.RangeIndex) or not x.columns.is_unique:
            raise Unknown("a DataFrame with an index")
        columns = [
            (self._key(name), str(x[name].dtype), list(map(self.take, x[name].tolist()))) for name in x
        ]
        return ("frame", len(x), columns)

    def _function(self, x):
        if x.__module__ and x.__module__.split(".")[:2] == _FRAME.split("."):
            return ("fixed", x.__qualname__)
        cells = [self.take(cell) for cell in x.__closure__ or ()]
        return ("function", x.__qualname__, cells, self.take(x.__defaults__), self.take(x.__kwdefaults__))

    def _object(self, x):
        kind = type(x)
        ours = kind.__module__.split(".")[0] == __name__.split(".")[0] or isinstance(x, types.SimpleNamespace)
        known = ours or isinstance(x, nn.Module)
        if (
            not known
            or not hasattr(x, "__dict__")
            or any("__slots__" in vars(base) for base in kind.__mro__[:-1])
        ):
            raise Unknown(f"an object of type {kind.__module__}.{kind.__qualname__}")
        own = {name: value for name, value in vars(x).items() if name not in _UNCHANGED}
        return ("object", kind.__qualname__, [(name, self.take(value)) for name, value in own.items()])

    def _key(self, x):
        if isinstance(x, tuple):
            return tuple(map(self._key, x))
        if not isinstance(x, _PLAIN) or isinstance(x, np.generic):
            raise Unknown(f"a key of type {type(x).__name__}")
        return x


class _Taking(_Walk):
    def __init__(self, written):
        super().__init__()
        self.written = written

    def changed(self, x):
        return self.written.get(id(x), -1) != _writes(x)

    def content(self, x):
        return x.detach().cpu()


class _Digest(_Walk):
    def changed(self, x):
        self.written[id(x)] = _writes(x)
        return True

    def content(self, x):
        return (tuple(x.shape), str(x.dtype), _sampled(x) if x.nbytes >= LARGE else _sha256(x))


def _writes(x):
    return -2 if x.is_inference() else x._version


def _sha256(x):
    flat = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy()).hexdigest()


def _sampled(x):
    flat = x.detach().reshape(-1)
    return _sha256(flat[:: max(1, len(flat) // 65536)]), float(flat.sum(dtype=torch.float64))


class _PuttingBack:
    """Follows the content that was taken and the objects of today at once; collects what is to be done."""

    def __init__(self):
        self.seen, self.actions = [], []

    def put(self, x, node):
        """What stands in place of ``x`` (``_MISSING``: of nothing): itself where it can be changed."""
        kind = node[0]
        if kind == "value":
            return node[1]
        if kind == "scalar":
            return np.dtype(node[1]).type(node[2])
        if kind == "seen":
            return self.seen[node[1]]
        if kind == "fixed" and isinstance(x, _FIXED):
            self._require(repr(x) == node[1], node[1])
            return x
        number = len(self.seen)
        self.seen.append(x)
        self.seen[number] = found = getattr(self, f"_{kind}")(x, *node[1:], number)
        return found

    def _require(self, met, what):
        if not met:
            raise Unknown(f"not what was taken: {what}")

    def _fixed(self, x, name, number):
        self._require(name in (getattr(x, "__qualname__", None), type(x).__qualname__), name)
        return x

    def _large(self, x, shape, sha256, number):
        self._require(
            isinstance(x, torch.Tensor) and tuple(x.shape) == shape and _sha256(x) == sha256, "a tensor"
        )
        return x

    def _tensor(self, x, content, device, number):
        same = isinstance(x, torch.Tensor) and (x.shape, x.dtype) == (content.shape, content.dtype)
        if not same:
            self._require(not getattr(x, "requires_grad", False), "a parameter")
            return content.to(device)
        overlaps = any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True))
        self._require(not overlaps and not x.is_inference(), "a tensor that cannot be written to")
        self.actions.append(lambda: x.copy_(content))
        return x

    def _generator(self, x, state, number):
        self._require(isinstance(x, torch.Generator), "a generator")
        self.actions.append(lambda: x.set_state(state))
        return x

    def _array(self, x, content, dtype, number):
        content = content.numpy().astype(dtype, copy=False)
        if isinstance(x, np.ndarray) and (x.shape, x.dtype) == (content.shape, content.dtype):
            self.actions.append(lambda: np.copyto(x, content))
            return x
        return content

    def _frame(self, x, rows, columns, number):
        made = {name: [self.put(_MISSING, item) for item in values] for name, _, values in columns}
        return pd.DataFrame(made, index=range(rows)).astype({name: dtype for name, dtype, _ in columns})

    def _optimiser(self, x, content, number):
        self._require(isinstance(x, torch.optim.Optimizer), "an optimiser")
        state = self.put(_MISSING, content)
        self.actions.append(lambda: x.load_state_dict(state))
        return x

    def _dict(self, x, kind, items, number):
        if type(x).__name__ != kind:
            self._require(kind == "dict", kind)
            x = self.seen[number] = {}
        new = {key: self.put(x.get(key, _MISSING), node) for key, node in items}
        self.actions.append(lambda: (x.clear(), x.update(new)))
        return x

    def _set(self, x, kind, items, number):
        if kind == "frozenset" or not isinstance(x, set):
            return frozenset(items) if kind == "frozenset" else set(items)
        self.actions.append(lambda: (x.clear(), x.update(items)))
        return x

    def _sequence(self, x, kind, items, number):
        if type(x).__name__ != kind:
            self._require(kind in ("list", "tuple"), kind)
            x = self.seen[number] = [] if kind == "list" else ()
        before = [*x, *[_MISSING] * len(items)]
        new = [self.put(old, node) for old, node in zip(before, items, strict=False)]
        if isinstance(x, tuple):
            if len(x) == len(new) and all(a is b for a, b in zip(x, new, strict=True)):
                return x
            return x._make(new) if hasattr(x, "_make") else type(x)(new)
        self.actions.append(lambda: (x.clear(), x.extend(new)))
        return x

    def _partial(self, x, function, arguments, keywords, number):
        self._require(isinstance(x, functools.partial), "a partial")
        self._same((x.func, x.args, x.keywords), (function, arguments, keywords))
        return x

    def _cell(self, x, content, number):
        self._require(isinstance(x, types.CellType), "a cell")
        if content is not None:
            try:
                held = x.cell_contents
            except ValueError:
                held = _MISSING
            found = self.put(held, content)
            if found is not held:
                self.actions.append(lambda: setattr(x, "cell_contents", found))
        return x

    def _function(self, x, name, cells, defaults, keywords, number):
        self._require(isinstance(x, types.FunctionType) and x.__qualname__ == name, name)
        self._require(len(x.__closure__ or ()) == len(cells), name)
        for cell, node in zip(x.__closure__ or (), cells, strict=True):
            self.put(cell, node)
        self._same((x.__defaults__, x.__kwdefaults__), (defaults, keywords))
        return x

    def _same(self, parts, nodes):
        """Put ``nodes`` back into ``parts``, which cannot be exchanged themselves."""
        for part, node in zip(parts, nodes, strict=True):
            found = self.put(part, node)
            self._require(found is part or (isinstance(part, tuple) and found == part), "a default")

    def _method(self, x, name, owner, number):
        self._require(getattr(x, "__qualname__", None) == name, name)
        self.put(x.__self__, owner)
        return x

    def _object(self, x, kind, attributes, number):
        self._require(type(x).__qualname__ == kind, kind)
        own = vars(x)
        new = {name: self.put(own.get(name, _MISSING), node) for name, node in attributes}
        self.actions.append(lambda: own.update(new))
        return x
