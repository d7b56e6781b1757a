"""What a network is asked, where strangers' networks need more than :mod:`.task`, which studies reach.

As many positions as there are classes: which axis of outputs (n, T, T) is which. One output for classes.
"""

import torch
from torch.nn import functional

from .data import leaves
from .network import Network
from .task import Task, loss_in, outputs_of, understood

IMPOSSIBLE = -1e9  # the score of a class that is nobody's


@torch.no_grad()
def task(network, rows, loss, seed):
    """As :meth:`.network.Network.task`; of tokens, and with Hugging Face's networks, classes come last.

    Raises ValueError where neither tells, and for one output without a loss of its own.
    """
    outputs, targets = outputs_of(returned := network.answer(rows)), network.data.targets
    if loss is None and not targets.is_floating_point() and outputs.shape[1:] == (1,) and targets.ndim == 1:
        raise ValueError(
            "one output tells no classes apart: give targets as floats (then its squared error counts), and "
            "for a logit loss=, e.g. lambda o, t: binary_cross_entropy_with_logits(o[:, 0], t)"
        )
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
