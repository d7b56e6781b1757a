"""Whether linear models on transferred features do as well as their alignment says (Figure 11)."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, Claim, KeyNumber
from alignbook.claims import interval as with_interval
from alignbook.over_seeds import agree, area, at, curves, difference, from_seed, once, ratio, verdict
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import fitting, opening, replicates, unmet

from .. import step_sizes
from ..peaks_design import REPRESENTATIONS
from .design import REDUCTIONS, TASKS

LARGE_REDUCTION = 40  # percent: where the claims compare weight norms and generalisation gaps
SEEN = 10  # seeds 0 to 9 were seen before the comparisons were changed and added to, see the page


@once
def at_best(table, error="train_error"):
    """The rows of ``table`` at the step sizes of lowest ``error``, with the ``gap`` between the errors."""
    keys = ["task", "representation"]
    best = step_sizes.best(at(table, kind="step"), keys, error, size="linear_step_size")
    rows = step_sizes.at_best(table, best)
    return rows.assign(gap=rows["test_error"] - rows["train_error"])


def at_reductions(steps, reductions):
    """Rows ``step`` of one task where so much of the training loss is gone, at the first stored step.

    steps : one step size for each representation; reductions : percents. Adds a column ``reduction``; no row
    where a run does not get there.
    """
    keys = ["seed", "representation"]
    start = at(steps, step=0).set_index(keys)["train_error"]
    gone = 100 * (1 - steps["train_error"].to_numpy() / start.loc[steps.set_index(keys).index].to_numpy())
    found = []
    for reduction in reductions:
        reached = steps[gone >= reduction].sort_values("step").groupby(keys).head(1)
        found.append(reached.assign(reduction=reduction))
    return pd.concat(found)


def values(table, parameters, task, column, when, chosen_by="train_error"):
    """(seeds × representations) frame of ``column`` at the moment ``when``; empty where there is none.

    when : ``"fast"``, after the fast phase; ``"start"``; ``"last"``, after the last step; ``"gone"``, when
    ``LARGE_REDUCTION`` percent of the training loss are gone, or, in a run in which one of the three
    representations does not get there, at the largest reduction that all three reach.
    chosen_by : the error whose smallest value after the last step chooses step sizes
    """
    rows = at(at_best(table, chosen_by), task=task)
    steps = at(rows, kind="step")
    if when != "gone":
        last = steps["step"].max()
        step = {"fast": min(parameters["fast_phase"], last), "last": last, "start": 0}[when]
        return curves(at(steps, step=step), "representation", column)
    asked = [reduction for reduction in REDUCTIONS if reduction <= LARGE_REDUCTION]
    kind = at(rows, kind="reduction", reduction=asked)
    reached = kind if column == "weight_norm" else at_reductions(steps, asked)
    wide = reached.pivot(index=["seed", "reduction"], columns="representation", values=column)
    wide = wide.reindex(columns=list(REPRESENTATIONS)).dropna()
    return wide.groupby("seed").last()  # the index ascends


def lower(table, parameters, task, column, when, other, chosen_by="train_error"):
    """How far ``column`` of transferred features lies below that of ``other``, by seed."""
    found = values(table, parameters, task, column, when, chosen_by)
    return difference(found[other], found["transfer"])


def higher(table, parameters, task, column, when, chosen_by="train_error"):
    """How far it lies above the larger one of inputs and initial features."""
    found = values(table, parameters, task, column, when, chosen_by)
    return difference(found["transfer"], found[["original", "init"]].max(axis=1, skipna=False))


def inputs_lower(table, parameters, task, when, chosen_by="train_error"):
    """How far the test error of the inputs lies below that of initial features."""
    found = values(table, parameters, task, "test_error", when, chosen_by)
    return difference(found["init"], found["original"])


def fast_share(table, parameters, task, chosen_by="train_error"):
    """Share of the training loss of transferred features that the fast phase removes, by seed."""
    after, start = (
        values(table, parameters, task, "train_error", when, chosen_by) for when in ("fast", "start")
    )
    return 1 - ratio(after["transfer"], start["transfer"])


def share_contrast(table, parameters, chosen_by="train_error"):
    """How much larger this share is on the related task than on the unrelated one, by seed."""
    return difference(*(fast_share(table, parameters, task, chosen_by) for task in TASKS))


CHOICE = "the verdict is the same whether step sizes are chosen by training error or by test error"


def either_way(statement, table, parameters, **given):
    """The two samples of ``statement``: with step sizes chosen by training error, and by test error."""
    ways = (statement.of(table, parameters, chosen_by=f"{by}_error", **given) for by in ("train", "test"))
    return [from_seed(way, statement.seen) for way in ways]


def at_either_choice(statement):
    """``statement``, judged only if it has the same verdict at both choices of step sizes."""

    def same(table, parameters, **given):
        ways = either_way(statement, table, parameters, **given)
        return agree(*ways, matters=statement.matters, above=statement.above)

    because = "The paper does not say how it picks one of three step sizes"
    return replace(statement, requires=(Requirement(CHOICE, same, because=because),))


LATER = {"seen": SEEN, "post_hoc": "the comparison was chosen after the runs of seeds 0 to 9 had been seen"}
FAST, LAST = "after the fast phase", "after the last step"
GONE = f"when {LARGE_REDUCTION} % of the loss is gone"
# {end of the id: (column, when, words)}
COMPARED = {
    "test-fast": ("test_error", "fast", f"test error {FAST}"),
    "train-fast": ("train_error", "fast", f"training error {FAST}"),
    "gap": ("gap", "gone", f"generalisation gap {GONE}"),
    "norm": ("weight_norm", "gone", f"length of the weights {GONE}"),
    "train-last": ("train_error", "last", f"training error {LAST}"),
    "test-last": ("test_error", "last", f"test error {LAST}"),
}
# data/plans/representation_alignment.yaml has the first
ERROR = {
    "above": 0, "matters": 0.0043, "unit": "mean squared error",
    "because": "a twentieth of the labels' mean square, 0.086",
}  # fmt: skip
LENGTH = {
    "above": 0, "matters": 0.05, "unit": "length of the weights",
    "because": "a hundredth of the axis of panels (c, d), about the width of a line",
}  # fmt: skip
SHARE = {
    "matters": 0.05, "unit": "of the loss",
    "because": "the paper says “a large ratio”: a twentieth more or less than one half would not change that",
}  # fmt: skip


def inputs_behind(table):
    """(seeds × steps) frame: training error of the inputs less that of transferred features, related task."""
    rows = at(at_best(table), kind="step", task="related")
    inputs, transferred = (
        curves(at(rows, representation=name), "step", "train_error") for name in ("original", "transfer")
    )
    return (inputs - transferred).dropna()


def by_step(table, parameters):
    """The same in units of 1/1000 after some steps and on average, with its verdict; a frame for show."""
    found = inputs_behind(table)
    stored = found.columns[found.columns > 0]
    asked = sorted({1, 10, parameters["fast_phase"], 1000, parameters["iterations"]})
    nearest = dict.fromkeys(stored[abs(stored - step).argmin()] for step in asked)
    shown = {f"after {step:,.0f} step{'s' if step > 1 else ''}": found[step] for step in nearest}
    shown["mean over the logarithm of the steps"] = area(found[stored].rename(columns=np.log))
    rows = {}
    for when, values in shown.items():
        claim = Claim.greater("step", "", "", values.to_numpy(), 0.0, matters=ERROR["matters"])
        rows[when] = {"lead": with_interval(1000 * values, "{:.1f}"), "by the rule": claim.outcome}
    return pd.DataFrame.from_dict(rows, orient="index")


def compared(name, task, of, than, end="", **own):
    """The statement that ``of`` of transferred features, at ``COMPARED[name]``, is smaller or larger."""
    column, when, words = COMPARED[name]
    size = "smaller" if task == "related" else "larger"
    panel = {"related": "ac", "unrelated": "bd"}[task][column == "weight_norm"]
    return Statement(
        f"{task}-{name}{end}",
        f"On the {task} task, the {words} is {size} with transferred features than with {than}.",
        source=f"Section 7.1, Figure 11 ({panel})", of=partial(of, task=task, column=column, when=when),
        **(LENGTH if column == "weight_norm" else ERROR), **own,
    )  # fmt: skip


RELATED = ("test-fast", "train-fast", "gap", "norm")
UNRELATED = ("train-fast", "test-fast", "train-last", "test-last", "norm")
over_init, over_inputs = partial(lower, other="init"), partial(lower, other="original")
STATEMENTS = [at_either_choice(statement) for statement in (
    compared("test-fast", "related", over_init, "initial features", headline=True, **LATER),
    *(compared(name, "related", over_init, "initial features", **LATER) for name in RELATED[1:]),
    *(compared(name, "unrelated", higher, "both inputs and initial features") for name in UNRELATED),
    Statement(
        "related-fast-share",
        "On the related task, the fast phase removes over half of the training loss of transferred features.",
        source="Section 7.1; one half for “a large ratio” is ours", ours=True, above=0.5, **SHARE,
        of=partial(fast_share, task="related"),
    ),
    Statement(
        "fast-share-contrast",
        "The fast phase removes a larger share of the loss on the related task than on the unrelated one.",
        source="Figure 11 (a, b)", above=0, **SHARE, **LATER,
        of=share_contrast,
    ),
    *(compared(n, "related", over_inputs, "the inputs", "-inputs", **LATER, ours=n == "train-fast")
      for n in RELATED),
    *(
        Statement(
            "inputs-above-init",
            "The inputs, which align better than initial features (Figure 10), also give a lower test error.",
            source="Section 7.1", of=partial(inputs_lower, when=when),
            each=lambda p, when=when, words=words: [
                Case(f"{task}-{when}", f"{task} task, {words}", {"task": task}) for task in TASKS
            ],
            ours=True, **ERROR, **LATER,
        )
        for when, words in (("fast", FAST), ("last", LAST))
    ),
)]  # fmt: skip


def by_choice(table, parameters):
    """The verdicts that would be others with step sizes chosen by the test error, a frame for show.

    Without the comparison of inputs and initial features, of which the page has the values.
    """
    rows = {}
    for statement in STATEMENTS:
        if statement.each:
            continue
        ways = either_way(statement, table, parameters)
        found = [verdict(way, statement.matters, statement.above) for way in ways if len(way)]
        if len(set(found)) > 1:
            columns = ("step size by training error", "step size by test error")
            rows[statement.text] = dict(zip(columns, found, strict=True))
    return pd.DataFrame.from_dict(rows, orient="index")


BETTER = ", which align better than untrained features, also"
DEPENDS = "depends on how the step size is chosen"
HURT = {
    HOLDS: "on an unrelated task they hurt",
    CONTRADICTED: "on an unrelated task they do not hurt",
    ABSENT: "on an unrelated task they hurt too little to matter",
    UNDECIDED: "it is undecided whether they hurt on an unrelated task",
    NOT_JUDGED: "we do not judge whether they hurt on an unrelated task",
}


def finding(table, parameters, claims):
    """Test errors against initial features, early on the related task and last on the unrelated one.

    Each with the words of its verdict. What the choice of the step size decides is said.
    """
    said = opening(
        claims["related-test-fast"], "Features learned on one task help on a related task",
        contradicted="Features learned on one task do not help on a related task",
        absent="Features learned on one task help too little to matter on a related task",
    )  # fmt: skip
    hurt = HURT.get(claims["unrelated-test-last"].outcome)
    if said is None or hurt is None:
        return "No run has finished."
    changes = []
    for task, when in zip(TASKS, ("fast", "last"), strict=True):
        change = 100 * (over_initial(table, parameters, task, when) - 1).mean()
        changes.append(f"{abs(change):.0f} % {'lower' if change < 0 else 'higher'}")
    text = f"{said} (early test error {changes[0]} than on untrained ones); {hurt} ({changes[1]} {LAST})."
    return fitting(*(f"{text}{choice}" for choice in _choices(claims)), text)


def _choices(claims):
    """What depends on how step sizes are chosen, sentences with a space before them, the longest first.

    Whether transferred features hurt the unrelated task early, and how inputs compare with initial features.
    """
    turned = {
        id: any(unmet(claim)[:1] == [CHOICE] for claim in replicates(claims, id).get(NOT_JUDGED, ()))
        for id in ("unrelated-test-fast", "inputs-above-init")
    }
    if turned["inputs-above-init"]:
        alone = [f" Whether raw inputs{more} do better {DEPENDS}." for more in (BETTER, "")]
        both = " Whether they hurt early on, and whether raw inputs do better than untrained features,"
        return [f"{both} {DEPENDS}."] * turned["unrelated-test-fast"] + alone
    return [f" Whether they hurt early on {DEPENDS}."] * turned["unrelated-test-fast"]


def over_initial(table, parameters, task, when):
    """Test error of transferred features over that of initial ones, by seed."""
    errors = values(table, parameters, task, "test_error", when)
    return ratio(errors["transfer"], errors["init"])


def key_numbers(table, parameters):
    """Test errors of both tasks, and how much more of the related task's loss the fast phase removes."""
    if "kind" not in table:
        return []
    made, fast = [], parameters["fast_phase"]
    for task, when, steps in zip(TASKS, ("fast", "last"), (fast, parameters["iterations"]), strict=True):
        what = f"test error after {steps:,} steps, {task} task, transferred over initial features"
        made.append(KeyNumber(what, f"{over_initial(table, parameters, task, when).mean():.2f}"))
    more = 100 * share_contrast(table, parameters).mean()
    what = f"training loss removed in {fast} steps with transferred features"
    return [*made, KeyNumber(f"{what}, related minus unrelated task (points)", f"{more:.0f}")]
