"""What training on a source task does to alignment with it and with two other tasks (Figure 10)."""

from companion.over_seeds import at, curves, difference
from companion.statements import Case, Number, Statement, among

from ..shared.curve_order import LARGER
from ..shared.peaks_design import NORMALISATIONS, TASKS


def final_areas(table, task, normalisation=NORMALISATIONS[0]):
    """Areas after training, (seeds × representations) frame; empty where there are none."""
    return curves(at(table, kind="area", task=task, normalisation=normalisation), "representation", "area")


def lead(table, task, other, sign=1):
    """How far the trained hidden layer's area lies above that of another representation, times ``sign``."""
    found = final_areas(table, task)
    return sign * difference(found["transfer"], found[other]) if len(found) else None


def over_inputs(table, task):
    """The trained hidden layer's area over that of the inputs, by seed."""
    found = final_areas(table, task)
    return found["transfer"] / found["original"] if len(found) else None


def same_decider(table):
    """Whether the related task keeps the variable that decides in the source task, by seed."""
    named = at(table, kind="area", normalisation=NORMALISATIONS[0])
    functions = named.pivot_table(index="seed", columns="task", values="function", aggfunc="first")
    return functions["source"].str[0] == functions["related"].str[0]


others = among("other", {"original": "than the inputs", "init": "than the hidden layer before training"})


STATEMENTS = [
    Statement(
        "related-above",
        "After training on the source task, the hidden layer aligns better with a related task.",
        source="Figure 10 (b)", of=lambda t, p, other: lead(t, "related", other), headline=True,
        each=others, **LARGER,
    ),
    Statement(
        "source-above",
        "After training on the source task, the hidden layer aligns better with that task.",
        source="Figure 10 (a), Section 5", of=lambda t, p, other: lead(t, "source", other),
        each=others, **LARGER,
    ),
    Statement(
        "unrelated-below",
        "After training on the source task, the hidden layer aligns less with an unrelated task.",
        source="Figure 10 (c)", of=lambda t, p, other: lead(t, "unrelated", other, -1),
        each=others, **LARGER,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "ratio", "area after training over that of the inputs", lambda t, p, task: over_inputs(t, task),
        each=lambda p: [Case(task, "", {"task": task}) for task in TASKS],
    ),
]  # fmt: skip
