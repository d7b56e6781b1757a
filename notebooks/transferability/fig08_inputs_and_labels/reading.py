"""Does pre-training help only where inputs and labels are both alike? Differences of accuracy (Figure 8)."""

import numpy as np
import pandas as pd

from companion.over_seeds import area, at, curves, difference, last, ratio
from companion.statements import Case, Number, Statement, among, least, pooled

from .design import KERNELS, PARTS

OTHER = dict(zip(PARTS, reversed(PARTS), strict=True))
POINT = 1.0  # 2,000 test images give an accuracy to about this many points
WORDS = {"digits": "significantly", "clothes": "barely", "colours": "no improvement"}  # the paper's
UNSEEN = 0.05  # share of a layer's way that cannot be seen in Figure 8 (a)


def by_start(table, panel, column):
    """(seeds × starts) frame of a column of panel (a), "inputs", or (b), "labels"."""
    return curves(at(table, panel=panel), "start", column)


def accuracies(table, panel, part=None):
    """(seeds × starts) frame of final accuracies in percent, of those starts that have any."""
    if part is None:
        return by_start(table, panel, "accuracy")
    errors = {start: last(_curves(table, part, start, "test_error")) for start in ("none", *PARTS)}
    return 100 - pd.DataFrame(errors, dtype=float).dropna(axis=1, how="all")


def gain(table, panel, one, other, part=None):
    """Accuracy after pre-training on ``one`` less that after ``other``, in points, a sample."""
    frame = accuracies(table, panel, part).reindex(columns=[one, other])
    return difference(frame[one], frame[other])


def own_part(table, parameters, part):
    """Figure 8 (c, d): the gain of the source of the target's kind over the other source."""
    return gain(table, "crossed", part, OTHER[part], part)


def source_accuracies(table):
    """(seeds × sources) frame of the accuracies on the sources' test images, percent, where measured."""
    rows = at(table, panel=["labels", "source"])
    return curves(rows[rows["source_accuracy"].notna()], "start", "source_accuracy")


def _curves(table, part, start, column):
    return curves(at(table, panel="crossed", part=part, start=start), "step", column)


def convergence(table, parameters, part):
    """log2 of the mean training loss from the other source over that from ``part``'s own, a sample.

    The means are over the steps of fine-tuning on ``part``, straight lines between records.
    """
    means = [area(_curves(table, part, start, "train_loss")) for start in (OTHER[part], part)]
    return np.log2(ratio(*means))


def moved_less(table, parameters, layer):
    """Share by which a layer moves less from clothes than from random weights, a sample."""
    own = parameters["clothes"]
    ways = by_start(table, "inputs", layer).reindex(columns=[own, "none"])
    return 1 - ratio(ways[own], ways["none"])


each_part = among("part", {part: f"{part} target" for part in PARTS})
each_layer = among("layer", KERNELS)


def pairs(**cases):
    """Cases of :func:`gained`, by id: words, panel, and the start, or the two, that are compared."""
    names = ("panel", "one", "other")
    made = [Case(id, words, dict(zip(names, of, strict=False))) for id, (words, *of) in cases.items()]
    return lambda parameters: made


def gained(table, parameters, panel, one, other="none"):
    """:func:`gain` of two starts, each the name of a parameter or the start itself."""
    return gain(table, panel, parameters.get(one, one), parameters.get(other, other))


BETTER = {
    "above": 0, "matters": POINT, "unit": "points", "bounds": (-100, 100),
    "because": "2,000 test images give an accuracy to a point",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "alike", "Transfer helps more the more the inputs, or the labels, resemble the target's.",
        source="Figure 8 (a, b), Section 5.1", of=gained, headline=True, **BETTER,
        each=pairs(inputs=("digits over clothes", "inputs", "digits", "clothes"),
                   labels=("classes over colours", "labels", "classes", "colours")),
    ),
    Statement(
        "unlike", "Where inputs or labels differ from the target's, pre-training gives no improvement.",
        source="Figure 8 (a, b), Section 5.1", of=gained, near=0, within=POINT, unit="points",
        bounds=(-100, 100),
        each=pairs(clothes=("clothes", "inputs", "clothes"), colours=("colours", "labels", "colours")),
        post_hoc="the margin is what the test images resolve; at first we allowed 2 points, within which "
        "both are open",
    ),
    Statement(
        "crossed", "Each of two sources is better for the target of its own kind.", source="Figure 8 (c, d)",
        of=least(own_part, each_part), **BETTER,
    ),
    Statement(
        "converges", "A target also converges faster from the source of its own kind.",
        source="Figure 8 (c, d)", of=convergence, above=0, matters=0.14, unit="log2 of the mean losses",
        because="a tenth of the loss", each=each_part,
    ),
    Statement(
        "clothes-move", "Layers pre-trained on clothes move no less than those with random weights: mean of "
        "the layers.",
        source="Section 5.1, Figure 8 (a)", of=pooled(moved_less, each_layer), near=0, within=UNSEEN,
        unit="of the way from random weights",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "gain", "gain over random weights", gained, unit="points", paper=lambda p, panel, one: WORDS[one],
        each=pairs(digits=("", "inputs", "digits"), clothes=("", "inputs", "clothes"),
                   colours=("", "labels", "colours")),
    ),
]  # fmt: skip
