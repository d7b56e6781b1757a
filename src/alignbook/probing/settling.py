"""What a network is asked, where strangers' networks need more than :mod:`.task`, which studies reach.

As many positions as there are classes: which axis of outputs (n, T, T) is which. One output for classes.
Targets of a form that is nearly right: how to put them right.
"""

import torch
from torch.nn import functional

from .data import IGNORED, leaves
from .network import Network
from .task import Task, loss_in, outputs_of, understood

IMPOSSIBLE = -1e9  # the score of a class that is nobody's
VOID = 255  # what many masks hold where there is no class


@torch.no_grad()
def task(network, rows, loss, seed):
    """As :meth:`.network.Network.task`; of tokens, and with Hugging Face's networks, classes come last.

    Raises ValueError where neither tells, for one output without a loss of its own, and for targets that do
    not fit the outputs.
    """
    outputs, targets = outputs_of(returned := network.answer(rows)), network.data.targets
    if loss is None and not targets.is_floating_point() and outputs.shape[1:] == (1,) and targets.ndim == 1:
        raise ValueError(
            "one output tells no classes apart: give targets as floats (then its squared error counts), and "
            "for a logit loss=, e.g. lambda o, t: binary_cross_entropy_with_logits(o[:, 0], t)"
        )
    if loss is None and (line := unfit(targets, tuple(outputs.shape[1:]))):
        raise ValueError(line)
    length = tuple(targets.shape[1:])
    if targets.is_floating_point() or len(length) != 1 or tuple(outputs.shape[1:]) != 2 * length:
        return Network.task(network, rows, loss, seed)
    tokens = (v for v in leaves(network.data.inputs) if not v.is_floating_point())
    if network.key is None and not any(tuple(v.shape[1:2]) == length for v in tokens):
        raise ValueError(
            f"whether classes come second or last in outputs {tuple(outputs.shape)} cannot be told: "
            "give examples of another length"
        )
    told = functional.pad(outputs, (0, 1), value=IMPOSSIBLE)  # one class more, and no loss is another
    stated, said = loss_in(returned) if loss is None and network.key else None, []
    if stated is not None:
        targets, line = understood(
            targets, told, stated, rows.to(targets.device), lambda t: loss_in(network.answer(rows, t))
        )
        said += [line] if line else []
    return Task.of(targets, told, loss, seed), said


def unfit(targets, shape):
    """What to do about targets that are nearly right for outputs (n, *shape); None: nothing is known."""
    where = tuple(targets.shape[1:])
    whole = _told(where)
    if targets.is_floating_point():
        classes = not where and len(shape) == 1 and shape[0] > 1
        if classes and targets.min() >= 0 and targets.max() < shape[0] and (targets % 1 == 0).all():
            return f"{shape[0]} outputs do not fit one number each: if the targets are classes, give integers"
        return None
    axes = shape[:-1], shape[1:]  # of positions, where classes come last or second
    thin = tuple(size for size in where if size != 1)
    if where not in axes and thin in axes and thin != where:
        return f"classes {whole} do not fit outputs {_told(shape)}: take out the axis of length 1, squeeze(1)"
    if where == shape and where not in axes and bool((targets.sum(1) == 1).all()) and targets.max() == 1:
        return f"targets {whole} hold a one for each class: give the classes, argmax(1), or floats"
    if where in axes and (most := int(targets.max())) == VOID and min(shape[0], shape[-1]) <= VOID:
        return f"there are classes up to {most}: where {most} stands for no class, give {IGNORED}"
    return None


def _told(where):
    return f"({', '.join(map(str, ('n', *where)))})" if where else "(n,)"
