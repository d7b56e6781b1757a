"""Whether later layers specialise to the source task (Figure 12)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, first, last, weakest
from alignbook.statements import Statement

from ..curve_order import arrows, monotone, percent_above, weakest_step
from ..peaks_design import NORMALISATIONS, TASKS


def areas(table, task, when="trained", normalisation=NORMALISATIONS[0]):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"trained"``, the last epoch of every run, or an epoch, of the runs that it was measured in
    """
    rows = at(table, kind="area", task=task, normalisation=normalisation)
    if rows.empty:
        return pd.DataFrame()
    end = rows.groupby("seed")["epoch"].transform("max")
    rows = rows[rows["epoch"] == (end if when == "trained" else when)]
    return curves(rows.astype({"layer": int}), "layer", "area")


def curves_of(table, task, layer):
    """Alignment curves after training, (seeds × thresholds) frame."""
    return curves(at(table, kind="curve", task=task, layer=layer), "threshold", "alignment")


def rise(table, task, normalisation):
    """The weakest rise from one hidden layer to the next, by seed."""
    return weakest_step(areas(table, task, normalisation=normalisation))


def last_worse(table, normalisation):
    """First less last hidden layer's area, related task."""
    found = areas(table, "related", normalisation=normalisation)
    return difference(found[1], last(found)) if len(found) else None


def gain(table, normalisation):
    """What training adds to the last hidden layer's area less what it adds to the first, source task."""
    after, before = (areas(table, "source", when, normalisation) for when in ("trained", 0))
    if after.empty or before.empty:
        return None
    added = (after - before).drop(columns=0).dropna()
    return difference(last(added), first(added))


def statements(normalisation=NORMALISATIONS[0]):
    """The paper's statements, judged on the areas with one ``normalisation`` of the rows."""
    shared = {
        "above": 0, "matters": 0.01, "unit": "of the largest area",
        "because": "a hundredth of the largest possible area is about what the width of a drawn curve covers",
    }  # fmt: skip
    return [
        Statement(
            "specialises",
            "Layer by layer, alignment rises at every step with the source task and falls at one with the "
            "related task: the weaker of the two.",
            source="Figure 12, Section 7.1", headline=True, **shared,
            of=lambda t, p: weakest(rise(t, "source", normalisation), -rise(t, "related", normalisation)),
        ),
        Statement(
            "source-monotone",
            "After training, each hidden layer aligns better with the source task than the one before it.",
            source="Figure 12, left", of=lambda t, p: rise(t, "source", normalisation), **shared,
        ),
        Statement(
            "related-not-monotone",
            "With the related task, some hidden layer aligns worse than the one before it.",
            source="Figure 12, right", of=lambda t, p: -rise(t, "related", normalisation), **shared,
        ),
        Statement(
            "last-not-better", "The last hidden layer aligns less with the related task than the first.",
            source="Figure 12, caption", of=lambda t, p: last_worse(t, normalisation), **shared,
        ),
        Statement(
            "from-training",
            "Training makes the order: of the source task, the last hidden layer gains more than the first.",
            source="Sections 5 and 7.1", of=lambda t, p: gain(t, normalisation), **shared,
        ),
    ]  # fmt: skip


STATEMENTS = statements()

SAID = {
    HOLDS: "Later layers specialise to the source task",
    ABSENT: "That later layers specialise to the source task is too weak to be seen",
    CONTRADICTED: "Later layers do not specialise to the source task as in the paper",
    UNDECIDED: "Whether later layers specialise to the source task is undecided",
    NOT_JUDGED: "Whether later layers specialise to the source task is not judged",
}
RISES = {
    HOLDS: "rises at every step",
    ABSENT: "hardly rises at some step",
    CONTRADICTED: "falls at some step",
    UNDECIDED: "may not rise at every step",
}
FALLS = {
    HOLDS: "falls at some step",
    ABSENT: "hardly falls at any step",
    CONTRADICTED: "rises at every step",
    UNDECIDED: "may rise at every step",
}


def finding(table, parameters, claims):
    """How alignment goes from layer to layer with either task, and the areas of the related one."""
    claim = claims["specialises"]
    if claim.outcome not in SAID:
        return "No run has finished."
    found = areas(table, "related")
    rises, falls = (
        words.get(claims[id].outcome, "was measured")
        for id, words in (("source-monotone", RISES), ("related-not-monotone", FALLS))
    )
    return (
        f"{SAID[claim.outcome]}: from layer to layer, alignment with it {rises}, and alignment with a "
        f"related task {falls}, with an area of {found[1].mean():.2f} in the first hidden layer and "
        f"{last(found).mean():.2f} in the last. When training ends is our choice."
    )


def key_numbers(table, parameters):
    """Mean areas of the hidden layers, by task; runs in which every step is a rise."""
    made, rising = [], []
    for task in ("source", "related"):
        found = areas(table, task)
        if found.empty:
            return []
        made.append(KeyNumber(f"area by hidden layer, first to last, {task} task", arrows(found)))
        rising.append(f"{task} {monotone(found).sum()} of {len(found)}")
    return [*made, KeyNumber("runs in which alignment rises at every step", ", ".join(rising))]


def thresholds(table, parameters):
    """Share of the thresholds at which a layer's curve is higher than the one before it, a frame for show."""
    rows = {}
    for task in TASKS:
        found = [curves_of(table, task, layer) for layer in range(parameters["layers"] + 1)]
        if not found[0].empty:
            rows[task] = {
                f"layer {layer} above {f'layer {layer - 1}' if layer > 1 else 'inputs'}": percent_above(
                    found[layer], found[layer - 1]
                )
                for layer in range(1, len(found))
            }
    return pd.DataFrame(rows).T
