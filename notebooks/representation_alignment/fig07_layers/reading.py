"""Whether alignment rises from layer to layer after training, and falls before it (Figure 7)."""

import math

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, weakest
from alignbook.statements import Case, Requirement, Statement

from ..curve_order import arrows, monotone, percent_above, weakest_step

NAMES = {"mnist": "MNIST", "ct_slices": "CT Position", "cifar10": "CIFAR-10"}
ROWS = 53_500  # of CT Position
SEEN = 5  # seeds 0 to 4 were seen before the second stop was judged, too


def title(dataset):
    return NAMES.get(dataset, dataset)


def areas(table, dataset, when="after"):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"after"``, at convergence, ``"further"``, after more training, or an epoch, of the runs that it
        was measured in
    """
    rows = at(table, kind="further" if when == "further" else "area", dataset=dataset)
    if rows.empty:
        return pd.DataFrame()
    if when != "further":
        last = rows.groupby("seed")["epoch"].transform("max")
        rows = rows[rows["epoch"] == (last if when == "after" else when)]
    return curves(rows.astype({"layer": int}), "layer", "area")


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


def gains(table, parameters, dataset):
    """The weakest rise, from one hidden layer to the next, of what training adds to the area."""
    return weakest_step((areas(table, dataset) - areas(table, dataset, 0)).dropna())


def first_above(table, parameters, dataset, when, sign):
    """First hidden layer's area less that of the inputs, times ``sign``."""
    found = areas(table, dataset, when)
    return sign * difference(found[1], found[0]) if len(found) else None


def order(table, parameters):
    """Of the rises and falls on all data sets, the one that is shown least: all must hold."""
    every = [of(table, parameters, name) for name in parameters["datasets"] for of in (rises, falls)]
    return weakest(*every)


def unseen(table, parameters, **given):
    """Share of the runs that were made after the second stop was chosen."""
    seeds = table["seed"].unique()
    return float((seeds >= SEEN).mean()) if len(seeds) else math.nan


NEW = (Requirement("share of the runs made after the second stop was chosen", unseen, at_least=1.0),)


def datasets(p):
    return [Case(name, title(name), {"dataset": name}) for name in p["datasets"]]


EACH = {
    "above": 0, "matters": 0.01, "unit": "of the largest area", "each": datasets,  # data/plans/…
    "because": "a hundredth of the largest possible area is about what the width of a drawn curve covers",
}  # fmt: skip
SECTION = "Figure 7, Section 5"
STATEMENTS = [
    Statement(
        "order",
        "On every data set, alignment rises from one hidden layer to the next after training and falls "
        "before it: the weakest of these.",
        source=SECTION, of=order, headline=True, **EACH | {"each": None},
    ),
    Statement(
        "rises", "After training, each hidden layer aligns better than the one before it.", source=SECTION,
        of=rises, **EACH,
    ),
    Statement(
        "rises-further",
        "Trained on, to a hundredth of that loss, each hidden layer aligns better than the one before it.",
        source=SECTION, of=lambda t, p, dataset: rises(t, p, dataset, "further"), ours=True, **EACH,
        post_hoc="the second stop was added to the claims after the first five runs had been seen",
        requires=NEW,
    ),
    Statement(
        "falls", "Before training the order is reversed: each hidden layer aligns worse than the one before.",
        source=SECTION, of=falls, **EACH,
    ),
    Statement(
        "gains", "Training increases alignment more for layers closer to the output.",
        source="Figure 7, caption", of=gains, **EACH,
    ),
    Statement(
        "inputs-after", "After training, the first hidden layer aligns better than the inputs.",
        source=SECTION, of=lambda t, p, dataset: first_above(t, p, dataset, "after", 1), **EACH,
    ),
    Statement(
        "inputs-before", "Before training, the first hidden layer aligns worse than the inputs.",
        source=SECTION, of=lambda t, p, dataset: first_above(t, p, dataset, 0, -1), **EACH,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "As in the paper, alignment rises from layer to layer after training and falls before it",
    ABSENT: "Part of the paper's order of layers is too weak to be seen",
    CONTRADICTED: "Part of the paper's order of layers is not there",
    UNDECIDED: "Whether the whole of the paper's order of layers is there is undecided",
}
HALVES = {"rises": "after training alignment rises", "falls": "before training it falls"}
WORDS = {HOLDS: "on {}", CONTRADICTED: "not on {}", ABSENT: "not visibly on {}", UNDECIDED: "perhaps on {}"}
LATER = {HOLDS: "does", CONTRADICTED: "does not", ABSENT: "hardly does", UNDECIDED: "perhaps does"}


def finding(table, parameters, claims):
    """The order, how each half came out on each data set, and of what data."""
    claim = claims["order"]
    if claim.outcome == NOT_JUDGED:
        return "The order of the layers is not judged on these runs."
    if claim.outcome not in SAID:
        return "Not every data set has a finished run."
    parts = []
    for half, words in HALVES.items():
        found = {}
        for name in parameters["datasets"]:
            found.setdefault(claims[f"{half}-{name}"].outcome, []).append(title(name))
        where = [WORDS[outcome].format(" and ".join(names)) for outcome, names in found.items()]
        parts.append(f"{words} {', '.join(where)}")
    said = f"{SAID[claim.outcome]}: {'; '.join(parts)}."
    for name in parameters["datasets"]:
        now, later = (claims[f"{id}-{name}"].outcome for id in ("rises", "rises-further"))
        if later in LATER and later != now:
            said += f" Trained on, it {LATER[later]} on {title(name)}."
    return said + "".join(stand_in(table, name) for name in parameters["datasets"])


def stand_in(table, dataset):
    """`` CT Position: 682 of its 53,500 rows.`` where fewer than asked for could be had, else nothing."""
    rows = at(table, kind="training", dataset=dataset)
    if dataset != "ct_slices" or rows.empty:
        return ""
    points, had = int(rows["points"].max()), int(rows["examples"].max())
    return f" {title(dataset)}: {had} of its {ROWS:,} rows, of two patients." if had < points else ""


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
    if made:
        what = "runs in which it rises at every step after training and falls at every step before it"
        made = [*made[:2], KeyNumber(what, ", ".join(ordered))]
    return made


def thresholds(table, parameters):
    """Share of the thresholds at which a layer's curve is higher than the one before it, a frame for show."""
    rows = []
    for dataset in parameters["datasets"]:
        for state, words in (("before", "before"), ("after", "after"), ("further", "trained on")):
            found = [curves_of(table, dataset, state, layer) for layer in range(parameters["layers"] + 1)]
            if not found[1].empty:
                row = {"data": title(dataset), "training": words}
                for layer in range(1, len(found)):
                    other = "inputs" if layer == 1 else f"layer {layer - 1}"
                    row[f"layer {layer} above {other}"] = percent_above(found[layer], found[layer - 1])
                rows.append(row)
    return pd.DataFrame(rows).set_index(["data", "training"]) if rows else pd.DataFrame()


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
