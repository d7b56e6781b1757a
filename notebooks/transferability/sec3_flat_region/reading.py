"""Do fine-tuned weights stay in the source's flat region? Rises of the source's loss (Section 3)."""

import math

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, last, ratio, sample, weakest
from companion.statements import Case, Number, Statement
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


def farther_out(table, parameters, target, statistics="batch"):
    """Rise on the unlike targets, their mean, less that on one similar ``target``, a sample."""
    unlike = mean_of(rise, table, parameters["unlike"], "tuned", statistics)
    return difference(unlike, rise(table, target, "tuned", statistics))


def moves_further(table, parameters, target):
    """log2 of how far unlike targets move the weights, their mean, over how far a similar one does."""
    return np.log2(ratio(mean_of(moved, table, parameters["unlike"]), moved(table, target)))


def least(measure, *given):
    """A statement's ``of``: ``measure`` of the similar target that shows it least."""
    return lambda t, p: weakest(*(measure(t, p, name, *given) for name in p["similar"]))


def own_classes(table, parameters):
    return farther_out(table, parameters, HELD_OUT)


def steeper(table, parameters):
    """log2 of the rise after fine-tuning over that on the random line, means over all targets."""
    targets = parameters["similar"] + parameters["unlike"]
    return np.log2(ratio(mean_of(rise, table, targets), mean_of(rise, table, targets, "random")))


def called(name):
    """How a sentence calls a target."""
    return "new images of the source's classes" if name == HELD_OUT else words(name)


def targets_and_edges(kind):
    """Cases: each target of the parameter ``kind``, and both edges."""
    return lambda p: [
        Case(f"{name}-{edge:g}", f"{called(name)}, edge {edge:g}", {"target": name, "edge": edge})
        for name in p[kind]
        for edge in EDGES
    ]


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
OUT = {"of": lambda t, p, target, edge: rise(t, target) - edge} | RISE
STATEMENTS = [
    Statement(
        "farther-out", "Less similar targets raise the source's loss more than each target like the source.",
        of=least(farther_out), above=0, headline=True, **RISE,
    ),
    Statement(
        "own-classes", "Less similar targets raise it more than new images of the source's own classes.",
        of=own_classes, above=0, **RISE,
        post_hoc="part of the statement before; taken alone when its results had been seen",
    ),
    Statement(
        "stays", "After a target like the source, the loss has not risen to the edge of the flat region.",
        below=0, each=targets_and_edges("similar"), **OUT,
    ),
    Statement(
        "leaves", "After a less similar target, the loss has risen beyond the edge of the flat region.",
        above=0, each=targets_and_edges("unlike"), **OUT,
    ),
    Statement(
        "further", "Less similar targets move the weights further than each target like the source.",
        source="Section 3", of=least(moves_further), above=0, matters=0.14, unit="log2 of the ratio",
        because="a tenth of the distance",
    ),
    Statement(
        "kept", "The same with pre-training's running statistics in batch norm.",
        of=least(farther_out, "kept"), above=0, ours=True, **RISE,
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
    Number("source", "training accuracy on the source", lambda t, p: t["source_train_accuracy"].mean()),
]  # fmt: skip


def summary(table, parameters):
    """One row per target and line: the rise at its end, by seed; for the figure and its data."""
    rows = [
        rise(table, name, *LINES[kind]).rename("rise").reset_index().assign(target=called(name), kind=kind)
        for name in parameters["similar"] + parameters["unlike"]
        for kind in LINES
    ]
    return pd.concat(rows, ignore_index=True)
