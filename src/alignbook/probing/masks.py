"""Padding: positions of sequences that hold nothing, which count neither as targets nor as features.

Which axis holds the positions is found by leaving out the last one and seeing which axis becomes shorter.
"""

from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_map

from .data import names_of

KEEPS = ("attention_mask", "input_mask")  # 1 where there is something
DROPS = "padding_mask"  # how the names of masks end that are True where there is nothing


def mask_of(inputs, forward):
    """(n, T) bool, where the sequences hold something; None: they have no mask, or it hides nothing.

    inputs : a dict, or a tuple of what ``forward`` takes in this order.
    """
    named = inputs
    if not isinstance(inputs, Mapping):
        named = zip(names_of(forward)[0], inputs, strict=False) if isinstance(inputs, tuple) else ()
    for name, values in dict(named).items():
        if values.ndim != 2 or not (name in KEEPS or name.endswith(DROPS)):
            continue
        mask = values.bool() if name in KEEPS else ~values.bool()
        plain = values.dtype == torch.bool or bool(((values == 0) | (values == 1)).all())
        if plain and not mask.all():
            return mask
    return None


def cut(inputs, length):
    """The inputs without the last one of so many positions; None: as they are."""
    return tree_map(lambda v: v[:, :-1] if v.ndim > 1 and v.shape[1] == length else v, inputs)


def places(now, shorter, length):
    """Axes of values (n, …) that hold the positions: those that became shorter by one.

    shorter : the values without the last position; None: the network does not take that, and the second axis
    of three and more is taken for the positions where it is as long.
    """
    if shorter is None:
        return (1,) if now.ndim > 2 and now.shape[1] == length else ()
    if shorter.ndim != now.ndim:
        return ()
    lengths = zip(now.shape, shorter.shape, strict=True)
    return tuple(at for at, pair in enumerate(lengths) if at and pair == (length, length - 1))


def hidden(values, mask, axes):
    """The values with zeros where the mask (n, T) has nothing, along these axes."""
    for at in axes:
        shape = [1] * values.ndim
        shape[0], shape[at] = mask.shape
        values = values.masked_fill(~mask.to(values.device).view(shape), 0)
    return values
