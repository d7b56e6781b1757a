"""Files, locks, environment variables for a while, and what numbers depend on in this system."""

import importlib.metadata
import os
import platform
import secrets
import shutil
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

_PACKAGES = ("numpy", "scipy", "pandas", "torch")
INSTRUCTIONS = ("ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "OPENBLAS_CORETYPE")  # variables that choose a library's


def cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def replace(path, content):
    """Write bytes to ``path``, a Path in an existing folder: whole or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(partial, "xb") as file:  # not tempfile, which takes no notice of the umask
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def reason(error):
    """Why an OSError was raised, a short text; of the many that copying a folder collects, the first."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][-1]).partition("] ")[2].partition(":")[0] or "a folder cannot be copied"
    return error.strerror or str(error)


def unwritable(folder):
    """Why nothing can be written into ``folder``, a short text, or None; the folder is made if it can be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror


@contextmanager
def locked(path, wait=True):
    """Inside, the lock file ``path`` is held against other processes; its folder is made.

    wait : False raises BlockingIOError where another process holds it. Where the system has no such locks
    nothing is held, and a line says so.
    """
    if fcntl is None:
        _say_that_nothing_is_locked()
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@cache
def _say_that_nothing_is_locked():
    print("alignbook: files cannot be locked on this system: run one command at a time", file=sys.stderr)


@contextmanager
def environment(variables):
    """Inside, environment variables {name: text} are set; afterwards they are as before."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def processor(key):
    """Text under ``key`` ("model name", "flags", …) for the first processor; None where Linux tells none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            values = (line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{key}\t"))
            return next(values, None)
    except OSError:
        return None


@cache
def versions():
    """Versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version()} | {
        package: importlib.metadata.version(package) for package in _PACKAGES
    }


def features(kind):
    """What decides how this processor rounds, beside its model: {name: text}.

    kind : "cpu" or "cuda", what computes. The instructions that PyTorch uses, which ``ATEN_CPU_CAPABILITY``
    may limit, and of the variables that do so for the libraries below it those that are set.
    """
    import torch

    chosen = {name: os.environ[name] for name in INSTRUCTIONS if os.environ.get(name)}
    return {"kind": kind, "capability": torch.backends.cpu.get_cpu_capability(), **chosen}


def to_stderr(text):
    """A ``progress`` that writes whole lines to standard error."""
    print(text, file=sys.stderr, flush=True)
