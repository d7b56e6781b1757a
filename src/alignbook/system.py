"""Files replaced as a whole, environment variables for a while, and what Linux says of the processor."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path


def replace(path, content):
    """Write bytes to ``path``, a Path in an existing folder: whole or not at all."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


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
