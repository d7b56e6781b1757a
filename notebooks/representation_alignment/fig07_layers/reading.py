"""Whether alignment rises from layer to layer after training, and falls before it (Figure 7)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, weakest
from alignbook.statements import Statement
from alignbook.wording import opening

from ..curve_order import LARGER, above_previous, arrows, by_layer, monotone, weakest_step
from ..names import by_set, title

SEEN = 5  # seeds 0 to 4 were seen before the second stop was judged, too
STATES = {"before": "before", "after": "after", "further": "trained on"}


def areas(table, dataset, when="after"):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"after"``, at convergence, ``"further"``, after more training, or an epoch, of the runs that it
        was measured in
    """
    if when == "further":
        return curves(at(table, kind="further", dataset=dataset), "layer", "area").rename(columns=int)
    return by_layer(at(table, kind="area", dataset=dataset), None if when == "after" else when)


def curves_of(table, dataset, state, layer):
    """Alignment curves over ‖y‖², (seeds × thresholds) frame; state : ``before``, ``after``, ``further``."""
    rows = at(table, kind="curve", dataset=dataset, state=state, layer=layer)
    return curves(rows, "threshold", "alignment")


def rises(table, parameters, dataset, when="after"):
    """The weakest rise from one hidden layer to the next, by seed."""
    return weakest_step(areas(table, dataset, when))


def falls(table, parameters, dataset):
    """The weakest fall before training."""
    return weakest_step(-areas(table, dataset, 0))


def first_above(table, dataset, when):
    """How far the first hidden layer's area lies above that of the inputs, by seed."""
    found = areas(table, dataset, when)
    return difference(found[1], found[0]) if len(found) else pd.Series(dtype=float)


def order(table, parameters):
    """Of the rises and falls on all data sets, the one that is shown least: all must hold."""
    return weakest(*(of(table, parameters, name) for name in parameters["datasets"] for of in (rises, falls)))


EACH = LARGER | {"source": "Figure 7, Section 5", "each": by_set}
STATEMENTS = [
    Statement(
        "order",
        "On every data set, alignment rises from one hidden layer to the next after training and falls "
        "before it: the weakest of these.",
        of=order, headline=True, **EACH | {"each": None},
    ),
    Statement(
        "rises", "After training, each hidden layer aligns better than the one before it.", of=rises, **EACH,
    ),
    Statement(
        "rises-further",
        "Trained on, to a hundredth of that loss, each hidden layer aligns better than the one before it.",
        of=lambda t, p, dataset: rises(t, p, dataset, "further"), ours=True, **EACH,
        seen=SEEN, post_hoc="the second stop was added to the claims after five runs had been seen",
    ),
    Statement(
        "falls", "Before training the order is reversed: each hidden layer aligns worse than the one before.",
        of=falls, **EACH,
    ),
    Statement(
        "gains", "Training increases alignment more for layers closer to the output.",
        of=lambda t, p, dataset: weakest_step((areas(t, dataset) - areas(t, dataset, 0)).dropna()),
        **EACH | {"source": "Figure 7, caption"},
    ),
    Statement(
        "inputs-after", "After training, the first hidden layer aligns better than the inputs.",
        of=lambda t, p, dataset: first_above(t, dataset, "after"), **EACH,
    ),
    Statement(
        "inputs-before", "Before training, the first hidden layer aligns worse than the inputs.",
        of=lambda t, p, dataset: -first_above(t, dataset, 0), **EACH,
    ),
]  # fmt: skip


def finding(table, parameters, claims):
    """The order, and on which data sets each half came out."""
    said = opening(
        claims["order"], "The paper's order of layers shows",
        contradicted="The paper's order of layers does not show throughout",
        absent="Part of the paper's order of layers is missing",
    )  # fmt: skip
    if said is None:
        return "Not every data set has a finished run."
    rise, fall = (
        _where({title(name): claims[f"{id}-{name}"].outcome for name in parameters["datasets"]}, verb, other)
        for id, verb, other in (
            ("rises", "rises", "falls at some layer"), ("falls", "falls", "rises at some layer"),
        )
    )  # fmt: skip
    rows = at(table, kind="training", dataset="ct_slices")
    few = not rows.empty and rows["examples"].max() < parameters["points"]
    slices = " We have CT slices of two patients only." if few else ""
    after = f"with depth, alignment after training {rise}"
    return f"{said}: {after}; before training it {fall}.{slices}"


def _where(outcomes, holds, contradicted):
    """``rises on MNIST and hardly changes on CT Position``: what alignment does on which data sets."""
    verbs = {
        HOLDS: holds, CONTRADICTED: contradicted, ABSENT: "hardly changes", UNDECIDED: "is undecided",
    }  # fmt: skip
    groups = {}
    for name, outcome in outcomes.items():
        groups.setdefault(verbs.get(outcome, "is not judged"), []).append(name)
    return " and ".join(f"{verb} on {' and '.join(names)}" for verb, names in groups.items())


def key_numbers(table, parameters):
    """Mean areas of the hidden layers before and after training; runs in which the order is the paper's."""
    made, ordered = [], []
    for dataset in parameters["datasets"]:
        after, before = areas(table, dataset), areas(table, dataset, 0)
        if not after.empty:
            shown = f"{arrows(before, 2)} before, {arrows(after, 2)} after"
            made.append(KeyNumber(f"area by hidden layer, first to last, {title(dataset)}", shown))
            right = monotone(after) & monotone(-before)
            ordered.append(f"{title(dataset)} {right.sum()} of {len(right)}")
    what = "runs in which it rises at every step after training and falls at every step before it"
    return [*made[:2], KeyNumber(what, ", ".join(ordered))] if made else []


def thresholds(table, parameters):
    """Share of the thresholds at which a layer's curve is higher than the one before it, a frame for show."""
    rows = {}
    for dataset in parameters["datasets"]:
        for state, words in STATES.items():
            found = [curves_of(table, dataset, state, layer) for layer in range(parameters["layers"] + 1)]
            if not found[1].empty:
                rows[title(dataset), words] = above_previous(found)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["data", "training"] if rows else None)


def steps(table, parameters, dataset):
    """Rows of the table over training: mean areas, runs that rise at every step, and the weakest rise."""
    rows, whole = [], len(areas(table, dataset))
    for when in (0, *parameters["checkpoints"], "after", "further"):
        found = areas(table, dataset, when)
        if len(found) == whole > 0:
            rows.append({
                "data": title(dataset),
                "epochs": {"after": "converged", "further": "trained on"}.get(when, str(when)),
                "area": arrows(found),
                "runs that rise at every step": f"{monotone(found).sum()} of {whole}",
                "weakest rise": interval(weakest_step(found), "{:+.3f}"),
            })  # fmt: skip
    return rows
