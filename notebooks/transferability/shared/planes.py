"""Landscapes on a plane through a network's weights as rows of a table, and back."""

import pandas as pd


def rows_of(found):
    """A :class:`alignbook.metrics.Landscape` as a DataFrame: ``alpha``, ``beta``, ``loss``, a point a row."""
    return pd.DataFrame(
        [
            {"alpha": round(alpha, 9), "beta": round(beta, 9), "loss": round(float(found.loss[i, j]), 8)}
            for i, alpha in enumerate(map(float, found.alpha))
            for j, beta in enumerate(map(float, found.beta))
        ]
    )


def grid(rows):
    """(alpha (points,), beta (points,), loss (points, points)) of rows of one landscape.

    Raises ValueError where a point occurs twice, that is where the rows are those of several.
    """
    loss = rows.pivot(index="alpha", columns="beta", values="loss")
    return loss.index.to_numpy(), loss.columns.to_numpy(), loss.to_numpy()
