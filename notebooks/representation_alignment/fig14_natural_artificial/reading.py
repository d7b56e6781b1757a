"""Does the source like the target align better with it, and transfer better? (Figures 14, 15, 21)"""

from pathlib import Path

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, weakest
from companion.statements import Case, Number, Statement, among, least

PARTS = ("natural", "artificial")
LAYERS = {1: "first convolution", 2: "stage 1", 3: "stage 2", 4: "stage 3"}
# The accuracies of Figure 15: network, part (of the source), target, accuracy in percent.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
GONE = 0.05  # of ‖y‖²: alignment that has dropped off, as in Figure 13


def gaps(table, column, *keys, **rows):
    """``column`` from the source like the target less that from the other one, for each pair of classes.

    keys : ``layer`` or ``threshold``, if any; rows : which rows of the table
    A Series indexed by seed, target, pair and ``keys``; without seeds that lack a source.
    """
    found = at(table, **rows)
    if found.empty:
        return pd.Series(dtype=float)
    wide = found.pivot(index=["seed", "target", "pair", *keys], columns="part", values=column)
    wide = wide.reindex(columns=list(PARTS)).dropna()
    sign = np.where(wide.index.get_level_values("target") == "natural", 1.0, -1.0)
    return sign * (wide["natural"] - wide["artificial"])


def averaged(values, key):
    """Mean over the pairs of classes: (seeds × ``key``) frame of a Series with a value for each pair."""
    return values.groupby(["seed", key]).mean().unstack() if len(values) else pd.DataFrame()


def area_gaps(table, target):
    """(seeds × layers) frame of gaps of the area with one kind of target, in % of the unlike source's."""
    found = averaged(gaps(table, "area", "layer", kind="area", target=target), "layer")
    rows = at(table, kind="area", target=target)
    if found.empty:
        return found
    unlike = averaged(rows[rows["part"] != target].set_index(["seed", "layer"])["area"], "layer")
    return 100 * (found / unlike).dropna(how="all")


def balanced(of):
    """Mean of the frames ``of(target)`` over both kinds of target: a source better for all cancels out."""
    found = [of(target) for target in PARTS]
    return sum(found) / len(found) if all(len(one) for one in found) else pd.DataFrame()


def balanced_gaps(table):
    return balanced(lambda target: area_gaps(table, target))


def curve_gaps(table, layer):
    """(seeds × thresholds) frame of gaps of the alignment over ‖y‖², equal weight to both kinds of target."""
    return balanced(
        lambda target: averaged(
            gaps(table, "alignment", "threshold", kind="curve", layer=layer, target=target), "threshold"
        )
    )


def higher(table, parameters, layer):
    found = balanced_gaps(table)
    return found[layer].dropna() if layer in found else None


def with_either(table, parameters, layer):
    """The gap with the kind of target that shows it least."""
    found = [area_gaps(table, target) for target in PARTS]
    return weakest(*(one[layer].dropna() for one in found)) if all(layer in one for one in found) else None


def later(table, parameters):
    """How much larger the gap of the last stage is than that of the first."""
    found = balanced_gaps(table)
    return difference(found[max(LAYERS)], found[2]) if len(found) else None


def alignment_left(table, layer):
    """Mean alignment over ‖y‖² from the source like the target, by threshold, over pairs and runs."""
    rows = at(table, kind="curve", layer=layer)
    return rows[rows["part"] == rows["target"]].groupby("threshold")["alignment"].mean()


def everywhere(table, parameters):
    """The gap at the stage and threshold that show one least.

    Of the thresholds at which the mean curve is between its ends: more than ``GONE`` of the labels is left,
    and more than ``GONE`` is missing (at 0 all features span all labels).
    """
    shown = []
    for layer in LAYERS:
        found, left = curve_gaps(table, layer), alignment_left(table, layer)
        between = left.index[(left > GONE) & (left < 1 - GONE)]
        if layer > 1:
            shown += [found[threshold] for threshold in found if threshold in between]
    return weakest(*shown) if shown else None


def accuracies(table, target, column="accuracy"):
    """(seeds × sources) frame of percent after fine-tuning on one part of the target."""
    return curves(at(table, kind="accuracy", target=target), "part", column)


def gain(table, parameters, target=None):
    """How much more accurate the network from the like source is, points; None: mean of both kinds."""
    if target is None:
        found = [gain(table, parameters, one) for one in PARTS]
        return None if any(one is None for one in found) else (sum(found) / len(found)).dropna()
    found = accuracies(table, target)
    return difference(found[target], found[_other(target)]) if set(PARTS) <= set(found) else None


def printed_gain(parameters, target=None):
    """The same of the printed accuracies of ResNet-18."""
    if target is None:
        return float(np.mean([printed_gain(parameters, one) for one in PARTS]))
    found = at(PRINTED, network="ResNet18", target=target).set_index("part")["accuracy"]
    return float(found[target] - found[_other(target)])


def _other(part):
    return PARTS[1 - PARTS.index(part)]


def layers(parameters):
    return [Case(f"layer{n}", name, {"layer": n}) for n, name in LAYERS.items()]


AREA = {
    "above": 0, "matters": 5.0, "unit": "% of the area",
    "because": "a twentieth of the area could hardly be seen between two drawn curves",
}  # fmt: skip
POINTS = {
    "above": 0, "matters": 0.5, "unit": "points", "paper": printed_gain,
    "because": "4,000 test images give an accuracy to about half a point",
}  # fmt: skip

STATEMENTS = [
    Statement(
        "higher",
        "Pre-training on the source more similar to the target gives features that align better with it: "
        "area under the curve, mean over both kinds of target.",
        source="Figures 14 and 21, Section 7.3", of=higher, each=layers, headline=True, **AREA,
        post_hoc="the paper's mean over 21 pairs, 15 of them natural, was planned; it has the same outcomes",
    ),
    Statement(
        "either", "They align better with either kind of target, in the first and in the last layer: the "
        "kind and layer that show it least.",
        source="Section 7.3", of=least(with_either, lambda p: layers(p)[:: len(LAYERS) - 1]), **AREA,
        post_hoc="asked of the first layer, too, after the results had been seen",
    ),
    Statement(
        "everywhere", "They align better at all thresholds: the stage and threshold that show it least.",
        source="Figure 14, Section 7.3", of=everywhere, above=0, matters=0.01, unit="of the labels",
        because="a hundredth of the labels is about the width of a drawn curve",
    ),
    Statement(
        "later", "The difference between the sources is larger in the last stage than in the first.",
        source="Figure 14, Section 7.3", of=later, **AREA,
    ),
    Statement(
        "tuned", "After fine-tuning, the network pre-trained on the more similar source is more accurate: "
        "mean over both kinds of target.",
        source="Figure 15, Section 7.3", of=gain, **POINTS,
        post_hoc="chosen since one source is learned better than the other",
    ),
]  # fmt: skip
NUMBERS = [
    Number("tuned-kind", "gain in accuracy with one kind of target", gain, unit="points",
           paper=printed_gain, each=among("target", {part: f"{part} classes" for part in PARTS})),
]  # fmt: skip
