"""The stored runs that pages of prose show, above all those of "one network", which the tour follows."""

import re
from pathlib import Path

import pandas as pd

from alignbook import paths

STUDY = "synthesis/one_network"


def folder(study: str = STUDY) -> Path:
    """Where the book keeps a study's runs, whatever store a reader writes to."""
    return paths.root() / "data" / "results" / study


def table(study: str = STUDY, first: str = "convolutional") -> pd.DataFrame:
    """All rows of the runs whose names begin with ``first``, with their seed."""
    tables = []
    for path in sorted(folder(study).glob(f"{first}-*.csv")):
        seed = int(re.search(r"-seed(\d+)", path.stem)[1])
        tables.append(pd.read_csv(path).assign(seed=seed))
    return pd.concat(tables, ignore_index=True)
