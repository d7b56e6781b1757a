"""How many layers align, how much, and how accurate networks are: layer by layer and end to end."""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import agree, curves, difference
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, first_unmet, fitting, named, replicates, sentences

from ..names import called
from .design import TARGET, accuracies, chosen

FEWER, HEIGHT = 1.0, 0.01  # smallest effects that matter: layers; of the alignment
PATIENT = 10  # passes; networks that stopped after two were seen when the number of layers was redefined


def whole(table, dataset):
    """{epochs: the rows of networks trained end to end for so many}, ascending."""
    rows = chosen(table, "end to end", dataset)
    return dict(list(rows.groupby("epochs"))) if len(rows) else {}


def end_to_end(table, dataset):
    """The rows of networks trained end to end, of those that trained longest."""
    return next(reversed(whole(table, dataset).values()), pd.DataFrame())


def alignments(rows):
    """(seeds × layers) frame of one kind of network."""
    return curves(rows, "layer", "alignment").dropna()


def heights(rows):
    """The largest alignment of a layer, by seed."""
    return alignments(rows).max(axis=1)


def effective(rows):
    """(Σ A_l)² / Σ A_l²: how many layers share the alignment, by seed; 1 of a single one, L of equal ones."""
    frame = alignments(rows)
    return frame.sum(axis=1) ** 2 / np.square(frame).sum(axis=1)


def peaks(rows):
    """The layer of largest alignment, by seed."""
    return alignments(rows).idxmax(axis=1) if len(rows) else pd.Series(dtype=float)


def conditions(parameters):
    """[(data set, width)] of what is trained layer by layer."""
    p = parameters
    return [(p["first"], w) for w in p["first_widths"]] + [(p["second"], w) for w in p["second_widths"]]


def title(dataset, width):
    """How a condition is called in text."""
    return f"{called(dataset)}, width {width}"


def cases(parameters):
    """A case per data set and width."""
    return [Case(f"{d}-{w}", title(d, w), {"dataset": d, "width": w}) for d, w in conditions(parameters)]


def first_cases(parameters):
    """Those of Figure 16."""
    return [case for case in cases(parameters) if case.given["dataset"] == parameters["first"]]


def more_layers(table, parameters, dataset, width, beside=None):
    """How many more layers share the alignment layer by layer, by seed; ``beside`` as for :func:`lower`."""
    beside = end_to_end(table, dataset) if beside is None else beside
    return difference(effective(chosen(table, "layers", dataset, width)), effective(beside))


def lower(table, parameters, dataset, width, beside=None):
    """By how much the largest alignment is lower layer by layer, by seed.

    beside : rows of the networks trained end to end; by default of those that trained longest
    """
    beside = end_to_end(table, dataset) if beside is None else beside
    return difference(heights(beside), heights(chosen(table, "layers", dataset, width)))


def by_stop(of, table, parameters, dataset, width):
    """{epochs: what ``of`` reads beside the networks that were trained end to end for so many}."""
    stopped = whole(table, dataset).items()
    return {epochs: of(table, parameters, dataset, width, rows) for epochs, rows in stopped}


def same_whenever(of, matters):
    """A condition: ``of`` has the same verdict whenever training end to end stops; None of one time alone."""

    def agrees(table, parameters, **kind):
        found = by_stop(of, table, parameters, **kind)
        return agree(*found.values(), matters=matters) if len(found) > 1 else None

    return agrees


def lost(table, parameters, dataset, width):
    """Points of test accuracy by which training layer by layer is worse, by seed."""
    beside = accuracies(end_to_end(table, dataset), "end to end", dataset)
    return difference(beside, accuracies(table, "layers", dataset, width))


def stops(table, parameters, dataset, width):
    """At how many times networks trained end to end were stopped."""
    return len(by_stop(lower, table, parameters, dataset, width))


def hidden(table, parameters, dataset, width):
    """Whether the networks trained end to end peak in a hidden layer, on every seed."""
    rows = end_to_end(table, dataset)
    return peaks(rows).between(2, rows["layer"].max() - 1).all() if len(rows) else None


def zero_loss(parameters):
    """The loss, per pair of a batch, of outputs whose kernel is 0 for every pair: what a layer must beat."""
    alike = 0.1 + 0.9 / parameters["batch_size"]  # of ten classes, each image with itself among the pairs
    return TARGET**2 * alike


def worse_than_zero(table, parameters, dataset, width):
    """(seeds × hidden layers) frame: whether a layer's held-out loss ends above :func:`zero_loss`."""
    losses = curves(chosen(table, "layers", dataset, width), "layer", "loss")
    return losses.iloc[:, :-1] > zero_loss(parameters)


PATIENT_ENOUGH = Requirement(
    "passes without a lower loss before a layer's training ends",
    lambda t, p, **kind: p["patience"],
    at_least=PATIENT,
)
HIDDEN = Requirement("the network trained end to end has a hidden peak", hidden)
STOPS = Requirement(
    "stopping times of networks trained end to end", stops, at_least=2, because="The paper prints none",
)  # fmt: skip
SAME = {
    of: Requirement("the verdict is the same at each stopping time", same_whenever(of, matters))
    for of, matters in ((more_layers, FEWER), (lower, HEIGHT))
}
STATEMENTS = [
    Statement(
        "several",
        "More layers share the alignment when trained layer by layer than when trained end to end.",
        source="Figure 16", of=more_layers, above=0, matters=FEWER, unit="layers", each=first_cases,
        ours=True,
        because="several layers instead of one peak are at least one more",
        requires=(PATIENT_ENOUGH, HIDDEN, STOPS, SAME[more_layers]),
        post_hoc="on MNIST one layer reaches 0.9 of the largest alignment in every network: the effective "
        "number (Σ A)² / Σ A² replaced that count after it was seen, and is judged on new networks only",
        headline=True,
    ),
    Statement(
        "lower", "The largest alignment is lower than with training end to end.",
        source="Figure 16", of=lower, above=0, matters=HEIGHT, unit="in alignment", each=first_cases,
        because="a tenth of the largest alignments", bounds=(-1, 1),
        requires=(HIDDEN, STOPS, SAME[lower]),
    ),
    Statement(
        "worse", "Test accuracy is lower than that of a network trained end to end.",
        source="Figures 16 and 17", of=lost, above=0, matters=1.0, unit="points", each=cases,
        because="“noticeably” worse means at least a point", bounds=(-100, 100),
    ),
]  # fmt: skip

ONE_BY_ONE = "layers share the alignment when trained one by one than when trained together"
SHARED = {
    HOLDS: f"more {ONE_BY_ONE}{{}}",
    CONTRADICTED: f"fewer, not more, {ONE_BY_ONE}{{}}",
    ABSENT: "as many layers share the alignment when trained one by one as when trained together{}",
    UNDECIDED: f"whether more {ONE_BY_ONE} is undecided{{}}",
    NOT_JUDGED: f"we do not judge whether more {ONE_BY_ONE}{{}}",
}
WHY_NOT = {  # the first that is not met
    PATIENT_ENOUGH.text: "ours may have stopped too early",
    HIDDEN.text: "our {} network trained as a whole has no hidden peak",
    STOPS.text: "how high its peak is depends on when it stops",
    SAME[lower].text: "the answer depends on when training as a whole stops",
}
LOWER = {
    HOLDS: "the largest alignment is lower{}, as in the paper",
    CONTRADICTED: "the largest alignment is higher instead of lower{}",
    ABSENT: "the largest alignment is as high{}",
}
POORER = "networks trained layer by layer are "
WORSE = {
    HOLDS: f"{POORER}less accurate{{}}",
    CONTRADICTED: f"{POORER}more accurate{{}}",
    ABSENT: f"{POORER}as accurate{{}}",
}


def finding(table, parameters, claims):
    """Whether several layers align, and whether such networks are worse; words follow the verdicts."""
    said = clauses(claims, "several", SHARED)
    if not said:
        return "No network was trained to the end."
    found = replicates(claims, "several")
    if list(found) == [NOT_JUDGED]:
        why = first_unmet(found[NOT_JUDGED][0], WHY_NOT)
        said = SHARED[NOT_JUDGED].format("")
        if why == WHY_NOT[HIDDEN.text]:
            said = said.replace(f"whether more {ONE_BY_ONE}", "how many layers share the alignment")
            if list(replicates(claims, "lower")) == [NOT_JUDGED]:
                said += ", nor whether its largest value is lower"
        said += f", because {why.format(called(parameters['first']))}"
    said = f"{said[0].upper()}{said[1:]}"
    worse, lowered = how_accurate(table, parameters, claims), clauses(claims, "lower", LOWER, named)
    tails = ((*worse, lowered), worse, (lowered,))
    return fitting(*(sentences(said, *some) for some in tails), f"{said}.")


def how_accurate(table, parameters, claims):
    """[clause]: how accurate networks trained layer by layer are; [] where none is decided."""
    decided = [case for case in cases(parameters) if claims[f"worse-{case.id}"].outcome in WORSE]
    if not decided:
        return []
    case = max(decided, key=lambda case: (case.given["dataset"] == parameters["first"], case.given["width"]))
    dataset, width = case.given.values()
    here = accuracies(table, "layers", dataset, width).mean()
    there = accuracies(end_to_end(table, dataset), "end to end", dataset).mean()
    return [f"{clauses(claims, 'worse', WORSE)} ({case.words}: {here:.0f} against {there:.0f} %)"]


def key_numbers(table, parameters):
    """How many more layers share the alignment layer by layer, on the first data set."""
    kind = {"dataset": parameters["first"], "width": max(parameters["first_widths"])}
    more = more_layers(table, parameters, **kind)
    what = f"layers that share the alignment, layer by layer minus end to end, {title(**kind)}"
    return [KeyNumber(what, interval(more, "{:+.1f}"))] if len(more) else []
