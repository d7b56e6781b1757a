"""Whether later layers specialise to the source task (Figure 12)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, first, last, weakest
from alignbook.statements import Statement
from alignbook.wording import fitting, opening, sentences

from ..curve_order import LARGER, above_previous, by_layer, monotone, surest_fall, weakest_step
from ..peaks_design import NORMALISATIONS, TASKS


def areas(table, task, epoch=None, normalisation=NORMALISATIONS[0]):
    """Areas under the alignment curves, (seeds × layers) frame, layer 0 the inputs; empty without runs.

    epoch : None, the last of every run, or one, of the runs that it was measured in
    """
    return by_layer(at(table, kind="area", task=task, normalisation=normalisation), epoch)


def rise(table, task, normalisation):
    """The weakest rise from one hidden layer to the next, by seed."""
    return weakest_step(areas(table, task, normalisation=normalisation))


def fall(table, task, normalisation):
    """The surest fall from one hidden layer to the next, by seed."""
    return surest_fall(areas(table, task, normalisation=normalisation))


def last_worse(table, normalisation):
    """First less last hidden layer's area, related task."""
    found = areas(table, "related", normalisation=normalisation)
    return difference(found[1], last(found)) if len(found) else None


def gain(table, normalisation):
    """What training adds to the last hidden layer's area less what it adds to the first, source task."""
    after, before = (areas(table, "source", epoch, normalisation) for epoch in (None, 0))
    if after.empty or before.empty:
        return None
    added = (after - before).drop(columns=0).dropna()
    return difference(last(added), first(added))


def statements(normalisation=NORMALISATIONS[0]):
    """The paper's statements, judged on the areas with one ``normalisation`` of the rows."""
    return [
        Statement(
            "specialises",
            "From layer to layer, alignment with the source task rises at every step, and alignment with the "
            "related task falls at some step: the weaker of the two.",
            source="Figure 12, Section 7.1", headline=True, **LARGER,
            of=lambda t, p: weakest(rise(t, "source", normalisation), fall(t, "related", normalisation)),
        ),
        Statement(
            "source-monotone",
            "After training, each hidden layer aligns better with the source task than the one before it.",
            source="Figure 12, left", of=lambda t, p: rise(t, "source", normalisation), **LARGER,
        ),
        Statement(
            "related-not-monotone",
            "With the related task, some hidden layer aligns worse than the one before it.",
            source="Figure 12, right", of=lambda t, p: fall(t, "related", normalisation), **LARGER,
        ),
        Statement(
            "last-not-better",
            "The last hidden layer aligns no better with the related task than the first: it aligns less.",
            source="Figure 12, caption", of=lambda t, p: last_worse(t, normalisation), **LARGER,
        ),
        Statement(
            "from-training",
            "Training makes this order: the last hidden layer gains more alignment with the source task than "
            "the first.",
            source="Sections 5 and 7.1", of=lambda t, p: gain(t, normalisation), **LARGER,
        ),
    ]  # fmt: skip


STATEMENTS = statements()

RISES = {
    HOLDS: "alignment with it rises from layer to layer",
    ABSENT: "alignment with it rises too little to matter at some layer",
    CONTRADICTED: "alignment with it falls from some layer to the next",
    UNDECIDED: "it is undecided whether alignment with it rises at every layer",
    NOT_JUDGED: "it is not judged whether alignment with it rises at every layer",
}
FALLS = {
    HOLDS: "alignment with a related task falls at some layer",
    ABSENT: "alignment with a related task falls too little to matter",
    CONTRADICTED: "alignment with a related task does not fall",
    UNDECIDED: "alignment with a related task may fall",
    NOT_JUDGED: "it is not judged whether alignment with a related task falls",
}


def finding(table, parameters, claims):
    """How alignment goes from layer to layer with either task, and the areas of the related one."""
    said = opening(
        claims["specialises"], "Later layers specialise to the source task",
        contradicted="Later layers do not specialise to the source task as in the paper",
        absent="Later layers specialise to the source task, but too little to matter",
    )  # fmt: skip
    if said is None:
        return "No run has finished."
    found = areas(table, "related")
    rises = RISES[claims["source-monotone"].outcome]
    falls = FALLS[claims["related-not-monotone"].outcome]
    ends = (
        f"area under the curve {found[1].mean():.2f} in the first layer, {last(found).mean():.2f} in the last"
    )
    text, caveat = f"{said}: {rises}, and {falls}", "we chose when training ends, which the paper leaves open"
    return fitting(sentences(f"{text} ({ends})", caveat), sentences(text, caveat))


def key_numbers(table, parameters):
    """From the first to the last hidden layer, the gain of area by task; runs in which every step rises."""
    found = {task: areas(table, task) for task in ("source", "related")}
    if any(frame.empty for frame in found.values()):
        return []
    made = [
        KeyNumber(
            f"area under the alignment curve, last hidden layer minus first, {task} task",
            interval(difference(last(frame), frame[1]), "{:+.2f}"),
        )
        for task, frame in found.items()
    ]
    rising = monotone(found["source"])
    what = "runs in which alignment with the source task rises at every step"
    return [*made, KeyNumber(what, f"{rising.sum()} of {len(rising)}")]


def thresholds(table, parameters):
    """Share of the thresholds at which a layer's curve is higher than the one before it, a frame for show."""
    rows = {}
    for task in TASKS:
        layers = [at(table, kind="curve", task=task, layer=n) for n in range(parameters["layers"] + 1)]
        if len(layers[0]):
            rows[task] = above_previous([curves(one, "threshold", "alignment") for one in layers])
    return pd.DataFrame.from_dict(rows, orient="index")
