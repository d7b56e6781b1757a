"""Does a deeper, or a wider, network start with less alignment than the inputs? (Figure 19, Section 9)"""

from itertools import pairwise

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, last, once, ratio, weakest
from companion.statements import Case, Number, Statement, least, pooled

from ..shared.names import by_set
from .design import DEPTHS, INPUTS, NAMES


@once
def areas(table, dataset, mode="evaluation"):
    """(seeds × networks) frame of areas, the inputs' first and the networks by depth; empty without rows."""
    found = curves(at(table, kind="area", dataset=dataset, mode=[mode, INPUTS]), "network", "area")
    if INPUTS not in found:
        return pd.DataFrame()
    return found[[INPUTS, *sorted(found.columns.drop(INPUTS), key=DEPTHS.get)]]


@once
def kept(table, dataset, mode="evaluation"):
    """(seeds × networks) frame: a network's area over that of the inputs."""
    found = areas(table, dataset, mode)
    return found.drop(columns=INPUTS).div(found[INPUTS], axis=0) if len(found) else found


def deeper(table, parameters, dataset):
    """How far the drop grows from a network to the next deeper one, the least of the steps; percent."""
    found = 100 * kept(table, dataset)
    return weakest(*(difference(found[shallow], found[deep]) for shallow, deep in pairwise(found)))


def factor(table, parameters, dataset):
    """The same of how often the area halves."""
    found = np.log2(kept(table, dataset))
    return weakest(*(difference(found[shallow], found[deep]) for shallow, deep in pairwise(found)))


def in_all(of):
    """The sample of the data set that shows it least, of samples ``of(table, dataset)``."""

    def measured(table, parameters):
        found = [of(table, dataset) for dataset in parameters["datasets"]]
        return None if any(one is None for one in found) else weakest(*found)

    return measured


def poor(table, dataset):
    """The drop below the inputs of the network that drops least, percent."""
    found = 100 * (1 - kept(table, dataset)) if len(areas(table, dataset)) else {}
    return weakest(*(found[name] for name in found))


def by_width(table, dataset):
    """(seeds × widths) frame of the random features, width 0 the inputs; empty where there are none."""
    rows = at(table, kind="area", dataset=dataset)
    return curves(rows.dropna(subset="width"), "width", "area") if "width" in rows else pd.DataFrame()


def wide_drop(table, dataset):
    """The drop of the widest random features below the inputs, percent."""
    found = by_width(table, dataset)
    return 100 * (1 - ratio(last(found), found[0])) if 0 in found and found.shape[1] > 1 else None


def by_training(table, dataset, state):
    """(seeds × networks) frame of areas before or after training on ImageNet, and of the inputs."""
    rows = at(table, kind="area", dataset=dataset)
    rows = at(rows.dropna(subset="trained"), state=[state, INPUTS]) if "trained" in rows else rows.iloc[:0]
    return curves(rows, "trained", "area")


def after(table, dataset):
    """By how much the area after training on ImageNet lies above the inputs', of the network least above."""
    found = by_training(table, dataset, "after")
    if INPUTS not in found:
        return None
    return weakest(*(difference(found[name], found[INPUTS]) for name in found if name != INPUTS))


def each_network(parameters):
    """A case per network and data set."""
    return [
        Case(f"{name}-{data}", NAMES[name], {"dataset": data, "name": name})
        for data in parameters["datasets"]
        for name in parameters["networks"]
    ]


PERCENT = {
    "above": 0, "matters": 5.0, "unit": "% of the inputs' area",
    "because": "a twentieth of the inputs' area could hardly be seen between two drawn curves",
}  # fmt: skip
HALVINGS = {
    "above": 0, "matters": 1.0, "unit": "halvings of the area",
    "because": "a factor of two is seen on a logarithmic axis",
}  # fmt: skip

STATEMENTS = [
    Statement(
        "deeper",
        "The deeper the untrained network, the farther its alignment drops below the inputs': the smaller of "
        "the two steps, mean over the data sets.",
        source="Figure 19, Section 7.2", of=pooled(deeper, by_set), headline=True, **PERCENT,
    ),
    Statement(
        "factor", "With each step in depth, the alignment that is left falls by a factor: the step and data "
        "set where it is smallest.",
        source="Figure 19, Section 7.2", of=least(factor, by_set), **HALVINGS,
        post_hoc="asked after it was seen that little is left to lose in percent",
    ),
    Statement(
        "poor", "An untrained network aligns less with the labels than the inputs: the best aligned one.",
        source="Figure 19, Section 7.2", of=in_all(poor), **PERCENT,
    ),
    Statement(
        "wide", "Random ReLU features, enough of them to fit every label, align less than the inputs.",
        source="Section 9", of=in_all(wide_drop), ours=True, **PERCENT,
    ),
    Statement(
        "after",
        "After training on ImageNet, a network aligns more than the inputs: the one that does least.",
        source="Figures 13 (a) and 19, Section 7.2", of=in_all(after), above=0, matters=0.05,
        unit="of the largest area", because="as on the page of Figure 13",
        post_hoc="after seeing five runs in percent, we compared areas as on the page of Figure 13",
    ),
]  # fmt: skip
NUMBERS = [
    Number("kept", "share of the inputs' area", lambda t, p, dataset, name: kept(t, dataset).get(name),
           each=each_network),
    Number(
        "batch-kept", "the same with the batch's statistics",
        lambda t, p, dataset, name: kept(t, dataset, "batch").get(name),
        each=each_network,
    ),
]  # fmt: skip
