"""Do fine-tuned weights stay in the source's flat region? Rises of the source's loss (Section 3)."""

import math

import numpy as np
import pandas as pd

from alignbook.over_seeds import at, curves, difference, last, ratio, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.targets import words
from alignbook.wording import by_verdict

EDGE = 0.1  # of the way to guessing: the flat region ends where the source's loss has risen so far; ours
LEARNED = 60.0  # percent of its test images that the source has to classify correctly
FITTED = 5.0  # percent of its training images that a fine-tuned network may get wrong
WAY = "of the way to guessing"
HALF_EDGE = "half of what we take for the flat region's edge"


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


def edge(table, target, line="tuned"):
    """The share of the line at which ``EDGE`` is reached first, a sample; infinite where it is not."""

    def reached(row):
        high = np.flatnonzero(row.to_numpy() >= EDGE)
        if not len(high):
            return math.inf
        upto = row.iloc[: high[0] + 1]
        return float(np.interp(EDGE, upto.iloc[-2:], upto.index[-2:]))

    return profile(table, target, line).apply(reached, axis=1)


def mean_of(targets, measure):
    """Mean of the samples ``measure(target)``, seed by seed."""
    return pd.DataFrame({name: measure(name) for name in targets}).dropna().mean(axis=1)


def farther_out(table, parameters, target, statistics="batch"):
    """Rise on the unlike targets, their mean, less that on one similar ``target``, a sample."""
    unlike = mean_of(parameters["unlike"], lambda name: rise(table, name, statistics=statistics))
    return difference(unlike, rise(table, target, statistics=statistics))


def farther_out_than_any(table, parameters, statistics="batch"):
    """The same against the similar target against which it shows least."""
    return weakest(*(farther_out(table, parameters, name, statistics) for name in parameters["similar"]))


def moved(table, target):
    """‖W − W(0)‖ over ‖W(0)‖ of all convolution kernels, a sample."""
    return last(curves(at(table, target=target, line="tuned", statistics="batch"), "share", "moved"))


def moves_further(table, parameters, target):
    """log2 of how far unlike targets move the weights, their mean, over how far a similar one does."""
    unlike = mean_of(parameters["unlike"], lambda name: moved(table, name))
    return np.log2(ratio(unlike, moved(table, target)))


def steeper(table, parameters, target):
    """Rise along the random line less that along the fine-tuned one, a sample."""
    return difference(rise(table, target, "random"), rise(table, target))


def _worst(column, choose):
    return lambda table, parameters, **given: choose(table.groupby("target")[column].mean())


def called(name):
    """How a sentence calls a target."""
    return "the source's classes" if name == "held-out" else words(name)


def _each(*kinds):
    return lambda p: [Case(name, called(name), {"target": name}) for kind in kinds for name in p[kind]]


MET = (
    Requirement("accuracy of the source network, %", of=_worst("source_accuracy", min), at_least=LEARNED),
    Requirement("training error after fine-tuning, %", of=_worst("train_error", max), at_most=FITTED),
)


def _rises(id, text, of, source="Section 3", matters=EDGE / 2, unit=WAY, because=HALF_EDGE, **more):
    return Statement(
        id, text, source=source, of=of, matters=matters, unit=unit, because=because, requires=MET, **more
    )


STATEMENTS = [
    _rises(
        "farther-out", "Less similar targets raise the source's loss more than similar ones do.",
        farther_out_than_any, above=0, headline=True,
    ),
    _rises(
        "pairs", "Less similar targets raise the source's loss more than this similar one.",
        farther_out, above=0, each=_each("similar"),
    ),
    _rises(
        "stays", f"After a similar target, the source's loss has risen by less than {EDGE:g} of the way.",
        lambda t, p, target: rise(t, target), below=EDGE, each=_each("similar"), ours=True,
    ),
    _rises(
        "leaves", f"After a less similar target, it has risen by more than {EDGE:g} of the way.",
        lambda t, p, target: rise(t, target), above=EDGE, each=_each("unlike"), ours=True,
    ),
    _rises(
        "further", "Less similar targets move the weights further than similar ones.", moves_further, above=0,
        matters=0.14, unit="log2 of the ratio", because="a tenth of the way", each=_each("similar"),
    ),
    _rises(
        "flat-way", "Fine-tuning moves along flatter directions than random ones of the same length.",
        steeper, source="Section 7, “restrict … from escaping the flat region”", above=0,
        each=_each("similar", "unlike"), ours=True,
    ),
    _rises(
        "kept", "Less similar targets raise it more, with the running statistics of pre-training, too.",
        lambda t, p: farther_out_than_any(t, p, "kept"), above=0, ours=True,
    ),
]  # fmt: skip

SAID = by_verdict("", "", "")


def finding(table, parameters, claims):
    """To be written."""
    return "to be written"


def key_numbers(table, parameters):
    """Rises."""
    return []
