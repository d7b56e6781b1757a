"""What a network starts from, and the pairs of networks that differ by it alone."""

import pandas as pd

STARTS = {"scratch": "random", "pretrained": "pre-trained"}


def pairs(rows, measure):
    """DataFrame seed × start of ``measure`` of the rows of one network.

    Only seeds with both starts, both of which reached the loss to stop at.
    """
    if rows.empty:
        return pd.DataFrame(columns=list(STARTS), dtype=float)
    values = {
        key: float(measure(part))
        for key, part in rows.groupby(["seed", "start"])
        if "reached" not in part or part["reached"].astype(bool).all()
    }
    if not values:
        return pd.DataFrame(columns=list(STARTS), dtype=float)
    return pd.Series(values).unstack().reindex(columns=list(STARTS)).dropna()
