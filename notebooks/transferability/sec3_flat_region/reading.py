"""Do fine-tuned weights stay in the source's flat region? Rises of the source's loss (Section 3)."""

import math

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, last, ratio, sample, weakest
from companion.statements import Case, Number, Statement, among, least, over
from companion.studies.transferability.shared.target_rows import words

HELD_OUT = "held-out"  # new images of the source's own classes
EDGES = (0.1, 0.2)  # of the way to guessing: where the flat region ends; the second is twice as far out
LINES = {  # at whose ends rises are told: line and statistics of batch norm
    "tuned": ("tuned", "batch"), "random": ("random", "batch"), "kept": ("tuned", "kept"),
}  # fmt: skip


def profile(table, target, line="tuned", statistics="batch"):
    """(seeds × shares of the line) frame of the source's loss: 0 at its own weights, 1 at ln C, guessing."""
    rows = at(table, target=target, line=line, statistics=statistics)
    frame = curves(rows, "share", "loss")
    if frame.empty:
        return frame
    start = frame[0.0]
    return frame.sub(start, axis=0).div(math.log(rows["classes"].iloc[0]) - start, axis=0)


def rise(table, target, line="tuned", statistics="batch"):
    """The same at the end of the line, a sample."""
    return last(profile(table, target, line, statistics))


def moved(table, target):
    """‖W − W(0)‖ over ‖W(0)‖ of all convolution kernels, a sample."""
    return sample(at(table, target=target, line="tuned", statistics="batch", share=1.0), "moved")


def mean_of(measure, table, targets, *given):
    """Mean over ``targets`` of the samples ``measure(table, target, *given)``, seed by seed."""
    return pd.concat([measure(table, name, *given) for name in targets], axis=1).dropna().mean(axis=1)


def farther_out(table, parameters, target):
    """Rise on the unlike targets, their mean, less that on one similar ``target``, a sample."""
    return difference(mean_of(rise, table, parameters["unlike"]), rise(table, target))


def moves_further(table, parameters, target):
    """log2 of how far unlike targets move the weights, their mean, over how far a similar one does."""
    return np.log2(ratio(mean_of(moved, table, parameters["unlike"]), moved(table, target)))


def own_classes(table, parameters):
    return farther_out(table, parameters, HELD_OUT)


def steeper(table, parameters):
    """log2 of the rise after fine-tuning over that on the random line, means over all targets."""
    targets = parameters["similar"] + parameters["unlike"]
    return np.log2(ratio(mean_of(rise, table, targets), mean_of(rise, table, targets, "random")))


def called(name):
    """How a sentence calls a target."""
    return "new images of the source's classes" if name == HELD_OUT else words(name)


def inside(table, parameters, edge):
    """By how much the source's loss stays below ``edge``, on the similar target that shows it least."""
    return weakest(*(edge - rise(table, name) for name in parameters["similar"]))


def outside(table, parameters, edge):
    """By how much it lies above, on the unlike target that shows it least."""
    return weakest(*(rise(table, name) - edge for name in parameters["unlike"]))


each_edge = among("edge", {edge: f"edge {edge:g}" for edge in EDGES})
similar = over("similar", called, "target")


def each_line(parameters):
    return [
        Case(f"{name}-{kind}", "", {"target": name, "kind": kind})
        for name in parameters["similar"] + parameters["unlike"]
        for kind in LINES
    ]


RISE = {
    "source": "Section 3", "matters": EDGES[0] / 2, "unit": "of the way to guessing",
    "because": "half of what we take as the flat region's depth",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "farther-out", "Less similar targets raise the source's loss more than each target like the source.",
        of=least(farther_out, similar), above=0, headline=True, **RISE,
    ),
    Statement(
        "own-classes", "Less similar targets raise it more than new images of the source's own classes.",
        of=own_classes, above=0, **RISE,
        post_hoc="part of the statement before; taken alone when its results had been seen",
    ),
    Statement(
        "stays", "After targets like the source, the loss has not risen to the edge of the flat region.",
        of=inside, above=0, each=each_edge, **RISE,
    ),
    Statement(
        "leaves", "After less similar targets, the loss has risen beyond the edge of the flat region.",
        of=outside, above=0, each=each_edge, **RISE,
    ),
    Statement(
        "further", "Less similar targets move the weights further than each target like the source.",
        source="Section 3", of=least(moves_further, similar), above=0, matters=0.14, unit="log2 of the ratio",
        because="a tenth of the distance",
    ),
    Statement(
        "steeper", "The loss rises more on the way of fine-tuning than on a random line of the same length.",
        source="Section 3", of=steeper, above=0, matters=1.0, unit="log2 of the ratio", ours=True,
        because="twice as much",
        post_hoc="the random line was a control without a verdict",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "rise", "rise of the source's loss", lambda t, p, target, kind: rise(t, target, *LINES[kind]),
        unit="of the way to guessing", each=each_line,
    ),
    Number("times", "rise, fine-tuned over random line", lambda t, p: 2 ** steeper(t, p)),
]  # fmt: skip


def summary(table, parameters):
    """One row per target and line: the rise at its end, by seed; for the figure and its data."""
    rows = [
        rise(table, name, *LINES[kind]).rename("rise").reset_index().assign(target=called(name), kind=kind)
        for name in parameters["similar"] + parameters["unlike"]
        for kind in LINES
    ]
    return pd.concat(rows, ignore_index=True)
