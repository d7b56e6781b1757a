"""The stored runs of the network that the tour follows: those of the study "one network"."""

import pandas as pd

from alignbook import paths

STUDY = "synthesis/one_network"


def folder():
    """Where the book keeps them, whatever store a reader writes to."""
    return paths.root() / "data" / "results" / STUDY


def table():
    """Rows by task, step and seed of the convolutional network; None where nothing is stored."""
    found = []
    for path in sorted(folder().glob("convolutional-*.csv")):
        seed = int(path.stem.split("-")[2].removeprefix("seed"))
        found.append(pd.read_csv(path).assign(seed=seed))
    return pd.concat(found, ignore_index=True) if found else None
