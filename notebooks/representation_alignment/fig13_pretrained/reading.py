"""Whether features of a network trained on ImageNet align best, and are learned from fastest (Figure 13)."""

from itertools import pairwise

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, once, weakest
from companion.statements import Case, Number, Statement, least

from ..shared.names import by_set
from ..shared.step_sizes import at_best, best

LOSSES = ("squared", "logistic")
SIZE = 1.0  # the largest step size at which the squared error converges on every representation


def areas(table, dataset):
    """(seeds × representations) frame of areas; empty where there are none."""
    return curves(at(table, kind="area", dataset=dataset), "representation", "area")


def curves_of(table, dataset, representation):
    """Alignment curves over ‖y‖², (seeds × thresholds over √n) frame."""
    rows = at(table, kind="curve", dataset=dataset, representation=representation)
    return curves(rows, "threshold", "alignment")


@once
def learning(table, dataset, loss, size=SIZE):
    """Rows of kind ``step`` at one step size for all representations; None: at the best one of each."""
    rows = at(table, kind="step", dataset=dataset, loss=loss)
    return at(rows, step_size=size) if size else at_best(rows, best(rows, ["representation"], "train"))


def losses(table, dataset, loss, split, step=None, size=None):
    """(seeds × representations) frame of the ``train`` or ``test`` loss after ``step`` (None: the last)."""
    rows = learning(table, dataset, loss, size)
    return curves(at(rows, step=rows["step"].max() if step is None else step), "representation", split)


def ahead(frame, name, sign):
    """How far ``name`` lies above the largest other column (``sign`` 1) or below the least (−1), by seed."""
    return difference(sign * frame[name], (sign * frame.drop(columns=name)).max(axis=1, skipna=False))


def in_all(parameters, of):
    """The sample ``of(dataset)`` of the data set that shows it least; None where one has none."""
    found = [of(dataset) for dataset in parameters["datasets"]]
    return None if any(one is None or len(one) == 0 for one in found) else weakest(*found)


def better(table, parameters, dataset):
    """By how much pre-trained features' area exceeds that of the representation nearest to it, by seed."""
    found = areas(table, dataset)
    if "transfer" not in found:
        return None
    return weakest(*(difference(found["transfer"], found[name]) for name in found if name != "transfer"))


def moment(parameters, early):
    """(step, step size) of a comparison: early and at one step size, or last and at each one's best."""
    return (min(parameters["early"], parameters["iterations"]), SIZE) if early else (None, None)


def lead(table, parameters, loss, early, split="train", name="transfer", sign=-1):
    """How far ``name`` has the least loss (``sign`` 1: the largest), on the data set that shows it least."""

    def of(dataset):
        found = losses(table, dataset, loss, split, *moment(parameters, early))
        return ahead(found, name, sign) if name in found else None

    return in_all(parameters, of)


def ordered(table, parameters, early):
    """Rise of the squared training loss from each representation to the next in the order of the mean areas.

    Of all rises on all data sets the one that shows it least.
    """

    def of(dataset):
        left, mean = (
            losses(table, dataset, "squared", "train", *moment(parameters, early)),
            areas(table, dataset).mean(),
        )
        order = sorted(left, key=lambda name: -mean[name])
        return weakest(*(difference(left[low], left[high]) for high, low in pairwise(order)))

    return in_all(parameters, of)


def predicted(table, dataset):
    """Rows of the squared training loss, with ``predicted``: what the alignment curve says of the same step.

    After t steps, gradient descent has learned directions with a singular value σ above √(n/2ηt): the loss
    that is left is 1 − Alignment there. Between stored thresholds the curve is a straight line.
    """
    rows = learning(table, dataset, "squared")
    if rows.empty:
        return rows
    step = rows.groupby("representation")["step"].max().min()
    lowest = np.diff(np.unique(at(table, kind="curve")["threshold"]))[0]
    rows = rows[(rows["step"] > 0) & (2 * SIZE * rows["step"] <= lowest**-2) & (rows["step"] <= step)]
    made = []
    for name, own in rows.groupby("representation"):
        wide = curves_of(table, dataset, name)
        for seed, run in own.groupby("seed"):
            alignment = np.interp(
                (2 * SIZE * run["step"]) ** -0.5, wide.columns.astype(float), wide.loc[seed]
            )
            made.append(run.assign(predicted=1 - alignment))
    return pd.concat(made)


def off(table, parameters, dataset):
    """Mean distance of the predicted from the measured loss over steps and representations, by seed."""
    rows = predicted(table, dataset)
    return (rows["train"] - rows["predicted"]).abs().groupby(rows["seed"]).mean() if len(rows) else None


def either_loss(table, parameters, early, split="train"):
    """:func:`lead` by the loss that shows it least."""
    found = [lead(table, parameters, loss, early, split) for loss in LOSSES]
    return None if any(one is None for one in found) else weakest(*found)


def moments(parameters):
    """Cases: early at one step size, and last at each one's best."""
    early = f"after {parameters['early']} steps, one step size for all"
    return [
        Case("early", early, {"early": True}),
        Case("last", "after the last step, each at its best step size", {"early": False}),
    ]


# data/plans/representation_alignment.yaml
FEW = "areas lie in [0, 1], losses are shares of the loss at zero weights: five hundredths of either"
AREA = {"above": 0, "matters": 0.05, "because": FEW, "unit": "of the largest area"}
LOSS = AREA | {"unit": "of the loss", "source": "Figures 13 (c, d) and 20 (b, c)"}

STATEMENTS = [
    Statement(
        "better",
        "Features of the pre-trained network align better with the labels than any of the other features: "
        "the data set that shows it least.",
        source="Figures 13 (a, b), 19 and 20 (a), Section 7.2", of=least(better, by_set), headline=True,
        **AREA,
    ),
    Statement(
        "faster", "Linear models have the lowest training loss on pre-trained features: the loss and data "
        "set that show it least.",
        each=moments, of=either_loss, **LOSS,
        post_hoc="one step size for all was chosen after five runs had been seen",
    ),
    Statement(
        "ordered",
        "The better features align, the lower the squared training loss: it rises from each to the next in "
        "the order of areas.",
        each=moments, of=ordered, **LOSS | {"source": "Section 7.2"},
        post_hoc="the order was seen in five runs",
    ),
    Statement(
        "test",
        "Linear models end with the lowest test loss on pre-trained features, each at its best step size: "
        "the loss and data set that show it least.",
        of=lambda t, p: either_loss(t, p, False, "test"), **LOSS,
    ),
    Statement(
        "rbf-slow", "Gradient descent leaves the largest squared training error on RBF features.",
        of=lambda t, p: lead(t, p, "squared", False, name="rbf", sign=1), **LOSS,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "area", "area under the alignment curve", lambda t, p, dataset, name: areas(t, dataset).get(name),
        each=lambda p: [
            Case(f"{name}-{data}", "", {"dataset": data, "name": name})
            for data in p["datasets"] for name in ("transfer", "original", "init", "hog", "sift", "rbf")
        ],
    ),
    Number("lead", "area over that of the next best features", better, each=by_set),
    Number("off", "mean distance of the predicted from the measured loss", off, each=by_set),
]  # fmt: skip
