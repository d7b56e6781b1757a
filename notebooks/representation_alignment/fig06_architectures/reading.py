"""Whether training raises alignment in every setting, and what depth does to it (Figures 6, 17, 18)."""

from functools import partial

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, once, weakest
from companion.statements import Case, Number, Statement, least

from ..shared.curve_order import LARGER
from ..shared.names import by_set, title
from .design import BASE, families, label

RATES = {"sgd": "SGD at 0.1", "slow sgd": "SGD at 0.01"}  # plain SGD has two step sizes
SLOW = "slow sgd"
NEAR = 0.1  # of the largest possible area: curves that differ by less mostly overlap; ours
LEARNED = 0.5  # share of the loss of outputs of zero that training removes where labels were learned; ours
CEILING = 0.5**0.5  # largest area of features that are never negative, for two classes of equal size
# Mean square of a table's labels, moved to [−1, 1]: what outputs of zero lose. Of two classes it is one bit.
SQUARES = {"ct_slices": 0.289, "diabetes": 0.273}


def plain(setting):
    """A setting's name in words."""
    return RATES.get(setting, setting)


@once
def areas(table, dataset, split):
    """(seeds × (quantity, setting)) frame, quantities ``init``, ``trained`` and ``loss``; empty if none."""
    rows = at(table, kind="area", dataset=dataset, split=split)
    if rows.empty:
        return pd.DataFrame()
    return rows.pivot(index="seed", columns="setting", values=["init", "trained", "loss"]).astype(float)


def alignment(table, dataset, split, setting, column):
    """(seeds × thresholds over √n) frame of a setting's alignment over ‖y‖², ``init`` or ``trained``."""
    rows = at(table, kind="curve", dataset=dataset, split=split, setting=setting)
    return curves(rows, "threshold", column)


def gains(table, dataset, split="train"):
    """(seeds × settings) frame: area after training less the larger one of before training and of the inputs.

    Without settings whose networks have not learned their labels.
    """
    found = areas(table, dataset, split)
    if found.empty:
        return found
    left = found["loss"].mean() / SQUARES.get(dataset, 1)
    learned = left.index[left <= 1 - LEARNED]
    rivals = found["init"][learned].clip(lower=found["init", "inputs"], axis=0)
    return found["trained"][learned] - rivals


def least_gain(table, parameters, dataset, split="train"):
    """The gain of the setting that shows one least, a sample."""
    found = gains(table, dataset, split)
    return weakest(*(found[name] for name in found))


def slow_gain(table, parameters, dataset):
    """The gain of plain SGD at the small rate, in the longer run where there is one, learned or not."""
    longer = at(table, kind="slow area") if "kind" in table else table
    if len(longer):
        table = longer.assign(kind="area")
    found = areas(table, dataset, "train")
    if ("trained", SLOW) not in found:
        return None
    return found["trained", SLOW] - np.maximum(found["init", SLOW], found["init", "inputs"])


def by_depth(table, parameters, dataset, split="train"):
    """(seeds × depths) frame of areas after training; empty where a depth is missing."""
    found = areas(table, dataset, split)
    names = {
        depth: "base" if setting == BASE else label("depth", depth)
        for depth, setting in sorted(families(parameters)["depth"].items())
    }
    if not {("trained", name) for name in names.values()} <= set(found):
        return pd.DataFrame()
    return found["trained"][list(names.values())].set_axis(list(names), axis=1)


def rise(table, parameters, datasets, shallow, deep):
    """Area of the deeper network less that of the shallower one, on the data set that shows it least."""
    found = [by_depth(table, parameters, dataset) for dataset in datasets]
    if any(not {shallow, deep} <= set(frame) for frame in found):
        return None
    return weakest(*(difference(frame[deep], frame[shallow]) for frame in found))


def rises(parameters):
    """Cases: up to the base's depth on every data set, and beyond it on tables and on images."""
    depths, sets = sorted(parameters["depths"]), parameters["datasets"]
    first = {"datasets": sets, "shallow": depths[0], "deep": BASE.depth}
    cases = [Case("to-base", f"from {depths[0]} to {BASE.depth} layers, on every data set", first)]
    words, beyond = f"from {BASE.depth} to {depths[-1]} layers", {"shallow": BASE.depth, "deep": depths[-1]}
    kinds = {"tables": [d for d in sets if d in SQUARES], "images": [d for d in sets if d not in SQUARES]}
    return cases + [
        Case(name, f"{words}, {', '.join(map(title, of_kind))}", {"datasets": of_kind, **beyond})
        for name, of_kind in kinds.items()
        if of_kind and depths[-1] > BASE.depth
    ]


def apart(table, parameters, fields):
    """Largest less smallest area on MNIST of the settings that change one of ``fields``, after training."""
    spreads = []
    for field in fields:
        names = [
            "base" if one == BASE else label(field, value)
            for value, one in families(parameters)[field].items()
        ]
        found = areas(table, "mnist", "train")
        if not {("trained", name) for name in names} <= set(found):
            return None
        spreads.append(found["trained"][names].max(axis=1) - found["trained"][names].min(axis=1))
    return pd.concat(spreads, axis=1).max(axis=1)


def overlapping(parameters):
    """Cases on MNIST: what the captions show apart, those choices that hardly matter in one."""
    groups = {
        "activation": ("activations", ["activation"]),
        "depth": ("depths", ["depth"]),
    }
    if "mnist" not in parameters["datasets"]:
        return []
    return [Case(f"mnist-{id}", words, {"fields": fields}) for id, (words, fields) in groups.items()]


def combinations(table, parameters):
    """[how many combinations of setting and data set have learned their labels], [] of no runs."""
    found = [gains(table, dataset) for dataset in parameters["datasets"]]
    return [sum(len(frame.columns) for frame in found)] if any(len(frame) for frame in found) else []


def base_gain(table, parameters, dataset):
    found = areas(table, dataset, "train")
    return difference(found["trained", "base"], found["init", "inputs"]) if len(found) else None


STATEMENTS = [
    Statement(
        "raises",
        "Training raises alignment with the training labels above its initial value and above that of the "
        "inputs, in the setting and on the data set that gain least.",
        source="Figures 6 and 17, Section 5", of=least(least_gain, by_set), headline=True, **LARGER,
    ),
    Statement(
        "test", "On test data, too, it does so in the setting and on the data set that gain least.",
        source="Figure 18, Section 5", of=least(partial(least_gain, split="test"), by_set), **LARGER,
    ),
    Statement(
        "depth", "A deeper network aligns better with the training labels.",
        source="Abstract, (a); Section 5, of Figure 6", of=rise, each=rises, **LARGER,
        opposed_by="Section 5 finds no consistent increase in final alignment as depth increases",
        post_hoc="the steps in depth were chosen after the areas of five runs had been seen",
    ),
    Statement(
        "overlap", "On MNIST, trained networks that differ in one choice align about equally well.",
        source="Captions of Figures 6 and 17, “mostly overlap”", of=apart, each=overlapping, below=NEAR,
        matters=0.01, unit="between the largest and the smallest area", because=LARGER["because"],
        post_hoc="the bound was chosen after the areas of five runs had been seen",
    ),
    Statement(
        "slow", "SGD at 0.01, too, raises alignment on CIFAR-10, where it learns its labels late.",
        source="Figure 17", of=lambda t, p: slow_gain(t, p, "cifar10"), ours=True, **LARGER,
    ),
]  # fmt: skip
NUMBERS = [
    Number("learned", "combinations of setting and data set that learned", combinations),
    Number("gain", "trained base network minus inputs", base_gain, each=by_set),
]
