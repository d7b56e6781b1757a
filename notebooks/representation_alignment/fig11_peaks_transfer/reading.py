"""Whether linear models on transferred features do as well as their alignment says (Figure 11).

Gradient descent at step size η after t steps is about where it would be at 1 after ηt, so one step size tells
all; the readings take the largest.
"""

from functools import partial
from itertools import pairwise

import pandas as pd

from companion.over_seeds import at, curves, difference, once, ratio
from companion.statements import Case, Number, Statement, among, least

from ..shared.peaks_design import REPRESENTATIONS
from .design import REDUCTIONS, TASKS

LARGE_REDUCTION = 40  # percent of the training loss: where weights are compared


def rows_of(table, parameters, task, kind="step", size=None):
    """Rows of one task at one step size."""
    size = max(parameters["linear_step_sizes"]) if size is None else size
    return at(table, kind=kind, task=task, linear_step_size=size)


@once
def _errors(table, task, column, size):
    """{representation: (seeds × steps) frame of ``column``}."""
    rows = rows_of(table, {}, task, size=size)
    return {name: curves(at(rows, representation=name), "step", column) for name in REPRESENTATIONS}


def errors(table, parameters, task, column, when, size=None):
    """(seeds × representations) frame of an error at the moment ``when``; empty of no runs.

    when : ``start``; ``fast``, after ``fast_phase`` steps at a step size of 1; ``last``; ``best``, each run
    and representation at its lowest test error. size : the step size; the largest, where it is not given
    """
    size = max(parameters["linear_step_sizes"]) if size is None else size
    found = _errors(table, task, column, size)
    if any(frame.empty for frame in found.values()):
        return pd.DataFrame(columns=list(REPRESENTATIONS))
    if when == "best":
        return pd.DataFrame({name: frame.min(axis=1) for name, frame in found.items()})
    steps = next(iter(found.values())).columns.to_series()
    asked = {"start": 0, "fast": parameters["fast_phase"] / size, "last": steps.max()}[when]
    step = (steps - asked).abs().idxmin()
    return pd.DataFrame({name: frame[step] for name, frame in found.items()})


def ahead(table, parameters, task, column, when, first, second, size=None):
    """How far the error on the features ``first`` lies below that on ``second``, by seed."""
    found = errors(table, parameters, task, column, when, size)
    return difference(found[second], found[first])


def behind_both(table, parameters, when):
    """How far the test error of transferred features lies above both others', on the unrelated task."""
    found = errors(table, parameters, "unrelated", "test_error", when)
    return difference(found["transfer"], found[["original", "init"]].max(axis=1, skipna=False))


def fast_share(table, parameters, task):
    """Share of the training loss of transferred features that the fast phase removes, by seed."""
    after, start = (
        errors(table, parameters, task, "train_error", when)["transfer"] for when in ("fast", "start")
    )
    return 1 - ratio(after, start)


def at_reduction(table, parameters, task):
    """(seeds × representations) frame of the weights' length at ``LARGE_REDUCTION`` percent less loss.

    In a run in which one of the three does not get there, at the largest reduction that all three reach.
    """
    asked = [reduction for reduction in REDUCTIONS if reduction <= LARGE_REDUCTION]
    reached = at(rows_of(table, parameters, task, "reduction"), reduction=asked)
    if reached.empty:
        return pd.DataFrame(columns=list(REPRESENTATIONS))
    wide = reached.pivot(index=["seed", "reduction"], columns="representation", values="weight_norm")
    wide = wide.reindex(columns=list(REPRESENTATIONS)).dropna()
    return wide.groupby("seed").last()  # the index ascends


def weights(table, parameters, task):
    """How much shorter than on initial features (related task), or longer than on both others (unrelated)."""
    found = at_reduction(table, parameters, task)
    if task == "related":
        return difference(found["init"], found["transfer"])
    return difference(found["transfer"], found[["original", "init"]].max(axis=1, skipna=False))


# data/plans/representation_alignment.yaml has the first
ERROR = {
    "above": 0, "matters": 0.0043, "unit": "mean squared error",
    "because": "a twentieth of the labels' mean square, 0.086",
}  # fmt: skip
LENGTH = {
    "above": 0, "matters": 0.05, "unit": "length of the weights",
    "because": "a hundredth of the axis, about the width of a line",
}  # fmt: skip
# Figure 10's order of areas, from the best aligned to the worst.
ORDER = {"related": ("transfer", "original", "init"), "unrelated": ("original", "init", "transfer")}


def neighbours(when):
    """Cases: on each task, every representation beside the one that aligns next best."""
    return [
        Case(f"{task}-{first}", "", {"task": task, "first": first, "second": second, "when": when})
        for task, order in ORDER.items()
        for first, second in pairwise(order)
        if when == "best" or first == "original"
    ]


def mirrored(table, parameters, when):
    """How far the better aligned of two neighbours has the lower test error: the pair that shows it least."""
    of = partial(ahead, column="test_error")
    return least(of, lambda p: neighbours(when))(table, parameters)


WHEN = {"best": "at its lowest test error", "last": "after the last step, inputs before initial features"}
moments = among("when", {"fast": "after the fast phase", "last": "after the last step"})
STATEMENTS = [
    Statement(
        "related",
        "On the related task, training and test error after the fast phase are smaller with transferred "
        "than with initial features.",
        source="Section 7.1, Figure 11 (a)", headline=True, **ERROR,
        of=least(
            lambda t, p, column: ahead(t, p, "related", column, "fast", "transfer", "init"),
            among("column", {"test_error": "test error", "train_error": "training error"}),
        ),
    ),
    Statement(
        "unrelated",
        "On the unrelated task, the test error is larger with transferred features than with both others, "
        "after the fast phase and after the last step.",
        source="Section 7.1, Figure 11 (b)", of=least(behind_both, moments), **ERROR,
    ),
    Statement(
        "mirrors",
        "On both tasks, the better aligned of two representations has the lower test error: the pair that "
        "shows it least.",
        source="Section 7.1, “mirrors their alignment”", of=mirrored, each=among("when", WHEN), **ERROR,
        post_hoc="we chose to stop early after seeing that models overfit at different times",
    ),
    Statement(
        "weights",
        "Once equally much of the loss is gone, transferred features have shorter weights than initial ones "
        "on the related task, and longer ones than both others on the unrelated task.",
        source="Figure 11 (c, d)", of=least(weights, among("task", dict.fromkeys(TASKS, ""))), **LENGTH,
    ),
]  # fmt: skip


def over_initial(table, parameters, task, when):
    """Test error of transferred features over that of initial ones, by seed."""
    found = errors(table, parameters, task, "test_error", when)
    return ratio(found["transfer"], found["init"])


NUMBERS = [
    Number(
        "related-ratio", "test error after the fast phase, transferred over initial features, related task",
        lambda t, p: over_initial(t, p, "related", "fast"),
    ),
    Number(
        "unrelated-ratio", "the same after the last step, unrelated task",
        lambda t, p: over_initial(t, p, "unrelated", "last"),
    ),
    Number(
        "share", "training loss removed by the fast phase, transferred features", fast_share, bounds=(0, 1),
        each=lambda p: [Case(task, "", {"task": task}) for task in TASKS],
    ),
]  # fmt: skip
