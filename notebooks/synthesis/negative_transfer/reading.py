"""What each intervention gives back of the test error that transfer costs: measures and statements."""

import numpy as np
import pandas as pd

from companion.over_seeds import at
from companion.statements import Case, Number, Statement, least, pooled

from .arms import ADDED, DOUBLED, REALIGNED, REVIVED, TRANSFERRED, UNTRAINED

UNRELATED = "unrelated"


def errors(table, step_size, task=UNRELATED, column="best"):
    """(seeds × arms) frame of log2 of a test error."""
    rows = at(table, step_size=step_size, task=task)
    if rows.empty:
        return pd.DataFrame()
    return np.log2(rows.pivot(index="seed", columns="arm", values=column).astype(float)).dropna()


def change(above, below):
    """Reading: log2 of the test error on the features ``above`` over that on ``below``, by seed."""

    def of(table, parameters, step_size, column="best"):
        frame = errors(table, step_size, column=column)
        return pd.Series(dtype=float) if frame.empty else frame[above] - frame[below]

    return of


def information(table, parameters, step_size):
    """What added untrained units give transferred features beyond what they give untrained ones, log2."""
    frame = errors(table, step_size)
    if frame.empty:
        return pd.Series(dtype=float)
    return (frame[TRANSFERRED] - frame[ADDED]) - (frame[UNTRAINED] - frame[DOUBLED])


def share(arm):
    """Reading: percent of the harm that ``arm`` removes, ratio of the means over seeds."""

    def of(table, parameters, step_size):
        frame = errors(table, step_size).mean()
        if frame.empty:
            return None
        return 100 * (frame[TRANSFERRED] - frame[arm]) / (frame[TRANSFERRED] - frame[UNTRAINED])

    return of


def mean_of(column, arm=TRANSFERRED, task=UNRELATED, factor=1.0):
    """Reading: ``column`` of an arm, mean over the seeds."""

    def of(table, parameters, step_size):
        rows = at(table, step_size=step_size, task=task, arm=arm)
        return factor * rows[column].mean() if len(rows) else None

    return of


def rates(parameters):
    """A case per step size of the source's training."""
    return [Case(f"{size:g}", f"Adam at {size:g}", {"step_size": size}) for size in parameters["step_sizes"]]


LOG2 = {
    "above": 0, "matters": 0.1, "unit": "log2",
    "because": "7 % of an error; a curve of errors in the paper's figure is about as thick",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "harm", "On an unrelated task linear models do worse on transferred features than on untrained ones: "
        "the step size that shows it least.",
        source="Imani et al., Figure 11", of=least(change(TRANSFERRED, UNTRAINED), rates), **LOG2,
    ),
    Statement(
        "revived", "Giving silent units their untrained weights back lowers this error.",
        source="Maennel et al., Section 3: too few units are left", of=change(TRANSFERRED, REVIVED),
        each=rates, **LOG2,
    ),
    Statement(
        "realigned", "Restoring the features' alignment, by another order of their singular values, lowers "
        "this error.",
        source="Imani et al., Sections 3 and 7.1", of=change(TRANSFERRED, REALIGNED), each=rates,
        headline=True, **LOG2,
    ),
    Statement(
        "healed", "Features with their alignment restored do as well as untrained ones (mean over the step "
        "sizes).",
        source="Imani et al., Section 7.1, read strictly", of=pooled(change(REALIGNED, UNTRAINED), rates),
        near=0.0, within=0.1, unit="log2",
    ),
    Statement(
        "information", "Adding untrained units helps transferred features more than it helps untrained ones: "
        "the step size that shows it least.",
        source="ours", ours=True, of=least(information, rates), **LOG2,
    ),
]  # fmt: skip
NUMBERS = [
    Number(id, text, of, unit=unit, each=rates)
    for id, text, of, unit in (
        ("silent", "silent units", mean_of("silent"), ""),
        ("span", "labels in the span of transferred features", mean_of("span", factor=100), "%"),
        ("span-untrained", "of untrained features", mean_of("span", UNTRAINED, factor=100), "%"),
        ("harm-revived", "harm removed by reviving silent units", share(REVIVED), "%"),
        ("harm-realigned", "harm removed by restoring alignment", share(REALIGNED), "%"),
        ("harm-added", "harm removed by adding untrained units", share(ADDED), "%"),
    )
]
