"""The package without its book: installed from a wheel, no notebooks beside it."""

import importlib.util
import os
from contextlib import contextmanager
from pathlib import Path

from alignbook import paths

# What an optional package is imported as → the extra that brings it.
EXTRAS = {
    "distributed": "cluster", "IPython": "book", "ipykernel": "book", "jupyter_client": "book",
    "jupytext": "book", "nbclient": "book", "nbformat": "book", "papermill": "book", "pygments": "book",
    "seaborn": "book", "skimage": "data", "sklearn": "data", "threadpoolctl": "book", "torchvision": "data",
    "matplotlib": "report", "PIL": "report", "yaml": "report",
}  # fmt: skip


def has_checkout():
    """Whether there are notebooks: beside the package's source, or where ALIGNBOOK_ROOT says."""
    return bool(os.environ.get("ALIGNBOOK_ROOT")) or (paths.root() / "notebooks").is_dir()


def settle():
    """Where there is no checkout, data belong in the user's cache, not beside the interpreter's libraries."""
    if not has_checkout():
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ.setdefault("ALIGNBOOK_DATA", str(Path(cache) / "alignbook"))


def has_companion():
    """Whether the book's own code is at hand, as in an environment that was made in its checkout."""
    return importlib.util.find_spec("companion") is not None


def missing(error):
    """One line for a ModuleNotFoundError of an optional package; None where it is another one."""
    name = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(name)
    return extra and f"this needs {name}: pip install 'alignbook[{extra}]'"


@contextmanager
def extras():
    """Inside, an optional package that is missing is told in one line, still as a ModuleNotFoundError."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = missing(error)
        if line is None or str(error) == line:
            raise
        raise ModuleNotFoundError(line, name=error.name) from None
