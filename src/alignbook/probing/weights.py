"""Weights as trainers keep them: state dicts, checkpoints, safetensors; and fitted to a network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from alignbook.errors import AlignbookError, on_one_line

from .network import some
from .untouched import copy_of

CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")  # where trainers keep the weights
PREFIXES = ("_orig_mod.", "module.", "model.")  # of compiled networks, of DDP's, of Lightning's
# safetensors' names of types, with how many bytes an entry takes.
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
SAVED = ("model.safetensors", "pytorch_model.bin")  # in a folder of Hugging Face's
HEADER = 100_000_000  # bytes of a safetensors header at most


def read(path):
    """{name: tensor} of a file: safetensors, or what ``torch.load`` reads with ``weights_only=True``.

    path : of the file, or of a folder that Hugging Face's ``save_pretrained`` has written.
    Raises AlignbookError, one line.
    """
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in SAVED if (path / name).is_file()), path)
    if path.is_dir():
        raise AlignbookError(f"{path} is a folder that holds neither of {', '.join(SAVED)}")
    if path.suffix == ".safetensors":
        return plain(_tried(lambda: safetensors(path), path))
    state = unpacked(_tried(lambda: torch.load(path, map_location="cpu", weights_only=True), path))
    if not _is_state(state):
        raise AlignbookError(f"{path} holds no state dict: names with tensors")
    return plain(state)


def unpacked(checkpoint):
    """The state dict inside of a trainer's checkpoint; anything else is returned as it is."""
    for key in CHECKPOINT_KEYS:
        if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get(key), Mapping):
            checkpoint = checkpoint[key]
    return checkpoint


def is_checkpoint(given):
    """Whether a dict is a trainer's checkpoint, and not networks by name, one of which may be ``model``."""
    if not isinstance(given, Mapping) or not _is_state(unpacked(given)):
        return False
    networks = all(isinstance(v, nn.Module | str | Path) or _is_state(unpacked(v)) for v in given.values())
    return any(key in given for key in CHECKPOINT_KEYS[:2]) or not networks


def _is_state(given):
    return (
        isinstance(given, Mapping)
        and bool(given)
        and all(isinstance(v, torch.Tensor) for v in given.values())
    )


def _tried(action, path):
    try:
        return action()
    except Exception as error:  # a file of any content
        if "weights_only" in str(error) or "WeightsUnpickler" in str(error):
            what = "it holds more than weights: save the state dict alone, torch.save(model.state_dict(), …)"
        elif isinstance(error, EOFError | KeyError | IndexError):  # what unpickling other bytes comes to
            what = "it holds no weights that torch.save wrote, or is cut off"
        else:
            what = on_one_line(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        raise AlignbookError(f"{path} cannot be read: {what}") from None


def safetensors(path):
    """{name: tensor}: eight bytes that count a header's, the header in JSON, then the entries."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 2 <= size <= HEADER:
            raise ValueError("this is no safetensors file")
        header = json.loads(file.read(size))
        content = bytearray(file.read())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in TYPES:
            raise ValueError(f"{name} has entries of type {entry['dtype']}, which are not read here")
        kind, (start, stop) = TYPES[entry["dtype"]], entry["data_offsets"]
        shape = entry["shape"]
        count = torch.Size(shape).numel()
        if not 0 <= start <= stop <= len(content) or stop - start != count * kind.itemsize:
            raise ValueError(f"{name} does not fit into the file")
        values = torch.frombuffer(content, dtype=kind, count=count, offset=start) if count else torch.empty(0)
        found[name] = values.to(kind).reshape(shape).clone()
    return found


def plain(state):
    """The state dict without the prefixes that wrappers put before all names."""
    state = {str(name): v for name, v in state.items() if isinstance(v, torch.Tensor)}
    found = True
    while found and state:
        found = next((p for p in PREFIXES if all(name.startswith(p) for name in state)), None)
        if found:
            state = {name.removeprefix(found): v for name, v in state.items()}
    return state


def shared(state, other):
    """({name: (tensor, tensor)} of floats that both have in one shape and finite, lines on the rest)."""
    state, other = _alike(plain(state), other)
    both = {name: (state[name], other[name]) for name in other if name in state}
    same = {name: pair for name, pair in both.items() if pair[0].shape == pair[1].shape}
    finite = {
        name: (a.detach().cpu(), b.detach().cpu())
        for name, (a, b) in same.items()
        if a.is_floating_point() and b.is_floating_point() and a.isfinite().all() and b.isfinite().all()
    }
    odd = [name for name, (a, _) in same.items() if a.is_floating_point() and name not in finite]
    lines = [
        f"{what} {some(names)}"
        for what, names in (
            ("of other shapes, left out:", [name for name in both if name not in same]),
            ("only before, left out:", [name for name in state if name not in other]),
            ("only now, left out:", [name for name in other if name not in state]),
            ("not finite, left out:", odd),
        )
        if names
    ]
    return finite, lines


def matched(state, own):
    """(the state dict under the names of ``own``, a line on what is left over or None).

    Of the components that names begin with, those are taken off that make the most names fit, first in shape,
    too: Lightning's modules call their network as they like, and may hold other weights beside it. Where the
    names of ``own`` begin with more, as a classifier's made of a pre-trained network, this is put on.
    """
    state = plain(state)
    fits = {"": [0, 0]} | _fits(state, own)
    best = max(fits, key=lambda prefix: (*fits[prefix], -len(prefix)))
    outer, count = _outer(state, own)
    if count > fits[best]:
        line = f"its weights are compared with those under {outer}"
        return {outer + name: v for name, v in state.items()}, line
    if not best:
        return state, None
    left = [name for name in state if not name.startswith(best)]
    line = f"of its weights those under {best} are taken; left over: {some(left)}" if left else None
    return {name.removeprefix(best): v for name, v in state.items() if name.startswith(best)}, line


def _fits(longer, shorter):
    """{components: [how many names of ``longer`` fit without them, in shape, too; how many of any shape]}."""
    fits = {}
    for name, values in longer.items():
        parts = name.split(".")
        for prefix, rest in ((".".join([*parts[:i], ""]), ".".join(parts[i:])) for i in range(len(parts))):
            if rest in shorter:
                count = fits.setdefault(prefix, [0, 0])
                count[0] += shorter[rest].shape == values.shape
                count[1] += 1
    return fits


def _outer(state, own):
    """(the components before names of ``own`` with which most names fit, [how many in shape, too; how many]).

    ``("", [0, 0])`` where none fits in shape, or several do equally well.
    """
    fits = _fits(own, state)
    fits.pop("", None)  # nothing put on
    most = max(fits.values(), default=[0, 0])
    best = [prefix for prefix, count in fits.items() if count == most]
    return (best[0], most) if most[0] and len(best) == 1 else ("", [0, 0])


class Fitted(NamedTuple):
    """``network``: a copy with the weights, or None and ``why`` they do not fit; ``state``: the weights under
    the network's names; ``left``: a line on what is left over, or None.
    """

    network: nn.Module | None
    state: dict
    why: str | None
    left: str | None


def fitted(network, state):
    """:class:`Fitted` of a state dict.

    A linear or convolutional layer of another number of outputs, as another head has it, takes their shape.
    Integers that one of the two does not keep, such as counts of batches, are left as they are. Weights that
    the network ties to others, as language models do with their heads, need not be there twice: safetensors
    keeps them once.
    """
    state, left = matched(state, network.state_dict())
    made, why = _made(network, state)
    return Fitted(made, state, why, left)


def _made(network, state):
    """(a copy of the network with these weights, None), or (None, why they do not fit)."""
    made = copy_of(network)
    state, own = _alike(state, made.state_dict())
    given = {v.data_ptr() for name, v in own.items() if name in state and v.numel()}
    missing = [
        name for name, v in own.items()
        if name not in state and v.is_floating_point() and v.data_ptr() not in given
    ]  # fmt: skip
    extra = [name for name in state if name not in own and state[name].is_floating_point()]
    if missing or extra:
        what = [f"lack {some(missing)}"] * bool(missing) + [f"have {some(extra)} beside"] * bool(extra)
        return None, f"its weights {' and '.join(what)}"
    odd = [name for name in state if own[name].shape != state[name].shape and not _resized(made, name, state)]
    if odd:
        return None, f"its weights have other shapes: {some(odd)}"
    try:
        made.load_state_dict(state, strict=False)
    except RuntimeError as error:
        return None, on_one_line(error)
    return made, None


def _alike(state, own):
    """The state dict, under the names of ``own`` where wrappers of one of them made all the difference."""
    for prefix in PREFIXES:
        if not set(state) & set(own):
            longer = {prefix + name: v for name, v in state.items()}
            state = longer if set(longer) & set(own) else state
    return state, own


def _resized(made, name, state):
    """Whether the parameter could take another number of outputs."""
    place, _, parameter = name.rpartition(".")
    module, values = made.get_submodule(place), state[name]
    old = getattr(module, parameter)
    kinds = {nn.Linear: "out_features", nn.Conv1d: "out_channels", nn.Conv2d: "out_channels"}
    size = next((size for kind, size in kinds.items() if isinstance(module, kind)), None)
    if size is None or values.ndim != old.ndim or values.shape[1:] != old.shape[1:]:
        return False
    setattr(module, parameter, nn.Parameter(torch.empty_like(values, dtype=old.dtype, device=old.device)))
    setattr(module, size, len(values))
    return True
