"""Whether linear models on transferred features do as well as their alignment says (Figure 11)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, ratio
from alignbook.statements import Case, Requirement, Statement

from ..peaks_design import REPRESENTATIONS
from .design import REDUCTIONS, TASKS

LARGE_REDUCTION = 40  # percent: where the claims compare weight norms and generalization gaps
SEEN = 10  # seeds 0 to 9 were seen before the comparisons were changed and added to, see the page
UNITS = {"train_error": "mean squared error", "weight_norm": "length of the weights"}
UNITS |= {"test_error": UNITS["train_error"], "gap": UNITS["train_error"]}
# data/plans/representation_alignment.yaml has the first
MATTERS = {
    "mean squared error": (0.0043, "a twentieth of the labels' mean square, 0.086"),
    "length of the weights": (0.05, "a hundredth of the axis of panels (c, d), about the width of a line"),
}


def best_step_sizes(table):
    """{(task, representation): step size} of lowest training error after the last step, mean over runs.

    The rule is fixed beforehand and does not see the test points. Ties go to the larger step size.
    """
    steps = at(table, kind="step")
    last = steps[steps["step"] == steps["step"].max()]
    keys = ["task", "representation"]
    mean = last.groupby([*keys, "linear_step_size"])["train_error"].mean().reset_index()
    mean = mean.sort_values(["train_error", "linear_step_size"], ascending=[True, False])
    return mean.groupby(keys)["linear_step_size"].first().to_dict()


def at_best(table):
    """The rows of ``table`` at the best step sizes, with the ``gap`` between the errors."""
    best = best_step_sizes(table)
    chosen = [best[key] for key in zip(table["task"], table["representation"], strict=True)]
    rows = table[table["linear_step_size"] == pd.Series(chosen, table.index)]
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


def _where_all_get(rows, column):
    """(seeds × representations) frame of ``column`` at the largest reduction that all of a run reach."""
    wide = rows.pivot(index=["seed", "reduction"], columns="representation", values=column)
    wide = wide.reindex(columns=list(REPRESENTATIONS)).dropna()
    return wide.groupby("seed").last()  # the index ascends


def values(table, parameters, task, column, when):
    """(seeds × representations) frame of ``column`` at the moment ``when``; empty where there is none.

    when : ``"fast"``, after the fast phase; ``"start"``; ``"last"``, after the last step; ``"gone"``, when
    ``LARGE_REDUCTION`` percent of the training loss are gone, or, in a run in which one of the three
    representations does not get there, at the largest reduction that all three reach.
    """
    rows = at(at_best(table), task=task)
    steps = at(rows, kind="step")
    if when == "gone" and column == "weight_norm":
        rows = at(rows, kind="reduction")
        return _where_all_get(rows[rows["reduction"] <= LARGE_REDUCTION], column)
    if when == "gone":
        asked = [reduction for reduction in REDUCTIONS if reduction <= LARGE_REDUCTION]
        return _where_all_get(at_reductions(steps, asked), column)
    last = steps["step"].max()
    step = {"fast": min(parameters["fast_phase"], last), "last": last, "start": 0}[when]
    return curves(at(steps, step=step), "representation", column)


def lower(table, parameters, task, column, when, other):
    """How far ``column`` of transferred features lies below that of ``other``, by seed."""
    found = values(table, parameters, task, column, when)
    return difference(found[other], found["transfer"])


def higher(table, parameters, task, column, when):
    """How far it lies above the larger one of inputs and initial features."""
    found = values(table, parameters, task, column, when)
    return difference(found["transfer"], found[["original", "init"]].max(axis=1, skipna=False))


def inputs_lower(table, parameters, task, when):
    """How far the test error of the inputs lies below that of initial features."""
    found = values(table, parameters, task, "test_error", when)
    return difference(found["init"], found["original"])


def fast_share(table, parameters, task):
    """Share of the training loss of transferred features that the fast phase removes, by seed."""
    after, start = (values(table, parameters, task, "train_error", when) for when in ("fast", "start"))
    return 1 - ratio(after["transfer"], start["transfer"])


def unseen(table, parameters, **given):
    """Share of the runs that were made after the comparisons were chosen."""
    seeds = table["seed"].unique()
    return float((seeds >= SEEN).mean()) if len(seeds) else float("nan")


LATER = {
    "post_hoc": "the comparison was chosen after the runs of seeds 0 to 9 had been seen",
    "requires": (
        Requirement("share of the runs made after the comparison was chosen", unseen, at_least=1.0),
    ),
}
FAST, LAST, GONE = (
    "after the fast phase",
    "after the last step",
    f"when {LARGE_REDUCTION} % of the loss is gone",
)
# id: (column, when, what transferred features have on the related and on the unrelated task)
RELATED = {
    "test-fast": ("test_error", "fast", f"a lower test error {FAST}"),
    "train-fast": ("train_error", "fast", f"a lower training error {FAST}"),
    "gap": ("gap", "gone", f"a smaller generalization gap {GONE}"),
    "norm": ("weight_norm", "gone", f"smaller weights {GONE}"),
}
UNRELATED = {
    "train-fast": ("train_error", "fast", f"a higher training error {FAST}"),
    "test-fast": ("test_error", "fast", f"a higher test error {FAST}"),
    "train-last": ("train_error", "last", f"a higher training error {LAST}"),
    "test-last": ("test_error", "last", f"a higher test error {LAST}"),
    "norm": ("weight_norm", "gone", f"larger weights {GONE}"),
}


def _statement(id, task, column, words, than, **own):
    """One comparison of transferred features with others."""
    matters, because = MATTERS[UNITS[column]]
    panel = {"related": "ac", "unrelated": "bd"}[task][column == "weight_norm"]
    return Statement(
        id, f"On the {task} task, transferred features give {words} than {than}.",
        source=f"Section 7.1, Figure 11 ({panel})", above=0, matters=matters, unit=UNITS[column],
        because=because, **own,
    )  # fmt: skip


def _related(other, than, end="", **own):
    return [
        _statement(
            f"related-{name}{end}", "related", column, words, than, **LATER, **own,
            of=lambda t, p, column=column, when=when: lower(t, p, "related", column, when, other),
            headline=name == "test-fast" and not end,
        )
        for name, (column, when, words) in RELATED.items()
    ]  # fmt: skip


def _unrelated():
    return [
        _statement(
            f"unrelated-{name}", "unrelated", column, words, "both inputs and initial features",
            of=lambda t, p, column=column, when=when: higher(t, p, "unrelated", column, when),
        )
        for name, (column, when, words) in UNRELATED.items()
    ]  # fmt: skip


SHARE = "the paper says “a large ratio”: a twentieth more or less than one half would not change that"
STATEMENTS = [
    *_related("init", "initial features"),
    *_unrelated(),
    Statement(
        "related-fast-share",
        "On the related task, the fast phase removes over half of the training loss of transferred features.",
        source="Section 7.1; one half for “a large ratio” is ours", ours=True, above=0.5, matters=0.05,
        of=lambda t, p: fast_share(t, p, "related"), unit="of the loss", because=SHARE,
    ),
    Statement(
        "fast-share-contrast",
        "The fast phase removes a larger share of the loss on the related task than on the unrelated one.",
        source="Figure 11 (a, b)", above=0, matters=0.05, unit="of the loss", because=SHARE, **LATER,
        of=lambda t, p: difference(fast_share(t, p, "related"), fast_share(t, p, "unrelated")),
    ),
    *_related("original", "the inputs", "-inputs", ours=True),
    Statement(
        "inputs-above-init",
        "The inputs, which align better than initial features (Figure 10), give a lower test error, too.",
        source="Section 7.1, our reading", ours=True, of=inputs_lower, above=0, unit="mean squared error",
        matters=MATTERS["mean squared error"][0], because=MATTERS["mean squared error"][1], **LATER,
        each=lambda p: [
            Case(f"{task}-{when}", f"{task} task, {words}", {"task": task, "when": when})
            for task in TASKS for when, words in (("fast", FAST), ("last", LAST))
        ],
    ),
]  # fmt: skip

SAID = {
    HOLDS: "Features learned on one task help linear models on a related task",
    ABSENT: "Features learned on one task make no visible difference on a related task",
    CONTRADICTED: "Features learned on one task do not help linear models on a related task",
    UNDECIDED: "It is undecided whether features learned on one task help on a related task",
    NOT_JUDGED: "Whether learned features help on a related task waits for new runs: the comparison was "
    "chosen after these were seen",
}


def finding(table, parameters, claims):
    """Test errors after the fast phase against initial features, on either task; words follow the verdict."""
    claim = claims["related-test-fast"]
    if claim.outcome not in SAID:
        return "No run has finished."
    changes = []
    for task in TASKS:
        errors = values(table, parameters, task, "test_error", "fast")
        change = 100 * (errors["transfer"] / errors["init"] - 1).mean()
        changes.append(f"{abs(change):.0f} % {'lower' if change < 0 else 'higher'}")
    return (
        f"{SAID[claim.outcome]}. On a related task their test error is {changes[0]} than that of untrained "
        f"features, on an unrelated one {changes[1]}. After {parameters['fast_phase']} steps, our choice."
    )


def key_numbers(table, parameters):
    """Test errors after the fast phase by task, and the share of the loss that this phase removes."""
    if "kind" not in table:
        return []
    made, steps = [], parameters["fast_phase"]
    for task in TASKS:
        errors = values(table, parameters, task, "test_error", "fast")
        shown = " / ".join(f"{errors[name].mean():.3f}" for name in ("transfer", "init", "original"))
        what = f"test error after {steps} steps, {task} task: transferred / initial features / inputs"
        made.append(KeyNumber(what, shown))
    shares = [100 * fast_share(table, parameters, task).mean() for task in TASKS]
    what = f"training loss removed in {steps} steps by transferred features: related / unrelated task"
    return [*made, KeyNumber(what, " / ".join(f"{share:.0f} %" for share in shares))]
