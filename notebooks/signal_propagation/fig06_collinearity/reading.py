"""For how long the error signal stays collinear with the labels (Figure 6, first part of Approximation 1)."""

import numpy as np
import pandas as pd

from alignbook import over_seeds
from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, listed, replicates

from ..names import called

NETWORKS = {"dense": "fully connected", "vgg19": "VGG-19", "resnet18": "ResNet-18"}
SPLIT = "divided by images after all results had been seen; until then one statement, MNIST first"
BATCH = 128  # images a step (Figure 8)
FIGURE_5 = "cifar10"  # the images of Figure 5, which rests on Figure 6's approximation
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
    """One row per seed: initial, epoch (mean over the first epoch's steps), left (first step looked at below
    ``NEAR``; NaN: never), left_accuracy there, and rise (-corr where the layers' mean alignment has made half
    of its rise to its largest; NaN without alignments).
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
            "left": left,
            "left_accuracy": accuracies.loc[seed].get(left, np.nan),
            "rise": values[heights.index[heights >= half][0]] if risen else np.nan,
        }
    names = ["initial", "epoch", "left", "left_accuracy", "rise"]
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


def cases(parameters, networks=tuple(NETWORKS)):
    """A case per data set and network of these kinds."""
    return [
        Case(f"{network}-{dataset}", title(network, dataset), {"network": network, "dataset": dataset})
        for network, dataset in conditions(parameters)
        if network in networks
    ]


def elsewhere(case):
    """Whether a case is a fully connected network on images that the paper does not name for it."""
    return case.given["network"] == "dense" and case.given["dataset"] != FIGURE_5


def papers(parameters):
    """The cases on images of the paper's neighbouring figures: CIFAR-10, of Figures 5 and 12 to 15."""
    return [case for case in cases(parameters) if not elsewhere(case)]


def ours(parameters):
    """The other cases."""
    return [case for case in cases(parameters) if elsewhere(case)]


def whole_epoch(table, parameters, network, dataset):
    """Whether an epoch has all training images, ``BATCH`` a step, as the paper's."""
    images = parameters["train_images" if network == "dense" else "conv_images"]
    return images == 0 and parameters["batch_size"] == BATCH


STEPS = Requirement(
    f"the first epoch covers all training images, {BATCH} per step", whole_epoch,
    because="The correlation falls as training goes on, and a shorter epoch has fewer steps",
)  # fmt: skip
RULE = {
    "above": NEAR, "matters": 0.02, "because": "a fifth of the distance from our threshold of 0.9 to 1",
    "bounds": (-1, 1),
}  # fmt: skip
OVER = "-corr(Ỹ, w) averages near 1 over the first epoch (mean over its steps; ours: above 0.9)."
STATEMENTS = [
    Statement(
        "epoch", f"On the images of Figure 5, {OVER}",
        source="Figure 6, first part of Approximation 1, Appendix B.5.1", of=of("epoch"),
        each=papers, paper="≈ 1", ours=True, headline=True, requires=(STEPS,), post_hoc=SPLIT, **RULE,
    ),
    Statement(
        "others", f"On other images, at Figure 2's rate, {OVER}",
        source="Figure 6, “various datasets”; these, and the rate, ours", of=of("epoch"), each=ours,
        ours=True, requires=(STEPS,), post_hoc=SPLIT, **RULE,
    ),
    Statement(
        "initial", "At initialisation -corr(Ỹ, w) is near 1 (ours: above 0.9).", source="Appendix B.5.1",
        of=before, each=cases, paper="≈ 1", ours=True, **RULE,
    ),
    Statement(
        "rise", "When the layers' mean alignment has completed half its rise, -corr(Ỹ, w) is above 0.9.",
        source="Appendix B.4; the reading is ours", of=of("rise"), each=lambda p: cases(p, ["dense"]),
        ours=True, **RULE,
    ),
]  # fmt: skip

LEVEL = {
    HOLDS: f"above our threshold of {NEAR:g}",
    CONTRADICTED: f"below our threshold of {NEAR:g}",
    ABSENT: f"at our threshold of {NEAR:g}",
    UNDECIDED: f"too near our threshold of {NEAR:g} to tell",
    NOT_JUDGED: "not judged",
}
IN_NETWORKS = {
    HOLDS: "it is above in {}",
    CONTRADICTED: "it is below in {}",
    ABSENT: "it is at it in {}",
    UNDECIDED: "it is undecided in {}",
    NOT_JUDGED: "{} not judged",
}
ON_SETS = {
    HOLDS: "it is {}",
    CONTRADICTED: "it is {}, against the claim",
    ABSENT: "it is at our threshold",
    UNDECIDED: "it is undecided",
    NOT_JUDGED: "it is not judged",
}


def finding(table, parameters, claims):
    """Where the error signal stays collinear with the labels over the first epoch, and where not."""
    theirs = [claims[f"epoch-{case.id}"] for case in papers(parameters)]
    theirs = [claim for claim in theirs if claim.outcome in LEVEL]
    chosen = on_sets(claims)
    if not theirs and not chosen:
        return "No network was trained to the end."
    said = "In the first epoch the error signal's correlation with minus the labels"
    if not theirs:
        return f"{said} is as follows: {chosen}."
    first, *more = theirs
    network, dataset = first.case.split(", ")
    where = f" (in {network})" * (network != NETWORKS["dense"])
    said += f" averages {first.measured:.2f} on {dataset}{where}, {LEVEL[first.outcome]}"
    said += f"; {chosen}." if chosen else "."
    if rest := clauses({claim.id: claim for claim in more}, "epoch", IN_NETWORKS, in_networks):
        said += f" {rest[0].upper()}{rest[1:]}"
        if all(claim.outcome == NOT_JUDGED for claim in more):
            said += f": {'it' if len(more) == 1 else 'they'} saw only some of the images" * bool(
                parameters["conv_images"]
            )
        else:
            said += " (narrow here)" * (parameters["conv_width"] < 64)
        said += "."
    return said


def on_sets(claims):
    """``on MNIST, data we chose, it is 0.45, against the claim``; "" of none."""
    said, found = [], replicates(claims, "others")
    for outcome, words in ON_SETS.items():
        if some := found.get(outcome):
            values = listed(f"{claim.measured:.2f}" for claim in some)
            names = listed(claim.case.split(", ")[1] for claim in some)
            said.append(f"on {names}{', data we chose,' * (not said)} {words.format(values)}")
    return "; ".join(said)


def in_networks(claims, total):
    """``VGG-19 and ResNet-18``, with a verb where they are not judged."""
    names = listed(claim.case.split(", ")[0] for claim in claims)
    verb = "is" if len(claims) == 1 else "are"
    return f"{names} {verb}" if claims[0].outcome == NOT_JUDGED else names


def key_numbers(table, parameters):
    """The first-epoch means of the fully connected networks, on the paper's images first."""
    result, printed = [], {case.id for case in papers(parameters)}
    for case in [*papers(parameters), *ours(parameters)]:
        if case.given["network"] != "dense" or len(result) == 3:
            continue
        if len(values := of("epoch")(table, parameters, **case.given)):
            what = "minus the correlation of error signal and labels, mean over the first epoch, "
            paper = "≈ 1" if case.id in printed else None
            result.append(KeyNumber(what + case.words, interval(values, within=(-1, 1)), paper))
    return result
