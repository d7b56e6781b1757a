"""Does fine-tuning end with a smaller test error, and nearer to its start, than training from scratch?"""

from functools import cache

import numpy as np

from companion.over_seeds import at, curves, means, once, ratio, sample
from companion.runs import notebooks
from companion.runs.run import most_faithful
from companion.statements import Case, Number, Statement, least, over
from companion.studies.transferability.shared import imagenet_rows
from companion.studies.transferability.shared.deviations import ends, printed, series
from companion.studies.transferability.shared.target_rows import of_target, words

POSITIONS = "transferability/fig04_tsne"  # whose runs have the norms of networks trained alike, for 30 epochs
ROUNDING = 0.04  # percent: by how much rounding can move an improvement that is made from printed errors
MEASURED = ("test_error", "train_error", "deviation")


def _compared(both):
    """With ``improvement``, the percentage of the error from scratch that fine-tuning removes; ``gap`` of the
    errors, in points; and ``ratio`` of the deviations, from scratch over fine-tuned.
    """
    return both.assign(
        improvement=100 * (1 - both["test_error"] / both["test_error_scratch"]),
        gap=both["test_error_scratch"] - both["test_error"],
        ratio=both["deviation_scratch"] / both["deviation"],
    )


@once
def pairs(table, rate):
    """One row per target and seed with both: ``MEASURED`` of the fine-tuned network, the same ``_scratch`` at
    the learning rate ``rate``, and how they compare.
    """
    keys = ["target", "seed"]
    own, scratch = (
        ends(rows).reindex(columns=[*keys, *MEASURED])
        for rows in (series(table, "fine-tuned"), at(series(table, "scratch"), learning_rate=rate))
    )
    return _compared(own.merge(scratch, on=keys, suffixes=("", "_scratch")))


def printed_pairs():
    """The same of Table 2 beside Table 1, a row per target, with the ``printed`` improvement.

    ``improvement`` is that of the generalization error, as B.3 has it: fine-tuned, test less training error.
    From scratch no training error is printed, and the test error is taken.
    """
    scratch = printed("scratch").rename(columns={"improvement": "printed"}).dropna(axis=1)
    tuned = printed("fine-tuned").drop(columns="improvement")
    both = _compared(tuned.merge(scratch, on="target", suffixes=("", "_scratch")))
    general = both["test_error"] - both["train_error"]
    return both.assign(improvement=100 * (1 - general / both["test_error_scratch"]))


def compared(column, rate="scratch_rate"):
    """A statement's ``of``: how one target compares at the parameter ``rate``."""
    return lambda t, p, target: sample(at(pairs(t, p[rate]), target=target), column)


def mean_over_targets(table, parameters, rate, column="ratio"):
    """Mean over the targets of ``column`` of :func:`pairs` at the parameter ``rate``, a sample."""
    return means(pairs(table, parameters[rate]), column)


def relative(table, parameters, target):
    """Of Figure 4's networks how far one moves as a share of its length, from scratch over fine-tuned.

    None beside an empty table.
    """
    rows = _positions()
    if table.empty or rows is None:
        return None
    rows = of_target(rows, target)
    own = curves(rows.assign(share=rows["moved"] / rows["norm"]), "start", "share")
    return ratio(own["random, its own"], own["pretrained"])


@cache
def _positions():
    run = most_faithful(notebooks.find(POSITIONS))
    if run is None:
        return None
    rows = imagenet_rows.own(run.table)
    return rows[rows["moved"].notna()]


def positioned(parameters):
    """Cases: the targets that Figure 4 has, too."""
    shared = parameters["targets"] if (rows := _positions()) is not None else []
    return [Case(name, words(name), {"target": name}) for name in shared if len(of_target(rows, name))]


def farthest_off(table, parameters):
    """The largest distance of a printed improvement from the one by the printed errors, in %."""
    if table.empty:
        return None
    both = printed_pairs()
    return float(np.abs(both["improvement"] - both["printed"]).max())


def follows(table, parameters, target):
    """The improvement that the printed errors of a printed target give; None beside no runs of ours."""
    return None if table.empty else at(printed_pairs(), target=target)["improvement"].item()


def printed_improvement(parameters, target):
    """The improvement that is printed beside them."""
    return at(printed_pairs(), target=target)["printed"].item()


def printed_targets(parameters):
    """A case per target that both tables print."""
    names = printed_pairs()["target"]
    return [Case(name.lower().replace(" ", "-"), name, {"target": name}) for name in names]


def rates(parameters):
    """Cases: both learning rates from scratch."""
    return [
        Case(name, f"rate {parameters[given]:g} from scratch", {"rate": given})
        for name, given in {"same": "scratch_rate", "other": "other_rate"}.items()
    ]


TABLE2 = "Appendix B.3, Table 2"
ERROR = {
    "source": TABLE2,
    "above": 0,
    "matters": 1.0,
    "unit": "points",
    "because": "20 of the 2000 test images",
}
RATIO = {
    "source": TABLE2,
    "above": 1,
    "matters": 0.01,
    "because": "the printed deviations are given to about 1 %",
}
STATEMENTS = [
    Statement(
        "error", "On every target, fine-tuning ends with a smaller test error than training from scratch.",
        of=least(compared("gap"), over("targets", words, "target")), headline=True, **ERROR,
    ),
    Statement(
        "error-other", "It does so also at another learning rate from scratch.",
        of=lambda t, p: mean_over_targets(t, p, "other_rate", "gap"), ours=True, **ERROR,
    ),
    Statement(
        "deviation", "At either learning rate from scratch, fine-tuning ends closer to its start: "
        "ratio of the deviations.", of=least(mean_over_targets, rates), **RATIO,
    ),
    Statement(
        "relative", "It does so also relative to the length of the weights, on every target.",
        of=least(relative, positioned), ours=True, **RATIO,
        post_hoc="asked when all deviations had been seen, of Figure 4's runs",
    ),
    Statement(
        "improvement", "The printed improvements follow from the printed generalization errors: largest "
        "difference.", of=farthest_off, source="Appendix B.3, Tables 1 and 2", exactly=0.0, within=ROUNDING,
        unit="%",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "gain", "share of the error that fine-tuning removes, mean over targets",
        lambda t, p: mean_over_targets(t, p, "scratch_rate", "improvement"), unit="%",
        paper=lambda p: float(printed_pairs()["printed"].mean()),
    ),
    Number("gap", "points of error removed", compared("gap"), each=over("targets", words, "target")),
    Number(
        "moves", "deviation from scratch over fine-tuned", mean_over_targets, each=rates,
        paper=lambda p, rate: float(printed_pairs()["ratio"].mean()),
    ),
    Number(
        "follows", "improvement by the printed errors", follows, each=printed_targets,
        paper=printed_improvement, unit="%",
    ),
]  # fmt: skip
