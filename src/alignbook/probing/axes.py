"""Which axis of a layer's values holds the examples: the one along which values move as the examples do.

Lengths cannot tell: a recurrent layer may read (time, examples, features), and a graph's layer its nodes,
however many these are. So the network sees a few examples twice, in two orders.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from . import masks

FEW = 8  # examples that are tried
APART = 0.1  # of the movement that may be left where the examples' axis is known
ALONE = "tells no examples apart"
LAST = nn.modules.linear.NonDynamicallyQuantizableLinear  # the last projection of PyTorch's attention


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
    shape = f"({', '.join(map(str, values.shape))})"
    if values.shape == others.shape:
        values, others = values.double().nan_to_num(), others.double().nan_to_num()
        moved = float((others - values).norm())
        for axis in (Axis(at, how) for how in ("entry", "block", "alternate") for at in range(values.ndim)):
            first, again = axis.first(values, n), axis.first(others, n)
            if first is None:
                continue
            if float((again - first[order]).norm()) <= APART * moved if moved else (first == first[:1]).all():
                return axis, None
        if not moved:
            return None, ALONE
    return None, f"is {shape} for {n} examples, and no axis follows their order"


def axes(look, n, mask=None):
    """({name: :class:`Axis`}, {name: why it has none}, {name: axes of positions}) of the layers.

    look : callable, numbers of examples (d,) int64 among n → {name: tensor, or why there is none}; called
    with True beside them it leaves out the last position.
    mask : (n, T) of sequences, or None; then no axes of positions are looked for, which are those of
    (examples, …).
    """
    few = torch.arange(n)[:: max(1, n // FEW)][:FEW]
    if len(few) < 2:
        return dict.fromkeys(look(few), Axis(0)), {}, {}
    now, order = look(few), torch.arange(len(few)).roll(1)
    try:
        others = look(few[order])
    except (RuntimeError, ValueError):  # sequences that must stay sorted by their lengths
        order = (torch.arange(len(few)) - 1).clamp_min(0)
        others = look(few[order])
    known, left = {}, {}
    for name, values in now.items():
        axis, why = None, values
        if not isinstance(values, str):
            again = others.get(name)
            axis, why = axis_of(values, again if isinstance(again, torch.Tensor) else values[:0], order)
        if axis is None:
            left[name] = why
        else:
            known[name] = axis
    return known, left, {} if mask is None else _places(look, few, now, known, mask.shape[1])


def _places(look, few, now, known, length):
    """{name: axes of positions} of the layers that have such."""
    try:
        shorter = look(few, True)
    except (RuntimeError, ValueError, IndexError):  # the network takes one length alone
        shorter = None
    places = {}
    for name, axis in known.items():
        less = shorter and shorter.get(name)
        less = axis.first(less, len(few)) if isinstance(less, torch.Tensor) else None
        if shorter is None or less is not None:
            places[name] = masks.places(axis.first(now[name], len(few)), less, length)
    return {name: at for name, at in places.items() if at}


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
def reading(modules, keep):
    """Inside, ``keep(name, what it reads)`` is called as each of the ``modules`` {module: name} runs.

    Attention uses the weights of its last projection without calling it, which counts as a call.
    """
    weights = {id(m.weight): name for m, name in modules.items() if isinstance(m, LAST)}
    plain = functional.linear

    def linear(values, weight, bias=None):
        if id(weight) in weights:
            keep(weights[id(weight)], values)
        return plain(values, weight, bias)

    def entering(name):
        def hook(module, given, named):
            keep(name, given[0] if given else next(iter(named.values()), None))

        return hook

    with ExitStack() as stack:
        for module, name in modules.items():
            hook = module.register_forward_pre_hook(entering(name), with_kwargs=True)
            stack.callback(hook.remove)
        if weights:
            stack.enter_context(mock.patch.object(functional, "linear", linear))
        yield


@contextmanager
def returning(network, modules, keep):
    """Inside, ``keep(name, what it returns)`` is called as each of the ``modules`` {name: module} runs.

    Of attention's last projection, which is not called, that is what attention itself returns.
    """
    called = {id(m.out_proj): m for m in network.modules() if isinstance(m, nn.MultiheadAttention)}
    with ExitStack() as stack:
        for name, module in modules.items():

            def hook(module, given, output, name=name):
                keep(name, output)

            stack.callback(called.get(id(module), module).register_forward_hook(hook).remove)
        yield
