"""One value per data set and seed, and how a page writes them."""

import pandas as pd

from companion.claims import t_interval
from companion.over_seeds import at


def per_seed(rows, measure):
    """{(data set, seed): measure of its rows} as a Series of floats, without missing values."""
    if rows.empty:
        return pd.Series(dtype=float)
    found = {key: float(measure(part)) for key, part in rows.groupby(["dataset", "seed"])}
    return pd.Series(found, dtype=float).dropna()


def over_sets(values):
    """One value per seed, the mean over its data sets: a design has data sets, a sample has seeds."""
    return values.groupby(level=1).mean().rename_axis("seed") if len(values) else values


def widest(rows):
    """The rows of the largest m of the column ``width``."""
    return at(rows, width=rows["width"].max()) if len(rows) else rows


def factor(logs, digits=1):
    """``2.5 (1.1 to 5.9)``: the factor of which ``logs`` are base-2 logarithms, one per seed.

    The geometric mean, and the 95 % t interval of the mean logarithm where there is one; a dash for none.
    """
    _, mean, ends = t_interval(logs)
    if mean is None:
        return "–"
    return f"{2**mean:.{digits}f}" + (
        f" ({2 ** ends[0]:.{digits}f} to {2 ** ends[1]:.{digits}f})" if ends else ""
    )
