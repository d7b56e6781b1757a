"""For how long the error signal stays collinear with the labels (Figure 6, Approximation 1)."""

import numpy as np
import pandas as pd

from alignbook import over_seeds
from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, sample
from alignbook.statements import Case, Statement

from ..names import called

NETWORKS = {"dense": "fully connected", "vgg19": "VGG-19", "resnet18": "ResNet-18"}
FULL = 50000  # CIFAR-10's training images
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
    """One row per seed: initial, epoch (mean over the first epoch's steps), end (of that epoch), lowest (in
    it), left (first step looked at below ``NEAR``; NaN: never), left_accuracy and left_loss there, and rise
    (-corr where the layers' mean alignment has made half of its rise to its largest; NaN without alignments).
    """
    frame = curves(table, network, dataset)
    names = ["initial", "epoch", "end", "lowest", "left", "left_accuracy", "left_loss", "rise"]
    epochs, accuracies, losses, aligned = (
        curves(table, network, dataset, name) for name in ("epoch", "accuracy", "loss", "alignment")
    )
    rows = {}
    for seed, values in frame.iterrows():
        first = epochs.loc[seed] <= 1
        steps, inside = frame.columns[first].to_numpy(float), values[first].to_numpy()
        below = values[values < NEAR]
        left = below.index[0] if len(below) else None
        heights = aligned.loc[seed]
        rise = np.nan
        if heights.notna().all() and heights.max() > heights.iloc[0]:
            half = (heights.iloc[0] + heights.max()) / 2
            rise = values[heights.index[heights >= half][0]]
        rows[seed] = {
            "initial": values.iloc[0],
            "epoch": np.trapezoid(inside, steps) / steps[-1],
            "end": inside[-1],
            "lowest": inside.min(),
            "left": np.nan if left is None else float(left),
            "left_accuracy": np.nan if left is None else accuracies.loc[seed, left],
            "left_loss": np.nan if left is None else losses.loc[seed, left],
            "rise": rise,
        }
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


def cases(parameters, only=None):
    """A case per network and data set; ``only``: of one network."""
    return [
        Case(f"{network}-{dataset}", title(network, dataset), {"network": network, "dataset": dataset})
        for network, dataset in conditions(parameters)
        if only in (None, network)
    ]


RULE = {
    "above": NEAR,
    "matters": 0.02,
    "because": "a fifth of the distance from our threshold of 0.9 to 1",
    "bounds": (-1, 1),
}
STATEMENTS = [
    Statement(
        "epoch", "Over the first epoch -corr(Ỹ, w) stays near 1 (mean over its steps; ours: above 0.9).",
        source="Figure 6, Appendix B.5.1", of=of("epoch"), each=cases, paper="≈ 1", headline=True, **RULE,
    ),
    Statement(
        "initial", "At initialisation -corr(Ỹ, w) is near 1 (ours: above 0.9).", source="Appendix B.5.1",
        of=before, each=cases, paper="≈ 1", **RULE,
    ),
    Statement(
        "end", "At the end of the first epoch -corr(Ỹ, w) is still near 1 (ours: above 0.9).",
        source="Appendix B.5.1; at this one step ours", of=of("end"), each=cases, ours=True, **RULE,
    ),
    Statement(
        "rise", "When the layers' mean alignment has made half its rise, -corr(Ỹ, w) is above 0.9.",
        source="Appendix B.4; the reading is ours", of=of("rise"), each=lambda p: cases(p, "dense"),
        ours=True, **RULE,
    ),
]  # fmt: skip

STAYS = {
    HOLDS: "stay collinear",
    CONTRADICTED: "do not stay collinear",
    ABSENT: "end up at our threshold of collinearity",
    UNDECIDED: "may or may not stay collinear",
    NOT_JUDGED: "are not judged",
}


def finding(table, parameters, claims):
    """Where the error signal stays collinear with the labels over the first epoch, and where not."""
    found = {}
    for case in cases(parameters):
        claim = claims[f"epoch-{case.id}"]
        if claim.outcome != NOT_RUN:
            found.setdefault(claim.outcome, []).append((claim.measured, case.words))
    if not found:
        return "No network was trained to the end."
    parts = []
    for outcome, word in STAYS.items():
        if outcome in found:
            here = found[outcome]
            low, high = min(value for value, _ in here), max(value for value, _ in here)
            span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
            parts.append(f"{word} on {_listed(words for _, words in here)}, {span}")
    said = "; they ".join(parts)
    return f"Over the first epoch the error signal and the labels {said} (1: exact).{_stand_in(parameters)}"


def _listed(conditions):
    """``MNIST and Fashion-MNIST (fully connected), CIFAR-10 (VGG-19, ResNet-18)``, of titles."""
    networks, datasets = {}, {}
    for words in conditions:
        network, _, dataset = words.partition(", ")
        networks.setdefault(dataset, []).append(network)
    for dataset, kinds in networks.items():
        datasets.setdefault(", ".join(kinds), []).append(dataset)
    return ", ".join(f"{' and '.join(names)} ({kinds})" for kinds, names in datasets.items())


def _stand_in(parameters):
    """What is smaller of the convolutional networks than in the paper."""
    p = parameters
    if not p["conv_networks"] or (p["conv_width"] == 64 and not p["conv_images"]):
        return ""
    return f" Convolutional networks have width {p['conv_width']} (full: 64)."


def key_numbers(table, parameters):
    """The first-epoch means of the fully connected networks."""
    result = []
    for network, dataset in conditions(parameters)[:3]:
        values = of("epoch")(table, parameters, network, dataset)
        if len(values):
            what = f"mean over the first epoch, {title(network, dataset)}"
            result.append(KeyNumber(what, interval(values, within=(-1, 1)), "≈ 1"))
    return result
