"""Whether features of a network trained on ImageNet align best, and are learned from fastest (Figure 13)."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference
from alignbook.statements import Case, Requirement, Statement

from ..curve_order import percent_above
from .design import LEARNED, NAMES

OTHERS = ("original", "init", "hog", "sift", "rbf")
LOSSES = ("squared", "logistic")
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
SIZE = 1.0  # the largest step size at which the squared error converges on every representation
GONE = 0.05  # of ‖y‖²: alignment that has dropped off
SHARE = (0.0, 1.0)  # no area lies outside
CLOSED = 1e-6  # of ‖y‖²: what the closed-form solution may leave of labels that it fits
SEEN = 5  # seeds 0 to 4 were seen before the readings marked post hoc were chosen
# data/plans/representation_alignment.yaml
FEW = "areas lie in [0, 1], losses are shares of that of zero weights: five hundredths of either"


def title(dataset):
    return TITLES.get(dataset, dataset)


def areas(table, dataset):
    """(seeds × representations) frame of areas; empty where there are none."""
    return curves(at(table, kind="area", dataset=dataset), "representation", "area")


def curves_of(table, dataset, representation):
    """Alignment curves over ‖y‖², (seeds × thresholds over √n) frame."""
    rows = at(table, kind="curve", dataset=dataset, representation=representation)
    return curves(rows, "threshold", "alignment")


def best(table, dataset, loss):
    """Rows of kind ``step`` at each representation's step size of lowest training loss after the last step.

    The mean over the runs decides, among those that converge in each; the larger one where two are alike.
    """
    rows = at(table, kind="step", dataset=dataset, loss=loss)
    last = rows[rows["step"] == rows["step"].max()]
    grouped = last.groupby(["representation", "step_size"])["train"]
    found = grouped.mean()[grouped.count() == rows["seed"].nunique()].reset_index()
    found = found.sort_values(["train", "step_size"], ascending=[True, False])
    chosen = found.groupby("representation")["step_size"].first()
    return rows[rows["step_size"] == rows["representation"].map(chosen)]


def learning(table, dataset, loss, size=SIZE):
    """Rows of kind ``step`` at one step size for all representations; None: at each one's :func:`best`."""
    if size is None:
        return best(table, dataset, loss)
    return at(table, kind="step", dataset=dataset, loss=loss, step_size=size)


def losses(table, dataset, loss, split, step=None, size=None):
    """(seeds × representations) frame of the ``train`` or ``test`` loss after ``step`` (None: the last)."""
    rows = learning(table, dataset, loss, size)
    return curves(at(rows, step=rows["step"].max() if step is None else step), "representation", split)


def early(parameters):
    """The step at which training losses are compared."""
    return min(parameters["early"], parameters["iterations"])


def better(table, parameters, dataset, name):
    """How far the area of ``name`` lies below that of the pre-trained features, by seed."""
    found = areas(table, dataset)
    return difference(found["transfer"], found[name]) if len(found) else None


def poor(table, parameters, dataset):
    """How far the area at initialisation lies below that of the inputs."""
    found = areas(table, dataset)
    return difference(found["original"], found["init"]) if len(found) else None


def before_gone(table, parameters, dataset):
    """Mean alignment over ‖y‖² up to the first threshold at which less than ``GONE`` is left, by seed.

    Of pre-trained features. 1 for a curve that stays at the top and drops at once, 1/2 for a straight fall.
    """
    wide = curves_of(table, dataset, "transfer")
    # Alignment never rises with the threshold: what is kept comes first.
    ends = (wide >= GONE).sum(axis=1).clip(1, wide.shape[1] - 1)
    means = [np.trapezoid(wide.loc[seed].iloc[: end + 1]) / end for seed, end in ends.items()]
    return pd.Series(means, index=wide.index, dtype=float)


def lead(table, parameters, dataset, loss, split, size, last):
    """How far the loss on pre-trained features lies below the lowest of the others, by seed."""
    step = None if last else early(parameters)
    found = losses(table, dataset, loss, split, step, size)
    return difference(found[["hog", "sift", "rbf"]].min(axis=1, skipna=False), found["transfer"])


def rbf_slow(table, parameters, dataset):
    """How far RBF's squared training error after the last step lies above the largest of the others."""
    found = losses(table, dataset, "squared", "train")
    return difference(found["rbf"], found[["transfer", "hog", "sift"]].max(axis=1, skipna=False))


def rbf_missed(table, parameters, dataset):
    """The larger share that least squares misses, of ‖y‖² or of the labels, in the worst run."""
    rows = at(table, kind="area", dataset=dataset, representation="rbf")
    return float(rows[["unfitted", "wrong"]].max().max()) if len(rows) else None


def unseen(table, parameters, **given):
    """Share of the runs that were made after the reading was chosen."""
    seeds = table["seed"].unique()
    return float((seeds >= SEEN).mean()) if len(seeds) else math.nan


NEW = (Requirement("share of the runs made after the reading was chosen", unseen, at_least=1.0),)
LEARNING, GAIN = "Figures 13 (c, d) and 20 (b, c)", {"above": 0, "matters": 0.05, "because": FEW}


def datasets(**given):
    """Cases for ``each``: one per data set."""
    return lambda p: [Case(name, title(name), {"dataset": name} | given) for name in p["datasets"]]


def by_loss(**given):
    """Cases for ``each``: one per data set and loss."""
    return lambda p: [
        Case(f"{loss}-{name}", f"{loss} loss, {title(name)}", {"dataset": name, "loss": loss} | given)
        for name in p["datasets"] for loss in LOSSES
    ]  # fmt: skip


STATEMENTS = [
    Statement(
        "better", "Features of the pre-trained network align better with the labels than others do.",
        source="Figures 13 (a, b), 19 and 20 (a), Section 7.2", of=better, unit="of the largest area", **GAIN,
        each=lambda p: [
            Case(f"{d}-{name}", f"than {NAMES[name]}, {title(d)}", {"dataset": d, "name": name})
            for d in p["datasets"] for name in OTHERS
        ],
        headline=True,
    ),
    Statement(
        "poor", "At random initialisation, the network aligns less than the inputs.",
        source="Figures 13 (a) and 19, Section 7.2", of=poor, unit="of the largest area", each=datasets(),
        **GAIN,
    ),
    Statement(
        "sudden",
        "Alignment of pre-trained features stays high and drops off suddenly, not in a straight line.",
        source="Figures 13 (a) and 19, Section 7.2", of=before_gone, above=0.5, matters=0.05, because=FEW,
        unit="of the labels", each=datasets(), ours=True, requires=NEW,
        post_hoc="how a sudden drop is measured was written after the first five runs had been seen",
    ),
    Statement(
        "deeper", "The deeper the network, the lower its alignment at initialisation.",
        source="Figure 19, Section 7.2", of=lambda t, p: None, unit="of the largest area", **GAIN,
    ),  # we have one network, which is compared with no other depth
    Statement(
        "faster", "Linear models train fastest on pre-trained features, at one step size for all.",
        source=LEARNING, of=lead, each=by_loss(split="train", size=SIZE, last=False), unit="of the loss",
        requires=NEW, **GAIN,
        post_hoc="one step size for all replaced each one's best after the first five runs had been seen",
    ),
    Statement(
        "faster-best", "Linear models train fastest on pre-trained features, each at its best step size.",
        source=LEARNING, of=lead, each=by_loss(split="train", size=None, last=False), unit="of the loss",
        ours=True, **GAIN,
    ),
    Statement(
        "test", "Linear models end with the lowest test loss on pre-trained features.", source=LEARNING,
        of=lead, each=by_loss(split="test", size=None, last=True), unit="of the loss", **GAIN,
    ),
    Statement(
        "rbf-slow", "Gradient descent leaves the largest squared training error on RBF features.",
        source=f"{LEARNING}, Section 7.2", of=rbf_slow, each=datasets(), unit="of the loss", **GAIN,
    ),
    Statement(
        "rbf-fits", "The closed-form solution on RBF features has no training error and misses no label.",
        source="Section 7.2", of=rbf_missed, each=datasets(), exactly=0.0, within=CLOSED,
        unit="of the labels, worst run",
    ),
]  # fmt: skip

WHO = {
    "imagenet": "a network trained on ImageNet",
    "random": "a small untrained network, tried in its place,",
}
CAVEAT = {"imagenet": "EfficientNet-Lite0 stands in for the paper's three networks."}
SAID = {CONTRADICTED: "worse than {}", ABSENT: "no better than {}", UNDECIDED: "undecided for {}"}
SAID |= {NOT_JUDGED: "not judged for {}", NOT_RUN: "not measured for {}"}


def finding(table, parameters, claims):
    """Whether pre-trained features align better than each of the others, and the two largest areas."""
    first = parameters["datasets"][0]
    found = areas(table, first)
    if found.empty:
        return "No run has finished."
    not_so = {}
    for dataset in parameters["datasets"]:
        for name in OTHERS:
            outcome = claims[f"better-{dataset}-{name}"].outcome
            if outcome != HOLDS:
                not_so.setdefault(outcome, []).append(f"{NAMES[name]} on {title(dataset)}")
    exceptions = "; ".join(SAID[outcome].format(_named(names)) for outcome, names in not_so.items())
    all_so = len(OTHERS) * len(parameters["datasets"]) > sum(map(len, not_so.values()))
    word = "align better with the labels than the inputs, an untrained network and hand-made features"
    if not all_so:
        word = "were compared with inputs, an untrained network and hand-made features"
    mean = found.mean()
    following = mean[list(OTHERS)].idxmax()
    said = f"Features of {WHO[parameters['network']]} {word}" + f" ({exceptions})" * bool(not_so)
    said += f": the area on {title(first)} is {mean['transfer']:.2f}, next {NAMES[following]} with "
    return f"{said}{mean[following]:.2f}. {CAVEAT.get(parameters['network'], '')}".strip()


def _named(names):
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"


def ends_lowest(table, dataset, loss="squared"):
    """Which representation ends with the lowest training loss at its best step size, a sentence."""
    mean = losses(table, dataset, loss, "train").mean()
    said = f"{title(dataset)}: the lowest {loss} training loss after the last step is that of "
    said += f"{NAMES[mean.idxmin()]}, {mean.min():.3f}"
    return said + (f"; pre-trained {mean['transfer']:.3f}." if mean.idxmin() != "transfer" else ".")


def thresholds(table, dataset):
    """At what share of the thresholds the pre-trained curve is the higher one, a row of cells."""
    trained = curves_of(table, dataset, "transfer")
    return {NAMES[name]: percent_above(trained, curves_of(table, dataset, name)) for name in OTHERS}


def key_numbers(table, parameters):
    """Areas, and training losses after the early steps at one step size."""
    dataset = parameters["datasets"][0]
    found = areas(table, dataset)
    if found.empty:
        return []
    made = []
    for names in (("transfer", "original", "init"), ("hog", "sift", "rbf")):
        words = " / ".join(NAMES[name] for name in names)
        shown = " / ".join(f"{found[name].mean():.2f}" for name in names)
        made.append(KeyNumber(f"area under the curve, {title(dataset)}: {words}", shown))
    left = losses(table, dataset, "squared", "train", early(parameters), SIZE)
    shown = " / ".join(f"{left[name].mean():.2f}" for name in LEARNED)
    what = f"squared training error after {early(parameters)} steps of size 1, {title(dataset)}: "
    return [*made, KeyNumber(what + " / ".join(NAMES[name] for name in LEARNED), shown)]
