"""What training on a source task does to alignment with it and with two other tasks (Figure 10)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference
from alignbook.statements import Case, Statement

from ..curve_order import percent_above, share_above
from ..peaks_design import NORMALISATIONS, TASKS

WIDTH = "a hundredth of the largest possible area is about what the width of a drawn curve covers"
CASES = {"original": "than the inputs", "init": "than the hidden layer before training"}


def final_areas(table, task, normalisation=NORMALISATIONS[0]):
    """Areas after training, (seeds × representations) frame; empty where there are none."""
    return curves(at(table, kind="area", task=task, normalisation=normalisation), "representation", "area")


def areas_at(table, task, epoch):
    """The same with the hidden layer as it was after ``epoch`` epochs, of the runs that took so many."""
    hidden = curves(at(table, kind="checkpoint", task=task, epoch=epoch), "epoch", "area")
    if hidden.empty:
        return hidden
    return final_areas(table, task).assign(transfer=hidden[epoch]).dropna()


def curves_of(table, task, representation):
    """Alignment curves, (seeds × thresholds) frame."""
    return curves(at(table, kind="curve", task=task, representation=representation), "threshold", "alignment")


def lead(table, parameters, task, other, areas=final_areas):
    """Area of the trained hidden layer less that of ``other``, by seed."""
    found = areas(table, task)
    return difference(found["transfer"], found[other]) if len(found) else None


def below(table, parameters, task, other, areas=final_areas):
    """The same, the other way round."""
    found = lead(table, parameters, task, other, areas)
    return None if found is None else -found


def statements(areas=final_areas):
    """The paper's comparisons, judged on ``areas(table, task)``."""
    shared = {
        "above": 0, "matters": 0.01, "unit": "of the largest possible area", "because": WIDTH,
        "each": lambda p: [Case(name, words, {"other": name}) for name, words in CASES.items()],
    }  # fmt: skip
    return [
        Statement(
            "related-above",
            "After training on the source task, the hidden layer aligns better with a related task's labels.",
            source="Figure 10 (b)", headline=True, **shared,
            of=lambda t, p, other: lead(t, p, "related", other, areas),
        ),
        Statement(
            "source-above",
            "After training on the source task, the hidden layer aligns better with that task's labels.",
            source="Figure 10 (a), Section 5", **shared,
            of=lambda t, p, other: lead(t, p, "source", other, areas),
        ),
        Statement(
            "unrelated-below",
            "After training on the source task, the hidden layer aligns less with an unrelated task.",
            source="Figure 10 (c)", **shared,
            of=lambda t, p, other: below(t, p, "unrelated", other, areas),
        ),
    ]  # fmt: skip


STATEMENTS = statements()

SAID = {
    HOLDS: "Training on one task aligns the hidden features with a related task, too",
    ABSENT: "Training on one task hardly changes how well the features align with a related task",
    CONTRADICTED: "Training on one task does not align the hidden features with a related task",
    UNDECIDED: "It is undecided whether training on one task aligns the features with a related task",
    NOT_JUDGED: "Whether training on one task aligns the features with a related task is not judged",
}
AWAY = {
    HOLDS: "With an unrelated task they align less than the inputs.",
    CONTRADICTED: "With an unrelated task they align better than the inputs, too.",
}


def finding(table, parameters, claims):
    """What training does to alignment with the related task, against the inputs; then the unrelated one."""
    areas = final_areas(table, "related")
    claim = claims["related-above-original"]
    if claim.outcome not in SAID or areas.empty:
        return "No run has finished."
    change = 100 * (areas["transfer"] / areas["original"] - 1).mean()
    word = "larger" if change > 0 else "smaller"
    said = f"{SAID[claim.outcome]}: the area under the curve is {abs(change):.0f} % {word} "
    said += "than that of the inputs"
    share = share_above(curves_of(table, "related", "transfer"), curves_of(table, "related", "original"))
    said += (
        f", and the curve is the higher one at {100 * share.mean():.0f} % of the thresholds."
        if len(share)
        else "."
    )
    said += f" {AWAY.get(claims['unrelated-below-original'].outcome, '')}"
    return f"{said.strip()} When training ends is our choice."


def key_numbers(table, parameters):
    """Areas of the inputs and of the hidden layer before and after training, by task."""
    made = []
    for task in TASKS:
        areas = final_areas(table, task)
        if len(areas):
            shown = " / ".join(f"{areas[name].mean():.3f}" for name in ("original", "init", "transfer"))
            what = f"area under the curve, {task} task: inputs / before training / after training"
            made.append(KeyNumber(what, shown))
    return made


def thresholds(table):
    """Share of the thresholds at which the trained layer's curve is the higher one, a frame for show."""
    rows = []
    for task in TASKS:
        trained = curves_of(table, task, "transfer")
        row = {"task": task}
        for name, words in CASES.items():
            row[f"higher {words}"] = percent_above(trained, curves_of(table, task, name))
        rows.append(row)
    return pd.DataFrame(rows).set_index("task")
