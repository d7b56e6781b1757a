"""Whether later layers specialise to the source task (Figure 12)."""

from companion.over_seeds import at, difference, first, last
from companion.statements import Case, Number, Statement

from ..shared.curve_order import LARGER, by_layer, weakest_step
from ..shared.peaks_design import NORMALISATIONS, TASKS


def areas(table, task, epoch=None, normalisation=NORMALISATIONS[0]):
    """Areas under the alignment curves, (seeds × layers) frame, layer 0 the inputs; empty without runs.

    epoch : None, the last of every run, or one, of the runs that it was measured in
    """
    return by_layer(at(table, kind="area", task=task, normalisation=normalisation), epoch)


def rise(table, parameters):
    """The weakest rise from one hidden layer to the next, source task."""
    return weakest_step(areas(table, "source").drop(columns=0, errors="ignore"))


def first_over_last(table, task, normalisation=NORMALISATIONS[0]):
    """First less last hidden layer's area, by seed."""
    found = areas(table, task, normalisation=normalisation)
    return difference(found[1], last(found)) if len(found) else None


def gain(table, parameters):
    """What training adds to the last hidden layer's area less what it adds to the first, source task."""
    after, before = (areas(table, "source", epoch) for epoch in (None, 0))
    if after.empty or before.empty:
        return None
    added = (after - before).drop(columns=0).dropna()
    return difference(last(added), first(added))


STATEMENTS = [
    Statement(
        "rises",
        "After training, each hidden layer aligns better with the source task than the one before it: the "
        "weakest step.",
        source="Figure 12, left, Section 7.1", of=rise, headline=True, **LARGER,
    ),
    Statement(
        "last-not-better",
        "The last hidden layer aligns no better with the related task than the first: it aligns less.",
        source="Figure 12, right, and caption", of=lambda t, p: first_over_last(t, "related"), **LARGER,
    ),
    Statement(
        "from-training",
        "Training makes this order: the last hidden layer gains more alignment with the source task than the "
        "first.",
        source="Sections 5 and 7.1", of=gain, **LARGER,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "area", "area under the alignment curve after training",
        lambda t, p, task, layer: areas(t, task).get(layer), bounds=(0, 1),
        each=lambda p: [
            Case(f"{task}-{layer}", "", {"task": task, "layer": layer})
            for task in TASKS for layer in range(p["layers"] + 1)
        ],
    ),
]  # fmt: skip
