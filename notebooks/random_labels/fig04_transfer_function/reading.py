"""Whether training makes the transfer function f(σ) rise and then fall (Figure 4): measures, statements."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, weakest
from companion.statements import Case, Number, Statement

from ..shared import transfer_curves
from ..shared.filter_runs import complete, figure_rows
from ..shared.transfer_curves import FALL, RISE, change, networks


def pooled(rows):
    """f(σ) of the covariance of all networks' filters together (Section 2.3), from "gaussian" rows.

    Returns a table with ``sigma``, ``tau`` and ``low``, ``high``: mean ± one standard deviation of τ
    over the networks.
    """
    result = []
    for _, group in rows.groupby("index"):
        square = (group["tau"] ** 2 + group["mean"] ** 2).mean() - group["mean"].mean() ** 2
        spread = group["tau"].std(ddof=1) if len(group) > 1 else 0.0
        centre = group["tau"].mean()
        sigma = group["sigma"].iloc[0]
        result.append({"sigma": sigma, "tau": square**0.5, "low": centre - spread, "high": centre + spread})
    return pd.DataFrame(result)


def gaussian_rows(table, inputs=None):
    """Rows of the networks on Gaussian inputs, with this number of inputs or any."""
    return at(complete(table), kind="gaussian", **({} if inputs is None else {"inputs": inputs}))


def grown(rows):
    """τ at the last recorded epoch over τ at the first: (seeds × directions) frame, σ ascending."""
    last, first = (at(rows, epoch=epoch) for epoch in (rows["epoch"].max(), rows["epoch"].min()))
    return curves(last, "index", "tau") / curves(first, "index", "tau")


def growth(table, inputs=None, labels=None):
    """Growth of τ by training, a frame: of the networks with ``inputs``, or of the runs with ``labels``."""
    if labels is not None:
        return grown(figure_rows(table, labels, "transfer"))
    return transfer_curves.growth(networks(gaussian_rows(table, inputs))).rename_axis("network")


def changed(table, parameters, end, **which):
    """How far the growth rises (``RISE``) or falls (``FALL``), by seed or, with Gaussian inputs, network."""
    return change(growth(table, **which), end)


def first_fall(tau):
    """The number of the first epoch at which f(σ) visibly rises and then falls; the last if there is none.

    ``tau`` is a frame (epoch × direction), σ ascending. Visibly: at its peak the curve has grown by a tenth
    or more of its largest growth in any epoch, and at the largest σ by less than half of that at its peak.
    """
    growth = tau - tau.iloc[0]
    peak = growth.max(axis=1)
    falls = (peak > 0.1 * peak.max()) & (growth.iloc[:, -1] < 0.5 * peak)
    return int(falls.to_numpy().argmax()) if falls.any() else len(tau) - 1


def below_the_peak(table, parameters, labels):
    """By what share τ has grown less along the widest direction of the data than at the peak, by seed."""
    return -np.expm1(-changed(table, parameters, FALL, labels=labels))


def learned(table, parameters, labels):
    """Share of its training images that a network has right in the end, by seed."""
    rows = figure_rows(table, labels)
    return rows.sort_values("epoch").groupby("seed")["accuracy"].last()


def on_images(end):
    """The panels with images, random labels first."""
    return lambda parameters: [
        Case(labels, f"{parameters['dataset']}, {labels} labels", {"labels": labels, "end": end})
        for labels in ("random", "real")
    ]


def on_gaussian(end):
    """Panel (a): with the number of Gaussian inputs that shows it least."""
    return lambda t, p: weakest(*(changed(t, p, end, inputs=inputs) for inputs in p["inputs"]))


CURVE = {"source": "Figure 4, Section 2.3", "above": 0, "unit": "in ln τ"}
IMAGES = CURVE | {
    "of": changed,
    "matters": 0.05,
    "because": "5 % of τ is the width of the line in the figure",
}
GAUSSIAN = CURVE | {"matters": 0.005, "because": "half a percent of τ cannot be seen in the figure"}
RISES, FALLS = "Training makes f(σ) rise at first", "Training makes f(σ) fall in the end"
STATEMENTS = [
    Statement("falls", f"{FALLS}.", each=on_images(FALL), headline=True, **IMAGES),
    Statement("falls-gaussian", f"{FALLS}, on Gaussian inputs, too.", of=on_gaussian(FALL), **GAUSSIAN),
    Statement("rises", f"{RISES}.", each=on_images(RISE), **IMAGES),
    Statement("rises-gaussian", f"{RISES}, on Gaussian inputs, too.", of=on_gaussian(RISE), **GAUSSIAN),
]
LABELS = {"each": lambda p: [Case(labels, "", {"labels": labels}) for labels in ("random", "real")]}
NUMBERS = [
    Number("below", "how much less τ grew at the largest σ than at the peak", below_the_peak, **LABELS),
    Number("learned", "share of the training images learned", learned, bounds=(0, 1), **LABELS),
]
