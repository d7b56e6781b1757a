"""Whether features of a network trained on ImageNet align best, and are learned from fastest (Figure 13)."""

from itertools import pairwise

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, weakest
from alignbook.statements import Case, Statement
from alignbook.wording import fitting, held, listed, weaker

from ..curve_order import percent_above
from ..names import by_set, title
from ..step_sizes import at_best, best
from .design import NAMES

OTHERS = ("original", "init", "hog", "sift", "rbf")
LOSSES = ("squared", "logistic")
SIZE = 1.0  # the largest step size at which the squared error converges on every representation
GONE = 0.05  # of ‖y‖²: alignment that has dropped off
CLOSED = 1e-6  # of ‖y‖²: what the closed-form solution may leave of labels that it fits
SEEN = 5  # seeds 0 to 4 were seen before two readings were chosen


def areas(table, dataset):
    """(seeds × representations) frame of areas; empty where there are none."""
    return curves(at(table, kind="area", dataset=dataset), "representation", "area")


def curves_of(table, dataset, representation):
    """Alignment curves over ‖y‖², (seeds × thresholds over √n) frame."""
    rows = at(table, kind="curve", dataset=dataset, representation=representation)
    return curves(rows, "threshold", "alignment")


def learning(table, dataset, loss, size=SIZE):
    """Rows of kind ``step`` at one step size for all representations; None: at the best one of each."""
    rows = at(table, kind="step", dataset=dataset, loss=loss)
    return at(rows, step_size=size) if size else at_best(rows, best(rows, ["representation"], "train"))


def losses(table, dataset, loss, split, step=None, size=None):
    """(seeds × representations) frame of the ``train`` or ``test`` loss after ``step`` (None: the last)."""
    rows = learning(table, dataset, loss, size)
    return curves(at(rows, step=rows["step"].max() if step is None else step), "representation", split)


def early(parameters):
    """The step at which training losses are compared."""
    return min(parameters["early"], parameters["iterations"])


def ahead(frame, name, sign):
    """How far ``name`` lies above the largest other column (``sign`` 1) or below the least (−1), by seed."""
    return difference(sign * frame[name], (sign * frame.drop(columns=name)).max(axis=1, skipna=False))


def ordered(table, parameters, dataset, loss):
    """Rise of the early training loss from a representation to the next in the order of the mean areas.

    Of the three rises, the one that shows it least.
    """
    left = losses(table, dataset, loss, "train", early(parameters), SIZE)
    mean = areas(table, dataset).mean()
    order = sorted(left, key=lambda name: -mean[name])
    return weakest(*(difference(left[low], left[high]) for high, low in pairwise(order))) if order else None


def before_gone(table, parameters, dataset):
    """Mean alignment over ‖y‖² up to the first threshold at which less than ``GONE`` is left, by seed.

    Of pre-trained features. 1 for a curve that stays at the top and drops at once, 1/2 for a straight fall.
    """
    wide = curves_of(table, dataset, "transfer")
    # Alignment never rises with the threshold: what is kept comes first.
    ends = (wide >= GONE).sum(axis=1).clip(1, wide.shape[1] - 1)
    means = [np.trapezoid(wide.loc[seed].iloc[: end + 1]) / end for seed, end in ends.items()]
    return pd.Series(means, index=wide.index, dtype=float)


def rbf_missed(table, parameters, dataset):
    """The larger share that least squares misses, of ‖y‖² or of the labels, in the worst run."""
    rows = at(table, kind="area", dataset=dataset, representation="rbf")
    return float(rows[["unfitted", "wrong"]].max().max()) if len(rows) else None


def pairs(parameters):
    """Cases per data set and representation that the pre-trained one is compared with."""
    return [
        Case(f"{data}-{name}", f"than {NAMES[name]}, {title(data)}", {"dataset": data, "name": name})
        for data in parameters["datasets"] for name in OTHERS
    ]  # fmt: skip


def models(parameters):
    """Cases per data set and loss of the linear models."""
    return [
        Case(f"{loss}-{data}", f"{loss} loss, {title(data)}", {"dataset": data, "loss": loss})
        for data in parameters["datasets"] for loss in LOSSES
    ]  # fmt: skip


# data/plans/representation_alignment.yaml
FEW = "areas lie in [0, 1], losses are shares of the loss at zero weights: five hundredths of either"
AREA = {"above": 0, "matters": 0.05, "because": FEW, "unit": "of the largest area"}
FASTEST = ("transfer", -1)  # the least loss
LOSS = AREA | {"unit": "of the loss", "source": "Figures 13 (c, d) and 20 (b, c)"}
STATEMENTS = [
    Statement(
        "better", "Features of the pre-trained network align better with the labels than other features.",
        source="Figures 13 (a, b), 19 and 20 (a), Section 7.2", **AREA, each=pairs, headline=True,
        of=lambda t, p, dataset, name: ahead(areas(t, dataset)[["transfer", name]], "transfer", 1),
    ),
    Statement(
        "poor", "At random initialisation, the network aligns less than the inputs.",
        source="Figures 13 (a) and 19, Section 7.2", **AREA, each=by_set,
        of=lambda t, p, dataset: ahead(areas(t, dataset)[["original", "init"]], "original", 1),
    ),
    Statement(
        "sudden",
        "Alignment of pre-trained features stays high and drops off suddenly, not in a straight line.",
        source="Figures 13 (a) and 19, Section 7.2", of=before_gone, each=by_set, ours=True,
        **AREA | {"above": 0.5, "unit": "of the labels"},
        seen=SEEN, post_hoc="how a sudden drop is measured was chosen after five runs had been seen",
    ),
    Statement(
        "faster", "Linear models train fastest on pre-trained features, at one step size for all.",
        each=models, **LOSS,
        of=lambda t, p, dataset, loss: ahead(losses(t, dataset, loss, "train", early(p), SIZE), *FASTEST),
        seen=SEEN, post_hoc="one step size for all replaced each one's best after five runs had been seen",
    ),
    Statement(
        "faster-best",
        "Linear models train fastest on pre-trained features, each at its best step size, by the loss after "
        "100 steps.",
        each=models, ours=True, **LOSS,
        of=lambda t, p, dataset, loss: ahead(losses(t, dataset, loss, "train", early(p)), *FASTEST),
    ),
    Statement(
        "ordered", "The better features align, the faster linear models train: from the largest area to the "
        "smallest, the training loss rises from each to the next, at one step size for all.",
        each=models, **LOSS | {"source": "Section 7.2"}, of=ordered, seen=SEEN,
        post_hoc="the order was seen in five runs; a rank correlation, tried first, was 1 in all later ones",
    ),
    Statement(
        "test", "Linear models end with the lowest test loss on pre-trained features.",
        each=models, **LOSS,
        of=lambda t, p, dataset, loss: ahead(losses(t, dataset, loss, "test"), *FASTEST),
    ),
    Statement(
        "rbf-slow", "Gradient descent leaves the largest squared training error on RBF features.",
        each=by_set, **LOSS,
        of=lambda t, p, dataset: ahead(losses(t, dataset, "squared", "train"), "rbf", 1),
    ),
    Statement(
        "rbf-fits", "The closed-form solution on RBF features has no training error and misses no label.",
        source="Section 7.2", of=rbf_missed, each=by_set, exactly=0.0, within=CLOSED,
        unit="of the labels, worst run",
    ),
]  # fmt: skip

WHO = {
    "imagenet": "Features of EfficientNet-Lite0, trained on ImageNet,",
    "random": "An untrained stand-in's features",
}
HAND_MADE = "HOG, SIFT and RBF"
LEARNT = {
    HOLDS: f", and linear models learn faster on them than on {HAND_MADE}",
    CONTRADICTED: f", but linear models do not always learn faster on them than on {HAND_MADE}",
    ABSENT: f", but linear models learn no faster on them than on the best of {HAND_MADE}",
    UNDECIDED: f"; it is undecided whether linear models learn faster on them than on {HAND_MADE}",
    NOT_JUDGED: f"; new runs must show whether linear models learn faster on them than on {HAND_MADE}",
    NOT_RUN: "; learning was not measured",
}


def finding(table, parameters, claims):
    """In how many comparisons pre-trained features align better, and whether models learn fastest on them."""
    better = {
        f"{NAMES[case.given['name']]} on {title(case.given['dataset'])}": claims[f"better-{case.id}"].outcome
        for case in pairs(parameters)
    }
    if set(better.values()) == {NOT_RUN}:
        return "No run has finished."
    learned = LEARNT[weaker(*(claims[f"faster-{case.id}"] for case in models(parameters)))]
    said = (
        f"{WHO[parameters['network']]} align better with the labels, by area, than the other features in "
        f"{held(better, 'comparisons')}"
    )
    small = "This network is smaller than the paper's" + ", and its curve crosses the pixels'" * crosses(
        table, parameters
    )
    return fitting(f"{said}{learned}. {small}.", f"{said}. {small}.", f"{said}.")


def crosses(table, parameters):
    """Whether the pixels' curve is the higher one somewhere."""
    return any(
        percent_above(*(curves_of(table, data, name) for name in ("original", "transfer"))) != "0 %"
        for data in parameters["datasets"]
    )


def last_ahead(table, parameters):
    """On which features the squared training loss after the last step is lower than on pre-trained ones.

    Each at its best step size; a sentence of prose, or "" where there are none.
    """
    told = []
    for data in parameters["datasets"]:
        means = losses(table, data, "squared", "train").mean()
        lower = [name for name in means.index if means[name] < means["transfer"]]
        told += [
            f"{NAMES[name]} on {title(data)} ({means[name]:.2g} against {means['transfer']:.2g})"
            for name in lower
        ]
    if not told:
        return ""
    return (
        "After the last step, with each at its best step size, some features have a lower squared "
        f"training loss than pre-trained ones: {listed(told)}."
    )


def key_numbers(table, parameters):
    """Areas of pre-trained features and of pixels, and the training loss after the early steps."""
    dataset, step = parameters["datasets"][0], early(parameters)
    found = areas(table, dataset)
    if found.empty:
        return []
    left = losses(table, dataset, "squared", "train", step, SIZE)
    return [
        KeyNumber(f"{what}, {title(dataset)}, {NAMES[name]}", f"{frame[name].mean():.2f}")
        for what, frame, name in (
            ("area under the curve", found, "transfer"),
            ("area under the curve", found, "original"),
            (f"squared training error after {step} steps of size 1", left, "transfer"),
        )
    ]
