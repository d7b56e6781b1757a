"""What takes long to make and is wanted again, kept beside the results: made once, then read.

``<folder>/<key>.pt``. The key is a digest of everything that the content depends on: the code that makes it,
counted as results count theirs, its arguments, the data, the versions and the features of the processor.
"""

import hashlib
import io
import json
import pickle
import time

from alignbook import paths, system

UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, AttributeError)
_spared = 0.0  # seconds, see spared()


def checkpoint(function, arguments, *, data, device, report=None):
    """What ``function(**arguments, device=device, report=report)`` returns, read where it was kept.

    function : at the top level of a module of this package, so that all it calls is part of the key; it
        returns nested dicts and lists of tensors and numbers, which come back on the CPU
    arguments : dict that JSON can hold, with everything else that the outcome depends on
    data : names of the data sets that it reads
    device : "cpu", "cuda" or a torch.device, whose kind counts; report : ``report(done, text)`` or None

    A file that cannot be read is made anew; while one process makes it, others that want it wait.
    Raises what ``function`` raises, and DataError.
    """
    global _spared
    import torch

    entered = time.monotonic()
    folder = paths.checkpoints()
    name = _key(function, arguments, data, torch.device(device).type)
    path = folder / f"{name}.pt"
    with system.locked(folder / f"{name}.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
            made, seconds = kept["made"], kept["seconds"]
            _spared += seconds - (time.monotonic() - entered)
            return made
        except (*UNREADABLE, pickle.UnpicklingError):
            pass  # missing or broken
        began, before = time.monotonic(), _spared
        made = function(**arguments, device=device, report=report)
        seconds = time.monotonic() - began + _spared - before  # it may have found others
        content = io.BytesIO()
        torch.save({"made": made, "seconds": seconds}, content)
        system.replace(path, content.getvalue())
        content.seek(0)
        return torch.load(content, map_location="cpu", weights_only=True)["made"]


def spared():
    """Seconds that this process would have taken longer, had it found no checkpoint: a running total."""
    return _spared


def _key(function, arguments, data, kind):
    from alignbook.data import tables
    from alignbook.runs.digest import code_digest  # here: the frame stands above this module

    made_from = {
        "function": function.__qualname__,
        "code": code_digest(function),
        "arguments": arguments,
        "data": {name: tables.digest(name) for name in data},
        "versions": system.versions(),
        "processor": system.features(kind),
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True, allow_nan=False).encode()).hexdigest()[:32]
