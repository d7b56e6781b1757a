"""What a network is asked, from what it returns for a few examples.

Which axis of the outputs holds the classes; whose loss it is, and whether it is a mean over examples; which
targets are padding. Targets of a form that is nearly right are refused with how to put them right.
"""

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from . import masks
from .budget import positions
from .data import IGNORED, leaves
from .task import Task, is_mean, loss_in, outputs_of, understood

IMPOSSIBLE = -1e9  # the score of a class that is nobody's
TRIED = 8  # examples that show whether a loss is their mean
VOID = 255  # what many masks hold where there is no class


@torch.no_grad()
def settled(network, loss, seed):
    """(:class:`.task.Task`, lines to be said) of a :class:`.network.Network`, whose targets may be masked.

    Raises ValueError where it cannot be told, and for targets that do not fit the outputs.
    """
    lines = masks.settle(network)
    rows, targets = network.few, network.data.targets
    outputs = outputs_of(returned := network.answer(rows))
    if loss is None:
        _check(network, targets, outputs)
    task = Task.of(targets, _last(outputs, targets), loss, seed)
    if loss is None and network.key and loss_in(returned) is not None:
        rows = _tried(task)
        outputs = _last(outputs_of(returned := network.answer(rows)), targets)
        task, line = understood(
            task, outputs, _number(returned), rows, lambda t: _number(network.answer(rows, t))
        )
        lines += [line] if line else []
    if task.own is not None and not _mean(network, task):
        task = replace(task, whole=True)
        lines.append("the loss is no mean over examples: it is taken of all that an instrument sees at once")
    return task, lines


def _last(outputs, targets):
    """Outputs (n, T, T) for classes (n, T) with one class more, which is nobody's: the last axis is it."""
    length = tuple(targets.shape[1:])
    if targets.is_floating_point() or len(length) != 1 or tuple(outputs.shape[1:]) != 2 * length:
        return outputs
    return functional.pad(outputs, (0, 1), value=IMPOSSIBLE)


def _check(network, targets, outputs):
    """Raise ValueError for what would be taken for something else."""
    shape, where = tuple(outputs.shape[1:]), tuple(targets.shape[1:])
    if not targets.is_floating_point() and shape in ((), (1,)) and targets.ndim == 1:
        raise ValueError(
            "one output tells no classes apart: give targets as floats (then its squared error counts), and "
            "for a logit loss=, e.g. lambda o, t: binary_cross_entropy_with_logits(o.flatten(), t)"
        )
    if line := unfit(targets, shape):
        raise ValueError(line)
    if targets.is_floating_point() or len(where) != 1 or shape != 2 * where:
        return
    tokens = (v for v in leaves(network.data.inputs) if not v.is_floating_point())
    if network.key is None and not any(tuple(v.shape[1:2]) == where for v in tokens):
        raise ValueError(
            f"whether classes come second or last in outputs {tuple(outputs.shape)} cannot be told: "
            "give examples of another length"
        )


def _tried(task):
    """Examples that tell losses apart: of as many classes as there are, and spread over all."""
    rows = task.labelled(torch.arange(len(task.targets), device=task.targets.device))
    some = positions(len(rows), TRIED)
    if task.classes and not task.positions:  # the first of each class
        firsts = np.unique(task.targets[rows].cpu(), return_index=True)[1]
        some = list(dict.fromkeys([*firsts[positions(len(firsts), TRIED)].tolist(), *some]))[:TRIED]
    return rows[sorted(some)]


def _mean(network, task):
    """Whether the task's own loss is a mean over its examples."""
    rows = _tried(task)
    targets = task.targets[rows]
    try:
        if not task.stated:
            return is_mean(task.loss, network(rows), targets)
        parts = [(task.loss(network(part), task.targets[part]), part) for part in rows.split(3)]
        weights = [task.weight(task.targets[part]) for _, part in parts]
        mean = sum(float(loss) * w for (loss, _), w in zip(parts, weights, strict=True)) / sum(weights)
        return abs(float(task.loss(network(rows), targets)) - mean) <= 1e-4 * abs(mean)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False  # a loss that wants several examples


def _number(returned):
    loss = loss_in(returned)
    return None if loss is None else float(loss)


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
    if where == shape and where not in axes and int(targets.max()) == 1:
        return (
            f"targets {whole} of 0 and 1 are for as many outputs: if examples may have several labels, give "
            "floats, and loss=torch.nn.functional.binary_cross_entropy_with_logits"
        )
    if where in axes and (most := int(targets.max())) == VOID and min(shape[0], shape[-1]) <= VOID:
        return f"there are classes up to {most}: where {most} stands for no class, give {IGNORED}"
    return None


def _told(where):
    return f"({', '.join(map(str, ('n', *where)))})" if where else "(n,)"
