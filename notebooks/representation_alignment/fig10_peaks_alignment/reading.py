"""What training on a source task does to alignment with it and with two other tasks (Figure 10)."""

from companion.over_seeds import at, curves, weakest
from companion.statements import Number, Statement, among

from ..shared.curve_order import LARGER
from ..shared.peaks_design import NORMALISATIONS, TASKS


def final_areas(table, task, normalisation=NORMALISATIONS[0]):
    """Areas after training, (seeds × representations) frame; empty where there are none."""
    return curves(at(table, kind="area", task=task, normalisation=normalisation), "representation", "area")


def lead(task, sign=1):
    """A reading: how far the trained hidden layer's area lies above the inputs' and the untrained layer's.

    sign : −1 for below; of the two the one that shows it least, by seed
    """

    def of(table, parameters):
        found = final_areas(table, task)
        return weakest(*(sign * (found["transfer"] - found[other]) for other in found if other != "transfer"))

    return of


def over_inputs(table, task):
    """The trained hidden layer's area over that of the inputs, by seed."""
    found = final_areas(table, task)
    return found["transfer"] / found["original"] if len(found) else None


def same_decider(table):
    """Whether the related task keeps the variable that decides in the source task, by seed."""
    named = at(table, kind="area", normalisation=NORMALISATIONS[0])
    functions = named.pivot_table(index="seed", columns="task", values="function", aggfunc="first")
    return functions["source"].str[0] == functions["related"].str[0]


STATEMENTS = [
    Statement(
        "related-above",
        "After training on the source task, the hidden layer aligns better with a related task "
        "than before and than the inputs.",
        source="Figure 10 (b)", of=lead("related"), headline=True, **LARGER,
    ),
    Statement(
        "source-above",
        "After training on the source task, the hidden layer aligns better with that task "
        "than before and than the inputs.",
        source="Figure 10 (a), Section 5", of=lead("source"), **LARGER,
    ),
    Statement(
        "unrelated-below",
        "After training on the source task, the hidden layer aligns less with an unrelated task "
        "than before and than the inputs.",
        source="Figure 10 (c)", of=lead("unrelated", -1), **LARGER,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "ratio", "area after training over that of the inputs", lambda t, p, task: over_inputs(t, task),
        each=among("task", dict.fromkeys(TASKS, "")),
    ),
]  # fmt: skip
