"""Whether alignment rises from layer to layer after training, and falls before it (Figure 7)."""

from itertools import pairwise

import pandas as pd

from companion.over_seeds import at, curves, difference, once
from companion.statements import Case, Number, Statement, least

from ..shared.curve_order import HIGHER, LARGER, by_layer, share_above, weakest_step
from ..shared.names import by_set, title

WIDE = -1.0  # the darkest pixel of the authors' demo


@once
def areas(table, dataset, when="after"):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``before``; ``after``, at convergence; ``further``, after more training
    """
    if when == "further":
        return curves(at(table, kind="further", dataset=dataset), "layer", "area").rename(columns=int)
    return by_layer(at(table, kind="area", dataset=dataset), 0 if when == "before" else None)


def rises(table, parameters, dataset, when="after", darkest=None):
    """The weakest rise from one layer to the next, by seed; of runs with other pixels none."""
    if darkest is not None and parameters["darkest"] != darkest:
        return None
    return weakest_step(areas(table, dataset, when))


def falls(table, parameters, dataset):
    """The weakest fall before training."""
    return weakest_step(-areas(table, dataset, "before"))


def share(table, parameters, dataset):
    """Share of the thresholds at which a layer's curve lies above the previous one's: the run's least."""
    found = [
        curves(at(table, kind="curve", dataset=dataset, state="after", layer=layer), "threshold", "alignment")
        for layer in range(parameters["layers"] + 1)
    ]
    if any(frame.empty for frame in found):
        return None
    return pd.concat([share_above(high, low) for low, high in pairwise(found)], axis=1).min(axis=1)


def last_step(table, parameters, dataset):
    found = areas(table, dataset)
    return difference(found[parameters["layers"]], found[parameters["layers"] - 1]) if len(found) else None


def stops(parameters):
    """Cases: data sets at convergence and after more training, and MNIST with the demo's pixels."""
    names = parameters["datasets"]
    cases = [Case(name, title(name), {"dataset": name}) for name in names]
    cases += [
        Case(
            f"{name}-further",
            f"{title(name)}, trained to a hundredth of that loss",
            {"dataset": name, "when": "further"},
        )
        for name in names
    ]
    if "mnist" in names:
        given = {"dataset": "mnist", "darkest": WIDE}
        cases.append(Case("mnist-wide", "MNIST, pixels from −1 to 1", given))
    return cases


EACH = LARGER | {"source": "Figure 7, Section 5"}
STATEMENTS = [
    Statement(
        "rises", "After training, each layer aligns better than the one before it: the weakest step.",
        of=rises, headline=True, **EACH | {"each": stops},
    ),
    Statement(
        "falls", "Before training the order is reversed: each layer aligns worse than the one before it. "
        "The step and data set that show it least.",
        of=least(falls, by_set), **EACH,
    ),
    Statement(
        "range",
        "After training, each layer's curve lies above that of the one before it at most thresholds: the "
        "step and data set with the fewest.",
        of=least(share, by_set), **HIGHER | {"source": "Section 4, “wide range of thresholds”"},
    ),
]  # fmt: skip
NUMBERS = [
    Number("last", "area of the last layer less that of the one before it", last_step, each=by_set),
]
