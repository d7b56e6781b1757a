"""One value per data set and seed, and how a page writes them."""

import pandas as pd


def per_seed(rows, measure):
    """{(data set, seed): measure of its rows} as a Series of floats."""
    return pd.Series({key: float(measure(part)) for key, part in rows.groupby(["dataset", "seed"])})


def mean_spread(values, digits=2):
    """``0.97 ± 0.01`` of a Series: mean and standard deviation; the mean alone of a single value."""
    spread = f" ± {values.std():.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"
