"""Whether alignment rises from layer to layer after training, and falls before it (Figure 7)."""

from itertools import pairwise

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, once, weakest
from alignbook.statements import Statement
from alignbook.wording import fitting, listed

from ..curve_order import (
    DISAGREE,
    LARGER,
    above_previous,
    arrows,
    by_area,
    by_layer,
    monotone,
    share_above,
    weakest_step,
)
from ..names import by_set, title

SEEN = 5  # seeds 0 to 4 were seen before the second stop was judged, too
TABLES = ("ct_slices", "diabetes")  # data sets that have no pixels
STATES = {"before": "before", "after": "after", "further": "trained further"}


@once
def areas(table, dataset, when="after"):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"after"``, at convergence, ``"further"``, after more training, or an epoch, of the runs that it
        was measured in
    """
    if when == "further":
        return curves(at(table, kind="further", dataset=dataset), "layer", "area").rename(columns=int)
    return by_layer(at(table, kind="area", dataset=dataset), None if when == "after" else when)


@once
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


def ordered(table, parameters, dataset):
    """Of the weakest rise after training and the weakest fall before it, the one that is shown least."""
    return weakest(*(of(table, parameters, dataset) for of in (rises, falls)))


def shares(table, parameters, dataset, when="after"):
    """Share of the thresholds at which the curve of each layer lies above that of the one before it: a list.

    when : as for :func:`curves_of`; the first is that of the first hidden layer above the inputs
    """
    found = [curves_of(table, dataset, when, layer) for layer in range(parameters["layers"] + 1)]
    return [share_above(high, low) for low, high in pairwise(found)]


def lower(table, parameters, dataset):
    """As :func:`shares`, of the thresholds at which a layer's curve lies below, before training."""
    return [1 - share for share in shares(table, parameters, dataset, "before")]


def in_order(table, parameters, dataset):
    """The shares of both halves of the order: of hidden layers, after training and before it."""
    return shares(table, parameters, dataset)[1:] + lower(table, parameters, dataset)[1:]


def gained(table, parameters, dataset):
    """As :func:`shares`, of what training adds to a layer's curve, from the first hidden layer on."""
    layers = range(1, parameters["layers"] + 1)
    added = [
        (curves_of(table, dataset, "after", n) - curves_of(table, dataset, "before", n)).dropna(how="all")
        for n in layers
    ]  # fmt: skip
    return [share_above(high, low) for low, high in pairwise(added)]


def order(table, parameters):
    """Of the rises and falls on all data sets, the one that is shown least: all must hold."""
    return weakest(*(of(table, parameters, name) for name in parameters["datasets"] for of in (rises, falls)))


def of_both(table, parameters):
    """The shares of both halves of the order on all data sets."""
    return [one for name in parameters["datasets"] for one in in_order(table, parameters, name)]


def further(table, parameters, dataset):
    """The weakest rise after further training."""
    return rises(table, parameters, dataset, "further")


def gains(table, parameters, dataset):
    """The weakest step of what training adds to the areas."""
    return weakest_step((areas(table, dataset) - areas(table, dataset, 0)).dropna())


def inputs_after(table, parameters, dataset):
    """How far the first hidden layer lies above the inputs after training."""
    return first_above(table, dataset, "after")


def inputs_before(table, parameters, dataset):
    """How far it lies below them before training."""
    return -first_above(table, dataset, 0)


STANDS = {
    HOLDS: "holds", CONTRADICTED: "is contradicted", ABSENT: "is too small to count at some step",
    UNDECIDED: "is undecided", NOT_JUDGED: f"is not judged, as {DISAGREE}",
    NOT_RUN: "was not measured",
}  # fmt: skip
EACH = LARGER | {"source": "Figure 7, Section 5", "each": by_set}


STATEMENTS = [
    Statement(
        "ordered",
        "After training, alignment rises from one hidden layer to the next, and before training it falls: "
        "the weakest step of both.",
        **by_area(ordered, in_order), headline=True, **EACH,
    ),
    Statement(
        "order", "The same holds on every data set: the weakest step of all.", **by_area(order, of_both),
        ours=True, **EACH | {"each": None},
    ),
    Statement(
        "rises", "After training, each hidden layer aligns better than the one before it.",
        **by_area(rises, lambda t, p, dataset: shares(t, p, dataset)[1:]), **EACH,
    ),
    Statement(
        "rises-further",
        "After further training, to a hundredth of the loss at the first stop, each hidden layer aligns "
        "better than the one before it.",
        **by_area(further, lambda t, p, dataset: shares(t, p, dataset, "further")[1:], seen=SEEN), ours=True,
        **EACH,
        seen=SEEN, post_hoc="the second stop was added to the claims after five runs had been seen",
    ),
    Statement(
        "falls", "Before training the order is reversed: each hidden layer aligns worse than the one before.",
        **by_area(falls, lambda t, p, dataset: lower(t, p, dataset)[1:]), **EACH,
    ),
    Statement(
        "gains", "Training increases alignment more for layers closer to the output.",
        **by_area(gains, gained), **EACH | {"source": "Figure 7, caption"},
    ),
    Statement(
        "inputs-after", "After training, the first hidden layer aligns better than the inputs.",
        **by_area(inputs_after, lambda t, p, dataset: shares(t, p, dataset)[:1]), **EACH,
    ),
    Statement(
        "inputs-before", "Before training, the first hidden layer aligns worse than the inputs.",
        **by_area(inputs_before, lambda t, p, dataset: lower(t, p, dataset)[:1]), **EACH,
    ),
]  # fmt: skip


def finding(table, parameters, claims):
    """What alignment does with depth on each data set, by the verdicts on both halves."""
    outcomes = {
        name: {id: claims[f"{id}-{name}"].outcome for id in ("ordered", "rises", "falls")}
        for name in parameters["datasets"]
    }
    if any(outcome == NOT_RUN for one in outcomes.values() for outcome in one.values()):
        return "Not every data set has a finished run."
    orders, names = {one["ordered"] for one in outcomes.values()}, listed([title(name) for name in outcomes])
    few = " CT slices come from two patients." * ("ct_slices" in outcomes)
    if orders == {HOLDS}:
        order = "with depth, alignment rises after training and falls before it"
        return _of_pixels(f"The layers of {names} are in the paper's order: {order}.{few}", parameters)
    if orders == {NOT_JUDGED}:
        return f"The order of the layers is not judged.{few}"
    halves = []
    for id, verb, when, sign in (("rises", "rise", "after", 1), ("falls", "fall", 0, -1)):
        steps = {name: _weakest_place(sign * areas(table, name, when)) for name in outcomes}
        halves.append(_where({name: one[id] for name, one in outcomes.items()}, steps, verb))
    again = {2: "on both", 1: ""}.get(len(outcomes), "on all")
    after, before = halves[0], halves[1].replace(f"on {names}", again).rstrip()
    start = next(words for outcome, words in START.items() if outcome in orders)
    more = few.removesuffix(".") + _turned(table, claims, outcomes) + "." if few else ""
    texts = (
        f"{start}: after training, alignment {after}; before training it {before}.{more}",
        f"{start}: after training, alignment {after}; before training it {before}.{few}",
        f"{start}: after training, alignment {after}.{few}",
    )
    return fitting(*(_of_pixels(text, parameters) for text in texts))


def _of_pixels(text, parameters):
    """``text`` with the range of the pixels after its first mention of images: the order depends on it."""
    images = next((title(name) for name in parameters["datasets"] if name not in TABLES), None)
    darkest = f"{parameters['darkest']:g}".replace("-", "−")
    return text.replace(images, f"{images} (pixels from {darkest} to 1)", 1) if images else text


def _turned(table, claims, names):
    """Where alignment falls after further training alone, the end of a caveat on CT slices; "" of nowhere."""
    places = {
        name: _weakest_place(areas(table, name, "further")) for name in names
        if claims[f"rises-{name}"].outcome != CONTRADICTED
        and claims[f"rises-further-{name}"].outcome == CONTRADICTED
    }  # fmt: skip
    if not places:
        return ""
    if set(places) == {"ct_slices"}:
        return f"; with more training their alignment falls at {places['ct_slices']}"
    said = listed([f"{place} on {title(name)}" for name, place in places.items()])
    return f"; with more training alignment falls at {said}"


START = {  # by the worst verdict on a data set
    CONTRADICTED: "The order fails", ABSENT: "Not every layer is in order",
    UNDECIDED: "The order is undecided", NOT_JUDGED: "The order is not judged everywhere",
}  # fmt: skip
OPPOSITE = {"rise": "falls", "fall": "rises"}


def _where(outcomes, steps, verb):
    """``rises at every layer on MNIST, but hardly rises at the last layer on CT Position``.

    outcomes : {data set: outcome}; steps : {data set: what the layer of its weakest step is called}
    """
    groups = {}
    for name, outcome in outcomes.items():
        said = {
            HOLDS: f"{verb}s at every layer", CONTRADICTED: f"{OPPOSITE[verb]} at {steps[name]}",
            ABSENT: f"hardly {verb}s at {steps[name]}",
            UNDECIDED: f"may or may not {verb} at {steps[name]}", NOT_JUDGED: None,
        }[outcome]  # fmt: skip
        groups.setdefault(said, []).append(title(name))
    clauses = []
    for said, names in groups.items():
        where = f"on {listed(names)}"
        if said:
            clauses.append(f"{said} {where}")
        elif clauses:
            clauses.append(f"whether it {verb}s {where} is not judged, as {DISAGREE}")
        else:
            clauses.append(f"is not judged {where}, as {DISAGREE}")
    return ", but ".join(clauses)


def _weakest_place(found):
    """``the last layer`` or ``layer 2``: where the mean area rises least between hidden layers."""
    layer = found.drop(columns=0).mean().diff().idxmin()
    return "the last layer" if layer == found.columns[-1] else f"layer {layer}"


def other_range(parameters, other, claims):
    """What the order on MNIST is at another range of pixels, a sentence of prose; ``claims`` are of that.

    other : its darkest pixel
    """
    rise, fall = (claims[f"{id}-mnist"].outcome for id in ("rises", "falls"))
    here, there = (f"{darkest:g}".replace("-", "−") for darkest in (parameters["darkest"], other))
    return (
        f"Pixels go from {here} to 1 here. With pixels from {there} to 1, on MNIST, the rise from layer to "
        f"layer after training {STANDS[rise]}; the fall before training {STANDS[fall]}: see *Few examples, "
        "and another range of pixels*."
    )


def key_numbers(table, parameters):
    """The smallest rise after training by data set, on which its verdict rests; runs in the paper's order."""
    made, runs = [], []
    for dataset in parameters["datasets"]:
        after, before = areas(table, dataset), areas(table, dataset, 0)
        if not after.empty:
            what = f"smallest rise of the area between hidden layers, after training, {title(dataset)}"
            made.append(KeyNumber(what, interval(weakest_step(after), "{:+.3f}")))
            runs.extend(monotone(after) & monotone(-before))
    what = (
        "runs, on all data sets, in which alignment rises at every layer after training and falls before it"
    )
    return [*made[:2], KeyNumber(what, f"{sum(runs)} of {len(runs)}")] if made else []


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
                "epochs": {"after": "converged", "further": "trained further"}.get(when, str(when)),
                "area": arrows(found),
                "runs that rise at every step": f"{monotone(found).sum()} of {whole}",
                "weakest rise": interval(weakest_step(found), "{:+.3f}"),
            })  # fmt: skip
    return rows
