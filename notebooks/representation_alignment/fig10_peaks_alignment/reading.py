"""What training on a source task does to alignment with it and with two other tasks (Figure 10)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference
from alignbook.statements import Case, Statement
from alignbook.wording import opening

from ..curve_order import LARGER, percent_above
from ..peaks_design import NORMALISATIONS, TASKS

OTHERS = {"original": "than the inputs", "init": "than the hidden layer before training"}


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


def statements(areas=final_areas):
    """The paper's comparisons, judged on ``areas(table, task)``."""

    def lead(task, sign=1):
        """A reading: how far the trained hidden layer's area lies above that of another, times ``sign``."""

        def of(table, parameters, other):
            found = areas(table, task)
            return sign * difference(found["transfer"], found[other]) if len(found) else None

        return of

    shared = LARGER | {"each": lambda p: [Case(name, word, {"other": name}) for name, word in OTHERS.items()]}
    return [
        Statement(
            "related-above",
            "After training on the source task, the hidden layer aligns better with a related task.",
            source="Figure 10 (b)", of=lead("related"), headline=True, **shared,
        ),
        Statement(
            "source-above",
            "After training on the source task, the hidden layer aligns better with that task.",
            source="Figure 10 (a), Section 5", of=lead("source"), **shared,
        ),
        Statement(
            "unrelated-below",
            "After training on the source task, the hidden layer aligns less with an unrelated task.",
            source="Figure 10 (c)", of=lead("unrelated", -1), **shared,
        ),
    ]  # fmt: skip


STATEMENTS = statements()

UNRELATED = {
    HOLDS: "with an unrelated task they align less than the inputs",
    CONTRADICTED: "with an unrelated task they align better than the inputs, too",
    ABSENT: "with an unrelated task they align about as well as the inputs",
    UNDECIDED: "it is undecided whether they align less with an unrelated task",
    NOT_JUDGED: "we do not judge whether they align less with an unrelated task",
    NOT_RUN: "an unrelated task was not measured",
}


def finding(table, parameters, claims):
    """What training does to alignment with the related task, against the inputs; then the unrelated one."""
    areas = final_areas(table, "related")
    said = opening(
        claims["related-above-original"], "Training on one task also aligns features with a related task",
        contradicted="Training on one task does not align features with a related task",
        absent="Training on one task aligns features with a related task, but too little to matter",
    )  # fmt: skip
    if said is None or areas.empty:
        return "No run has finished."
    change = 100 * (areas["transfer"] / areas["original"] - 1).mean()
    size = f"{abs(change):.0f} % {'larger' if change > 0 else 'smaller'}"
    unrelated = UNRELATED[claims["unrelated-below-original"].outcome]
    said += f" (the area under their alignment curve is {size} than the inputs')"
    return f"{said}; {unrelated}. We chose when training ends, which the paper leaves open."


def key_numbers(table, parameters):
    """The trained layer's area over that of the inputs, by task."""
    found = {task: final_areas(table, task) for task in TASKS}
    return [
        KeyNumber(
            f"area under the curve after training, over that of the inputs, {task} task",
            f"{(areas['transfer'] / areas['original']).mean():.2f}",
        )
        for task, areas in found.items()
        if len(areas)
    ]


def thresholds(table):
    """Share of the thresholds at which the trained layer's curve is the higher one, a frame for show."""
    rows = {}
    for task in TASKS:
        trained = curves_of(table, task, "transfer")
        rows[task] = {
            f"higher {words}": percent_above(trained, curves_of(table, task, name))
            for name, words in OTHERS.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("task")
