"""What layers read or return, the examples first, whichever axis the layer has them on.

Lengths cannot tell which axis that is: a recurrent layer may read (time, examples, features), and a graph's
layer its nodes, however many these are. So the network sees a few examples twice, in two orders: along the
examples' axis values move as the examples do.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from . import masks
from .task import outputs_of

FEW = 8  # examples that are tried
APART = 0.1  # of the movement that may be left where the examples' axis is known
ALONE = "tells no examples apart"
PART = nn.modules.linear.NonDynamicallyQuantizableLinear  # attention's last projection, which is not called


@dataclass(frozen=True)
class Axis:
    """Where the examples are: each is an ``entry`` of axis ``at``, a ``block`` there, or they ``alternate``.

    >>> Axis(0, "block").first(torch.tensor([1, 2, 3, 4]), 2)
    tensor([[1, 2],
            [3, 4]])
    """

    at: int
    how: str = "entry"

    def first(self, values, n):
        """(n, …) with the examples first; None: so many do not fit."""
        size = values.shape[self.at] if self.at < values.ndim else 0
        if size != n if self.how == "entry" else size % n or not size:
            return None
        if self.how == "entry":
            return values.movedim(self.at, 0)
        if self.how == "block":
            return values.unflatten(self.at, (n, -1)).movedim(self.at, 0)
        return values.unflatten(self.at, (-1, n)).movedim(self.at + 1, 0)


def axis_of(values, others, order):
    """(the :class:`Axis` of the examples, None), or (None, why there is none).

    others : the values where the examples stand in this order.
    """
    n = len(order)
    if values.shape == others.shape:
        first_look, second_look = values.double().nan_to_num(), others.double().nan_to_num()
        moved = float((second_look - first_look).norm())
        for axis in (Axis(at, how) for how in ("entry", "block", "alternate") for at in range(values.ndim)):
            first, again = axis.first(first_look, n), axis.first(second_look, n)
            if first is None:
                continue
            if float((again - first[order]).norm()) <= APART * moved if moved else (first == first[:1]).all():
                return axis, None
        if not moved:
            return None, ALONE
    shape = f"({', '.join(map(str, values.shape))})"
    return None, f"is {shape} for {n} examples, and no axis follows their order"


class Layers:
    """What layers read, or return, batch by batch, the examples first.

    Where a mask hides the position of a sequence, zeros stand.

    Parameters
    ----------
    network : alignbook.probing.network.Network
    modules : dict
        {module: its name}; PyTorch's attention counts as one layer with its last projection.
    rows : (n,) tensor
        All examples: a few of them show which axis holds the examples, and which the positions.
    returned : bool
        Whether the layers' last outputs are meant, or what they read when they are first called.
    beside : callable, optional
        (the network's outputs, rows) → {name: tensor} of what counts as a layer, too.

    Attributes
    ----------
    left : dict of str to str
        Why layers have no values.
    order : list of str
        Names in the order of the first calls.
    """

    def __init__(self, network, modules, rows, returned=False, beside=None):
        self.network, self.returned, self.beside = network, returned, beside
        self.modules = {m: name for m, name in modules.items() if not isinstance(m, PART)}
        self.what = "its output" if returned else "what it reads"
        self.mask, self.axis, self.places, self.left = network.mask, {}, {}, {}
        few = rows[:: max(1, len(rows) // FEW)][:FEW]
        now, order = self._seen(few), torch.arange(len(few)).roll(1)
        try:
            others = self._seen(few[order])
        except (RuntimeError, ValueError):  # sequences that must stay sorted by their lengths
            order = (torch.arange(len(few)) - 1).clamp_min(0)
            others = self._seen(few[order])
        self.order = list(now)
        for name, values in now.items():
            axis, why = None, values
            if isinstance(values, torch.Tensor):
                again = others.get(name)
                again = again if isinstance(again, torch.Tensor) else values[:0]
                axis, why = axis_of(values, again, order) if len(few) > 1 else (Axis(0), None)
            if axis is None:
                self.left[name] = f"{self.what} {why}"
            else:
                self.axis[name] = axis
        self.left |= {name: "it is not called" for name in self.modules.values() if name not in now}
        if self.mask is not None:
            self._find_places(few, now, self.mask.shape[1])

    def __call__(self, rows, take=lambda name, values, rows: values.clone()):
        """{name: ``take(name, values (n, …), rows)``} of a batch, in the order of the calls.

        take : an activation that works in place must not change what it returns.
        """
        taken = {}

        def keep(name, thing):
            if name not in self.axis or (name in taken and not self.returned):
                return
            values = values_of(thing)
            values = self.axis[name].first(values, len(rows)) if isinstance(values, torch.Tensor) else None
            if values is None:
                self.left[name] = f"{self.what} has no axis for the examples of every batch"
                return
            if self.mask is not None:
                mask = self.mask[rows.to(self.mask.device)]
                values = masks.hidden(values, mask, self.places.get(name, ()))
            taken[name] = take(name, values, rows)

        self._run(rows, keep)
        for name in self.axis.keys() - taken.keys():
            self.left.setdefault(name, "it is not called for every batch")
        return {name: values for name, values in taken.items() if name not in self.left}

    def over(self, batches, take=lambda name, values, rows: values.cpu().clone()):
        """{name: [what ``take`` makes of each batch]}, of the layers that have values in every one."""
        parts = {}
        for rows in batches:
            for name, values in self(rows, take).items():
                parts.setdefault(name, []).append(values)
        return {name: values for name, values in parts.items() if name not in self.left}

    @torch.no_grad()
    def _run(self, rows, keep, length=None):
        """Call ``keep(name, thing)`` as layers run; without the last position where their length is given."""
        with watching(self.modules, keep, self.returned):
            if length is not None:
                self.network.returned(masks.cut(self.network.data.rows(rows), length))
                return
            answer = self.network.answer(rows)
        for name, values in self.beside(outputs_of(answer), rows).items() if self.beside else ():
            keep(name, values)

    def _seen(self, rows, length=None):
        """{name: values, or why there are none}."""
        seen = {}

        def keep(name, thing):
            if name not in seen or self.returned:
                values = values_of(thing)
                seen[name] = values.clone() if isinstance(values, torch.Tensor) else values

        self._run(rows, keep, length)
        return seen

    def _find_places(self, few, now, length):
        try:
            shorter = self._seen(few, length)
        except (RuntimeError, ValueError, IndexError):  # the network takes one length alone
            shorter = None
        for name, axis in self.axis.items():
            less = shorter and shorter.get(name)
            less = axis.first(less, len(few)) if isinstance(less, torch.Tensor) else None
            if shorter is None or less is not None:
                self.places[name] = masks.places(axis.first(now[name], len(few)), less, length)


def values_of(thing):
    """The tensor of what a module reads or returns, real floats; or, as a text, why there is none.

    Of a tuple or an object it is the first, and of a packed sequence (examples, time, features).
    """
    if isinstance(thing, PackedSequence):
        return pad_packed_sequence(thing, batch_first=True)[0].detach()
    if isinstance(thing, dict):
        thing = tuple(thing.values())
    if isinstance(thing, tuple | list) and thing:
        return values_of(thing[0])
    if not isinstance(thing, torch.Tensor):
        return f"is a {type(thing).__name__}, no tensor"
    if thing.is_nested or thing.layout != torch.strided or not thing.is_floating_point():
        return f"holds {'nested' if thing.is_nested else thing.dtype} entries".replace("torch.", "")
    return thing.detach() if thing.ndim else "is a single number"


@contextmanager
def watching(modules, keep, returned=False):
    """Inside, ``keep(name, what it reads, or returns)`` is called as each of {module: name} runs."""

    def before(name):
        return lambda _, given, named: keep(name, given[0] if given else next(iter(named.values()), None))

    def after(name):
        return lambda _, given, output: keep(name, output)

    handles = [
        module.register_forward_hook(after(name))
        if returned
        else module.register_forward_pre_hook(before(name), with_kwargs=True)
        for module, name in modules.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
