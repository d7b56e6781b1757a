"""What takes long to make and is wanted again, kept beside the results: made once, then read.

``<folder>/<key>.pt``. The key is a digest of everything that the content depends on: the code that makes it
(:mod:`alignbook.code`), its arguments with the digest of the data, the networks that it starts from, the
versions and the features of the processor.
"""

import contextlib
import hashlib
import io
import json
import pickle
import time

from alignbook import code, paths, system

UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, AttributeError)
_spared = 0.0  # seconds, see spared()


def kept(make, arguments):
    """What ``make()`` returns, read where it was kept.

    make : a function whose module imports all that it calls. It returns nested dicts and lists of tensors and
        numbers, which come back on the CPU.
    arguments : dict that JSON can hold, with everything else that the outcome depends on, the digest of the
        data and the kind of ``device`` too

    A file that cannot be read is made anew; while one process makes it, others that want it wait. Raises what
    ``make`` raises.
    """
    global _spared
    import torch

    entered = time.monotonic()
    folder = paths.checkpoints()
    name = _key(make, arguments)
    path = folder / f"{name}.pt"
    with system.locked(folder / f"{name}.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            value, seconds = content["made"], content["seconds"]
            _spared += seconds - (time.monotonic() - entered)
            return value
        except (*UNREADABLE, pickle.UnpicklingError):
            pass  # missing or broken
        began, before = time.monotonic(), _spared
        value = make()
        seconds = time.monotonic() - began + _spared - before  # it may have read others
        file = io.BytesIO()
        torch.save({"made": value, "seconds": seconds}, file)
        with contextlib.suppress(OSError):  # a full disk costs the checkpoint, not what was trained
            system.replace(path, file.getvalue())
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)["made"]


def spared():
    """Seconds that this process would have taken longer, had it found no checkpoint: a running total."""
    return _spared


def _key(make, arguments):
    depends_on = {
        "function": make.__qualname__,
        "code": code.digest(make.__module__),
        "arguments": arguments,
        "networks": _networks(make),
        "versions": system.versions(),
        "processor": system.features(arguments["device"]),
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, allow_nan=False).encode()).hexdigest()[:32]


def _networks(make):
    """{name: SHA-256 of its state} of the networks that ``make`` takes from the function around it."""
    from torch import nn

    digests = {}
    for name, cell in zip(make.__code__.co_freevars, make.__closure__ or (), strict=True):
        if isinstance(cell.cell_contents, nn.Module):
            digest = hashlib.sha256()
            for key, value in cell.cell_contents.state_dict().items():
                digest.update(f"{key} {tuple(value.shape)} ".encode() + value.cpu().numpy().tobytes())
            digests[name] = digest.hexdigest()
    return digests
