"""The stored runs of the network that the tour follows: those of the study "one network"."""

from pathlib import Path

import pandas as pd

from alignbook import paths

STUDY = "synthesis/one_network"


def folder() -> Path:
    """Where the book keeps them, whatever store a reader writes to."""
    return paths.root() / "data" / "results" / STUDY


def table() -> pd.DataFrame:
    """The convolutional network's rows by task, step and seed."""
    tables = []
    for path in sorted(folder().glob("convolutional-*.csv")):
        seed = int(path.stem.split("-")[2].removeprefix("seed"))
        tables.append(pd.read_csv(path).assign(seed=seed))
    return pd.concat(tables, ignore_index=True)
