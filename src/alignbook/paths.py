"""Where things are: a checkout's root, its notebooks, the stores of results."""

import os
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]


def settle():
    """Make the paths in the environment absolute: a notebook's kernel has a working folder of its own."""
    for part in ("ROOT", "RESULTS", "CHECKPOINTS", "BUILD", "DATA"):
        name = f"ALIGNBOOK_{part}"
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])


def root():
    """The checkout's root: ``ALIGNBOOK_ROOT``, else the folder that holds ``src/alignbook``."""
    return Path(os.environ.get("ALIGNBOOK_ROOT") or _CHECKOUT)


def results():
    """Where runs write: ``ALIGNBOOK_RESULTS``, else ``results`` among the generated files."""
    return Path(os.environ.get("ALIGNBOOK_RESULTS") or build() / "results")


def book_results():
    """The book's own store: ``ALIGNBOOK_RESULTS``, else ``data/results`` in the checkout."""
    return Path(os.environ.get("ALIGNBOOK_RESULTS") or root() / "data" / "results")


def stores():
    """Where results are read, the reader's own before the book's."""
    return list(dict.fromkeys((results(), book_results())))


def data():
    """Where the archives of data lie, as :func:`alignbook.data.images.location` has it."""
    return Path(os.environ.get("ALIGNBOOK_DATA") or root() / "data")


def checkpoints():
    """What is kept of training: ``ALIGNBOOK_CHECKPOINTS``, else ``.checkpoints`` in the book's store."""
    return Path(os.environ.get("ALIGNBOOK_CHECKPOINTS") or book_results() / ".checkpoints")


def build():
    """Everything generated: executed notebooks, staged pages, the rendered book."""
    return Path(os.environ.get("ALIGNBOOK_BUILD") or root() / "_build")


def shown(path):
    """``path`` as a message prints it: relative to the working folder where that is shorter."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
