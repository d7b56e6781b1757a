"""Whether features align before filters, and whether they need the first layer to learn. All is ours."""

import numpy as np
import pandas as pd

from alignbook.over_seeds import at, ratio, weakest
from alignbook.statements import Requirement, Statement, over

LAYERS = {"convolutional": "convolution", "local": "locally connected layer", "dense": "dense layer"}
CELL = ["scale", "rate", "width"]


def half_time(series):
    """Octaves of steps, log₂(1 + step), at which half of the length of the path is made; nan without change."""
    path = np.append(0.0, np.cumsum(np.abs(np.diff(series.to_numpy(dtype=float)))))
    return np.interp(path[-1] / 2, path, np.log2(1 + series.index)) if path[-1] > 0 else np.nan


def per_run(table, layer, trained, measure):
    """(seeds × cells of the grid) frame of ``measure(rows by step)``."""
    rows = at(table, layer=layer, trained=trained)
    found = {key: measure(run.set_index("step").sort_index()) for key, run in rows.groupby(["seed", *CELL])}
    if not found:
        return pd.DataFrame()
    return pd.Series(found, dtype=float).rename_axis(["seed", *CELL]).unstack(CELL)


def lag(run):
    """Octaves from the features' half-time to the filters'."""
    return half_time(run["random_bases"] - run["misalignment"]) - half_time(run["features"])


def gain(run):
    """By how much the features' alignment grows."""
    return run["features"].iloc[-1] - run["features"].iloc[0]


def fall(run):
    """Share of its first value that the loss loses."""
    return 1 - run["loss"].iloc[-1] / run["loss"].iloc[0]


def order(table, parameters, layers):
    return per_run(table, layers, "all", lag).mean(axis=1)


def everywhere(table, parameters, layers):
    cells = per_run(table, layers, "all", lag)
    return weakest(*(cells[cell] for cell in cells))


def frozen(table, parameters, layers):
    means = [per_run(table, layers, trained, gain).mean(axis=1) for trained in ("others", "all")]
    return ratio(*means)


LEARNED = Requirement(
    "share of its first value that the loss loses, least over the grid",
    lambda t, p, layers: per_run(t, layers, "all", fall).mean().min(),
    at_least=0.5,
)
TIME = {
    "above": 0, "matters": 0.1, "unit": "octaves of steps", "ours": True, "requires": (LEARNED,),
    "because": "a fifth of the distance between two records", "each": over("layers", LAYERS),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "order", "The features have made half of their change towards the labels before the first layer's "
        "weights have made half of theirs towards the data.",
        source="compare Maennel Figure 2 and Imani Figure 2", of=order, headline=True, **TIME,
    ),
    Statement("everywhere", "So it is in every cell of the grid.", source="ours", of=everywhere, **TIME),
    Statement(
        "frozen", "With the first layer frozen the features gain more than half of what they gain when it is "
        "trained.", source="ours", of=frozen, above=0.5, matters=0.1, unit="of the trained network's gain",
        because="a tenth of the gain", ours=True, requires=(LEARNED,), each=over("layers", LAYERS),
    ),
]  # fmt: skip
