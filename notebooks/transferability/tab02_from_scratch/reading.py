"""Does fine-tuning end with a smaller test error, and nearer to its start, than training from scratch?"""

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import at, curves, means, once, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.deviations import (
    ALIKE,
    FITTED,
    NEAR,
    ends,
    others_less_near,
    printed,
    series,
)
from alignbook.studies.transferability.targets import LEARNED, each
from alignbook.wording import by_verdict, first_unmet, fitting, joined, listed, over_cases, sentences

ROUNDING = 0.04  # percent: by how much rounding can move an improvement that is made from printed errors
UNFITTED = "training error on the target, %"
MEASURED = ("test_error", "train_error", "deviation", "head")  # head: its part of the deviation


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


def unfitted(rate="scratch_rate"):
    """A requirement's ``of``: percent of one target's training images wrong, of the worse kind of network.

    From scratch at the parameter ``rate``; without a target, on the worst.
    """

    def of(table, parameters, target=None):
        rows = pairs(table, parameters[rate])
        rows = rows if target is None else at(rows, target=target)
        return rows.groupby("target")[["train_error", "train_error_scratch"]].mean().max().max()

    return of


def without_head(table, rate):
    """{what: sample, mean over the targets}: the head's share of both sums in %, and the ratio without it."""
    both = pairs(table, rate)
    parts = {
        "tuned": 100 * both["head"] / both["deviation"],
        "scratch": 100 * both["head_scratch"] / both["deviation_scratch"],
        "ratio": (both["deviation_scratch"] - both["head_scratch"]) / (both["deviation"] - both["head"]),
    }
    return {what: means(both.assign(part=part), "part") for what, part in parts.items()}


def nearer_gains(table, parameters):
    """Mean improvement on the targets cut from ``NEAR`` less that on the others, a sample."""
    return -others_less_near(curves(pairs(table, parameters["scratch_rate"]), "target", "improvement"))


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


def _learned(rate="scratch_rate"):
    """That the source is learned and that both networks have fitted the target, as Table 1 asks."""
    return LEARNED, Requirement(UNFITTED, of=unfitted(rate), at_most=FITTED)


ERROR = {"above": 0, "matters": 1.0, "unit": "points", "because": "20 of the 2000 test images"}
RATIO = {
    "above": 1, "matters": 0.01, "unit": "", "because": "the printed deviations are given to about 1 %",
}  # fmt: skip
TABLE2 = "Appendix B.3, Table 2"
SMALLER = "Fine-tuning ends with a smaller test error than training from scratch"
NEARER = "Fine-tuning ends closer to its start than training from scratch"
STATEMENTS = [
    Statement(
        "error", f"{SMALLER}.", source=TABLE2, of=compared("gap"), each=each("targets", "target"),
        headline=True, requires=_learned(), **ERROR,
    ),
    Statement(
        "deviation", f"{NEARER}: ratio of the deviations.", source=TABLE2, of=compared("ratio"),
        each=each("targets", "target"), requires=_learned(), **RATIO,
    ),
    Statement(
        "error-other-rate", f"{SMALLER} at another learning rate.", source=TABLE2, ours=True,
        of=compared("gap", "other_rate"), each=each("rate_targets", "target"),
        requires=_learned("other_rate"), **ERROR,
    ),
    Statement(
        "deviation-other-rate", f"{NEARER} at another learning rate.", source=TABLE2, ours=True,
        of=compared("ratio", "other_rate"), each=each("rate_targets", "target"),
        requires=_learned("other_rate"), **RATIO,
    ),
    Statement(
        "nearer-gains", f"Fine-tuning improves more on targets like the source (cut from {NEAR.upper()}) "
        "than on grey or rendered ones: difference of the mean improvements.", source=TABLE2,
        of=nearer_gains, above=0, matters=5.0, unit="points", ours=True, requires=(*_learned(), ALIKE),
        because="a tenth of the difference between the printed improvements",
    ),
    Statement(
        "improvement", "The printed improvement follows from the printed generalization errors.", of=follows,
        source="Appendix B.3, Tables 1 and 2", exactly=printed_improvement, within=ROUNDING, unit="%",
        each=printed_targets,
    ),
]  # fmt: skip

SAID = by_verdict(
    "Fine-tuning errs less than training from scratch",
    "Fine-tuning errs more than training from scratch",
    "Fine-tuning errs as much as training from scratch",
    "fine-tuning errs less than training from scratch",
)


MOVED = by_verdict(
    "It moves the weights less", "It moves the weights farther", "It moves the weights as far",
    undecided="Whether it moves them less is undecided",
    not_judged="Whether it moves them less is not judged",
)  # fmt: skip

GAINED = by_verdict(
    "It helps less on targets unlike the source", "It helps more on targets unlike the source",
    "It helps as much on targets unlike the source",
    undecided="Whether it helps less on targets unlike the source is undecided",
    not_judged="Whether it helps less on targets unlike the source is not judged",
)  # fmt: skip


UNLIKE = ", as the numbers of classes differ;"


def mean_ratio(table, rate):
    """Deviation from scratch over fine-tuned, mean over the targets, a sample."""
    return means(pairs(table, rate), "ratio")


def finding(table, parameters, claims):
    """Whether fine-tuning is ahead in error and in deviation; then where it helps less, if there is room, and
    how much farther weights move from scratch.
    """
    said = over_cases(claims, [f"error-{name}" for name in parameters["targets"]], SAID)
    moved = over_cases(claims, [f"deviation-{name}" for name in parameters["targets"]], MOVED)
    ratio = mean_ratio(table, parameters["scratch_rate"])
    if said is None or moved is None or ratio.empty:
        return "Nothing was measured."
    gained = GAINED.get(claims["nearer-gains"].outcome)
    classes = first_unmet(claims["nearer-gains"], {ALIKE.text: UNLIKE}, otherwise="")
    theirs = f"paper: {printed_pairs()['ratio'].mean():.2f}"
    same = " at the same rate" * (parameters["scratch_rate"] == parameters["learning_rate"])
    far = f"from scratch the weights move {ratio.mean():.2f} times as far{same} ({theirs})"
    learning = [claims[f"error-{name}"] for name in parameters["targets"]]
    unfit = [one.case for one in learning if first_unmet(one, {UNFITTED: "unfitted"}, otherwise="")]
    small = ["our networks are small"]
    if unfit:
        small = [
            f"{words}: {listed(unfit)}"
            for words in ("not judged, as not learned from scratch", "not learned from scratch")
        ]
    text = joined(said, moved)
    told = [f"{gained}{classes or ', and'} {far}"] if gained else []
    long = (sentences(text, one, why) for one in (*told, far) for why in small)
    return fitting(*long, sentences(text, far))


def key_numbers(table, parameters):
    """The improvement, the ratio at the other rate, and the printed improvement that is off the most."""
    improvement = means(pairs(table, parameters["scratch_rate"]), "improvement")
    if improvement.empty:
        return []
    theirs = printed_pairs()
    off = theirs.loc[(theirs["improvement"] - theirs["printed"]).abs().idxmax()]
    return [
        KeyNumber(
            "improvement by fine-tuning in %, mean over targets", interval(improvement, "{:.0f}"),
            f"{theirs['printed'].mean():.0f}",
        ),
        KeyNumber(
            f"deviation from scratch over fine-tuned, at the other rate ({parameters['other_rate']:g})",
            interval(mean_ratio(table, parameters["other_rate"])),
        ),
        KeyNumber(
            f"{off['target']}: improvement in %, as printed and (here) from the printed errors",
            off["improvement"], off["printed"],
        ),
    ]  # fmt: skip
