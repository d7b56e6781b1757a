"""What Algorithm 1 fixes, and which rows of the table are whose."""

import numpy as np
import pandas as pd

TARGET = 0.5  # Algorithm 1: the kernel's value for two images of one class


def chosen(table, kind, dataset, width=None, target=TARGET):
    """The rows of one kind of network."""
    if "kind" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == kind) & (table["dataset"] == dataset)]
    if kind == "layers":
        rows = rows[np.isclose(rows["target"], target) & (rows["width"] == width)]
    return rows


def accuracies(table, *condition, column="test_accuracy"):
    """One column of the networks, one value per seed (a Series)."""
    rows = chosen(table, *condition)
    return rows.groupby("seed")[column].first() if len(rows) else pd.Series(dtype=float)
