"""Weights as trainers keep them: state dicts, checkpoints, safetensors; and fitted to a network."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from alignbook.errors import AlignbookError, on_one_line

from .copies import copied
from .parameters import some

CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")  # where trainers keep the weights
SAVED = ("model.safetensors", "pytorch_model.bin")  # in a folder of Hugging Face's


def read(path: str | Path) -> dict[str, torch.Tensor]:
    """{name: tensor} of a file: safetensors (of the package), or what ``torch.load`` reads as weights only.

    path : of the file, or of a folder that Hugging Face's ``save_pretrained`` has written.
    Raises AlignbookError, one line.
    """
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in SAVED if (path / name).is_file()), path)
    if path.is_dir():
        raise AlignbookError(f"{path} is a folder that holds neither of {', '.join(SAVED)}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = unpacked(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # a file of any content
        what = on_one_line(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if "weights_only" in str(error) or "WeightsUnpickler" in str(error):
            what = "it holds more than weights: save the state dict alone, torch.save(model.state_dict(), …)"
        raise AlignbookError(f"{path} cannot be read: {what}") from None
    if not _is_state(state):
        raise AlignbookError(f"{path} holds no state dict: names with tensors")
    return state


def unpacked(checkpoint):
    """The state dict inside of a trainer's checkpoint; anything else is returned as it is."""
    for key in CHECKPOINT_KEYS:
        if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get(key), Mapping):
            checkpoint = checkpoint[key]
    return checkpoint


def _is_state(given):
    tensors = isinstance(given, Mapping) and [isinstance(v, torch.Tensor) for v in given.values()]
    return bool(tensors) and all(tensors)


def state_of(given, what: str) -> Mapping:
    """The state dict of a state dict, a checkpoint or a path. Raises ValueError for anything else."""
    state = read(given) if isinstance(given, str | Path) else unpacked(given)
    if not isinstance(state, Mapping) or not any(isinstance(v, torch.Tensor) for v in state.values()):
        kind = "a dict without tensors" if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"{what} must be an nn.Module, a state dict, a checkpoint or its path, not {kind}")
    return state


def matched(state: Mapping, own: Mapping) -> tuple[dict, str | None]:
    """(the state dict under the names of ``own``, a line on what is left over or None).

    Wrappers and trainers' modules put a prefix before names, and may hold other weights beside the network's:
    the prefix is taken off that makes the most names fit, first in shape, too. Where the names of ``own``
    begin with more, as those of a classifier made of this network, it is put on, unless several fit alike.
    """
    state = {str(name): v for name, v in state.items() if isinstance(v, torch.Tensor)}

    def fits(renamed):
        both = [name for name in renamed if name in own]
        return sum(renamed[name].shape == own[name].shape for name in both), len(both)

    shorter = {
        prefix: {name.removeprefix(prefix): v for name, v in state.items() if name.startswith(prefix)}
        for prefix in _beginnings(state)
    }
    best = max(shorter, key=lambda prefix: (*fits(shorter[prefix]), -len(prefix)))
    longer = {prefix: {prefix + name: v for name, v in state.items()} for prefix in _beginnings(own)}
    counts = {prefix: fits(renamed) for prefix, renamed in longer.items() if prefix}
    most = max(counts.values(), default=(0, 0))
    outer = [prefix for prefix, count in counts.items() if count == most]
    if most[0] and len(outer) == 1 and most > fits(shorter[best]):
        return longer[outer[0]], f"its weights are compared with those under {outer[0]}"
    left = [name for name in state if not name.startswith(best)]
    line = f"of its weights those under {best} are taken; left over: {some(left)}" if left else None
    return shorter[best], line


def _beginnings(names):
    """What names begin with, up to each of their dots, and nothing."""
    parts = (name.split(".") for name in names)
    return dict.fromkeys(["", *(".".join(p[:i]) + "." for p in parts for i in range(1, len(p)))])


def shared(state: Mapping, other: Mapping) -> tuple[dict, list[str]]:
    """({name: (tensor, tensor)} of floats that both have in one shape and finite, lines on the rest)."""
    state, _ = matched(state, other)
    both = {name: (state[name].detach().cpu(), other[name].detach().cpu()) for name in other if name in state}
    same = {name: pair for name, pair in both.items() if pair[0].shape == pair[1].shape}
    floats = {name: pair for name, pair in same.items() if all(v.is_floating_point() for v in pair)}
    finite = {name: pair for name, pair in floats.items() if all(v.isfinite().all() for v in pair)}
    rest = {
        "of other shapes, left out:": [name for name in both if name not in same],
        "only before, left out:": [name for name in state if name not in other],
        "only now, left out:": [name for name in other if name not in state],
        "not finite, left out:": [name for name in floats if name not in finite],
    }
    return finite, [f"{what} {some(names)}" for what, names in rest.items() if names]


def filled(network: nn.Module, state: Mapping) -> tuple[nn.Module | None, str | None]:
    """(a copy of the network with these weights, None), or (None, why they do not fit).

    Integers that one of the two does not keep, such as counts of batches, are left as they are. Weights that
    the network ties to others, as language models do with their heads, need not be there twice: safetensors
    keeps them once.
    """
    network = copied(network)
    own = network.state_dict()
    given = {v.data_ptr() for name, v in own.items() if name in state and v.numel()}
    missing = [
        name
        for name, v in own.items()
        if name not in state and v.is_floating_point() and v.data_ptr() not in given
    ]
    extra = [name for name in state if name not in own and state[name].is_floating_point()]
    if missing or extra:
        what = [f"lack {some(missing)}"] * bool(missing) + [f"have {some(extra)} beside"] * bool(extra)
        return None, f"its weights {' and '.join(what)}"
    if odd := [name for name in state if name in own and own[name].shape != state[name].shape]:
        return None, f"its weights have other shapes: {some(odd)}"
    network.load_state_dict(state, strict=False)
    return network, None
