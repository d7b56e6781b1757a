"""How many layers align, how much, and how accurate networks are: layer by layer and end to end."""

import pandas as pd

from companion.over_seeds import curves, difference
from companion.statements import Case, Number, Statement, least

from ..shared.names import called
from .design import TARGET, accuracies, chosen

SHARE = 0.8  # of the largest alignment, from which on a layer counts as one of several


def whole(table, dataset):
    """{epochs: the rows of networks trained end to end for so many}, ascending."""
    rows = chosen(table, "end to end", dataset)
    return dict(list(rows.groupby("epochs"))) if len(rows) else {}


def end_to_end(table, dataset, last=True):
    """The rows of networks trained end to end: of those that trained longest, or (not ``last``) least."""
    rows = list(whole(table, dataset).values())
    return rows[-1 if last else 0] if rows else pd.DataFrame()


def alignments(rows):
    """(seeds × layers) frame of one kind of network."""
    return curves(rows, "layer", "alignment").dropna()


def heights(rows):
    """The largest alignment of a layer, by seed."""
    return alignments(rows).max(axis=1)


def high(rows, share=SHARE):
    """How many layers have at least ``share`` of the largest alignment, by seed."""
    frame = alignments(rows)
    return frame.ge(share * frame.max(axis=1), axis=0).sum(axis=1).astype(float)


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


def widest(parameters):
    """{data set: its largest width}"""
    pairs = conditions(parameters)
    return {dataset: max(w for known, w in pairs if known == dataset) for dataset, _ in pairs}


def data_sets(parameters):
    """A case per data set, at its largest width."""
    return [Case(d, called(d), {"dataset": d, "width": w}) for d, w in widest(parameters).items()]


def stops(parameters):
    """A case per data set and time at which training end to end stops."""
    few, many = min(parameters["other_epochs"]), parameters["epochs"]
    ends = {"early": (False, f"{few} epochs"), "late": (True, f"{many} epochs")}
    return [
        Case(f"{d}-{name}", f"{called(d)}, {words} end to end", {"dataset": d, "width": w, "last": last})
        for d, w in widest(parameters).items()
        for name, (last, words) in ends.items()
    ]


def more_layers(table, parameters, dataset, width):
    """How many more layers come near the largest alignment layer by layer than end to end, by seed."""
    layerwise, together = chosen(table, "layers", dataset, width), end_to_end(table, dataset)
    return difference(high(layerwise), high(together))


def lower(table, parameters, dataset, width, last):
    """By how much the largest alignment is lower layer by layer, by seed."""
    layerwise = chosen(table, "layers", dataset, width)
    return difference(heights(end_to_end(table, dataset, last)), heights(layerwise))


def lost(table, parameters, dataset, width):
    """Points of test accuracy by which training layer by layer is worse, by seed."""
    beside = accuracies(end_to_end(table, dataset), "end to end", dataset)
    return difference(beside, accuracies(table, "layers", dataset, width))


def zero_loss(parameters):
    """The loss, per pair of a batch, of outputs whose kernel is 0 for every pair: what a layer must beat."""
    alike = 0.1 + 0.9 / parameters["batch_size"]  # of ten classes, each image with itself among the pairs
    return TARGET**2 * alike


STATEMENTS = [
    Statement(
        "worse", "Test accuracy is lower than that of a network trained end to end: the data set and width "
        "that lose least.",
        source="Figures 16 and 17", of=least(lost, cases), above=0, matters=1.0, unit="points",
        because="“noticeably” worse means at least a point", bounds=(-100, 100),
    ),
    Statement(
        "several", "Trained layer by layer, more layers come near the largest alignment than end to end "
        f"(from {SHARE:g} of it).",
        source="Figure 16", of=more_layers, above=0, matters=1.0, unit="layers", each=data_sets,
        headline=True,
        because="several layers instead of one peak are at least one more",
        post_hoc="the first measure, an effective number of layers, counted the background",
    ),
    Statement(
        "lower", "The largest alignment is lower than with training end to end.",
        source="Figure 16", of=lower, above=0, matters=0.01, unit="in alignment", each=stops,
        because="a tenth of the largest alignments", bounds=(-1, 1),
    ),
]  # fmt: skip
NUMBERS = [
    Number("lost", "points of accuracy lost layer by layer", lost, each=cases),
    Number("accuracy", "test accuracy layer by layer",
           lambda t, p, dataset, width: accuracies(t, "layers", dataset, width), each=cases),
    Number("whole", "test accuracy end to end",
           lambda t, p, dataset: accuracies(end_to_end(t, dataset), "end to end", dataset),
           each=lambda p: [Case(d, called(d), {"dataset": d}) for d in widest(p)]),
]  # fmt: skip
