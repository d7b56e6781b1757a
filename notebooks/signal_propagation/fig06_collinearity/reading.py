"""For how long the error signal stays collinear with the labels (Figure 6, first part of Approximation 1)."""

import numpy as np
import pandas as pd

from companion import over_seeds
from companion.over_seeds import at, sample
from companion.statements import Case, Number, Statement, least, pooled

from ..shared.names import called

NETWORKS = {"dense": "fully connected", "vgg19": "VGG-19", "resnet18": "ResNet-18"}
BEGINNING = 0.02  # of the first epoch
NEAR = 0.9  # what counts as "≈ 1"; fixed before any result was seen


def curves(table, network, dataset, column="collinearity"):
    """(seeds × steps) frame of one column for one network and data set; empty where there is none."""
    rows = at(table, network=network, dataset=dataset)
    return over_seeds.curves(rows.dropna(subset="step") if "step" in rows else rows, "step", column)


def conditions(parameters):
    """[(network, data set)] that the parameters ask for."""
    p = parameters
    return [("dense", name) for name in p["datasets"]] + [(n, p["conv_dataset"]) for n in p["conv_networks"]]


def title(network, dataset):
    """How a condition is called in text."""
    return f"{NETWORKS[network]}, {called(dataset)}"


def summary(table, network, dataset):
    """One row per seed.

    initial; epoch, mean over the first epoch's steps; beginning, over its first ``BEGINNING``; left, first
    step looked at below ``NEAR`` (NaN: never); left_accuracy there; rise, -corr where the layers' mean
    alignment has made half of its rise to its largest (NaN without alignments).
    """
    epochs, accuracies, aligned = (
        curves(table, network, dataset, name) for name in ("epoch", "accuracy", "alignment")
    )
    rows = {}
    for seed, values in curves(table, network, dataset).iterrows():
        inside = values[epochs.loc[seed] <= 1]
        below, heights = values.index[values < NEAR], aligned.loc[seed]
        left, half = below[0] if len(below) else np.nan, (heights.iloc[0] + heights.max()) / 2
        risen = heights.notna().all() and heights.max() > heights.iloc[0]
        rows[seed] = {
            "initial": values.iloc[0],
            "epoch": np.trapezoid(inside, inside.index.to_numpy(float)) / inside.index[-1],
            "beginning": values[epochs.loc[seed] <= BEGINNING].mean(),
            "left": left,
            "left_accuracy": accuracies.loc[seed].get(left, np.nan),
            "rise": values[heights.index[heights >= half][0]] if risen else np.nan,
        }
    names = ["initial", "epoch", "beginning", "left", "left_accuracy", "rise"]
    return pd.DataFrame(rows, index=names, dtype=float).T


def of(column):
    """A reading: one column of :func:`summary`, by seed."""
    return lambda table, parameters, network, dataset: summary(table, network, dataset)[column].dropna()


def before(table, parameters, network, dataset):
    """-corr(Ỹ, w) before training, by seed: of the networks looked at for this alone, if there are any.

    Otherwise of those that were trained. The two are never pooled: convolutional ones differ in width.
    """
    alone = sample(at(table, network=network, dataset=dataset), "initial")
    return alone if len(alone) else of("initial")(table, parameters, network, dataset)


def cases(dense):
    """Cases per data set: of the fully connected networks, or per network of the convolutional ones."""
    return lambda parameters: [
        Case(f"{network}-{dataset}", title(network, dataset), {"network": network, "dataset": dataset})
        for network, dataset in conditions(parameters)
        if (network == "dense") == dense
    ]


dense, conv = cases(True), cases(False)


RULE = {
    "above": NEAR, "matters": 0.02, "because": "a fifth of the distance from our threshold of 0.9 to 1",
    "bounds": (-1, 1),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "epoch", "-corr(Ỹ, w) averages near 1 over the first epoch (mean over its steps, above 0.9).",
        source="Figure 6, first part of Approximation 1, Appendix B.5.1", of=of("epoch"), each=dense,
        headline=True, **RULE,
    ),
    Statement(
        "initial-dense", "At initialisation -corr(Ỹ, w) is near 1 (above 0.9): the lowest data set.",
        source="Appendix B.5.1", of=least(before, dense), **RULE,
    ),
    Statement(
        "initial-conv", "At initialisation -corr(Ỹ, w) is near 1 in convolutional networks: the lowest.",
        source="Appendix B.5.1", of=least(before, conv), **RULE,
    ),
    Statement(
        "rise", "When the layers' mean alignment has completed half its rise, -corr(Ỹ, w) is above 0.9 (mean "
        "over the data sets).",
        source="Appendix B.4; the reading is ours", of=pooled(of("rise"), dense), ours=True, **RULE,
    ),
]  # fmt: skip
NUMBERS = [
    Number("beginning", "mean over the first 2 % of the epoch", of("beginning"), each=dense),
]
