"""Trial runs: which initial scale the rule takes, and what the precision of products changes (Figure 2)."""

import math

import pandas as pd

from ..filter_runs import trial_rows

GUESSING = math.log(10)  # nats: the loss of a network that knows nothing of ten classes
LEARNS = 0.05  # nats below guessing, at the end of every trial run: then a scale counts as one that learns


def learnable(table, parameters):
    """The sweep at its end, one row per scale, and whether the rule takes the scale (``chosen``).

    Columns: init_scale, runs, worst_loss (nats), least_displacement, most_dead, learns. A scale learns
    only if none of its runs is missing or diverged.
    """
    last = ends_of_sweep(table, parameters)
    result = last.groupby("init_scale").agg(
        runs=("unit", "nunique"),
        worst_loss=("loss", "max"),
        least_displacement=("displacement", "min"),
        most_dead=("dead_units", "max"),
    )
    result = result.reset_index()
    learns = (result["runs"] == result["runs"].max()) & (result["worst_loss"] <= GUESSING - LEARNS)
    furthest = result["least_displacement"].where(learns).max()
    result["learns"] = learns
    result["chosen"] = learns & (result["least_displacement"] == furthest)
    return result


def ends_of_sweep(table, parameters):
    """The last row of each trial run of whole length."""
    rows = trial_rows(table, epochs=parameters["epochs"], precision=parameters["precision"])
    return rows.sort_values("step").groupby("unit").tail(1)


def precisions(table, parameters):
    """The end of the short runs in two precisions, one row per quantity.

    Columns float32 and bfloat16: mean and standard deviation over the seeds, as (mean, sd) tuples;
    difference: the same of bfloat16 less float32 seed by seed. Empty where either precision is missing.
    """
    names = ["misalignment", "basis_mean", "loss", "displacement"]
    short = min(parameters["precision_epochs"], parameters["epochs"])
    found = {}
    for name in ("float32", "bfloat16"):
        rows = trial_rows(table, epochs=short, precision=name)
        found[name] = rows.sort_values("step").groupby("seed").tail(1).set_index("seed")[names]
    found["difference"] = (found["bfloat16"] - found["float32"]).dropna()  # of seeds that neither has lost
    if found["difference"].empty:
        return pd.DataFrame()
    return pd.DataFrame(
        {key: [(rows[name].mean(), rows[name].std(ddof=1)) for name in names] for key, rows in found.items()},
        index=names,
    )
