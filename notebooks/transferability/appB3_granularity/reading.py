"""Does pre-training help more on classes that lie far apart than on fine ones (Appendix B.3)? No torch."""

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.deviations import printed
from alignbook.studies.transferability.targets import LEARNED, STARTS
from alignbook.wording import by_verdict, fitting, joined, sentences

from .design import COARSE, FINE, KINDS


def ended(table, kind, start, column="test_error"):
    """Mean of ``column`` over the targets of a kind, a sample."""
    return means(at(table, kind=kind, start=start), column)


def removed(table, parameters, kind):
    """Percentage of the error from scratch that fine-tuning removes, a sample."""
    return 100 * (1 - ratio(*(ended(table, kind, start) for start in ("pretrained", "scratch"))))


def saved(table, parameters, kind):
    """The same in points of test error."""
    return difference(*(ended(table, kind, start) for start in ("scratch", "pretrained")))


def nearer(table, parameters, kind):
    """By which share fine-tuning moves the weights less on a kind of targets than on fine ones, a sample."""
    return 1 - ratio(*(ended(table, each, "pretrained", "deviation") for each in (kind, "fine")))


def more(table, parameters, kind, of=removed):
    """How much larger ``of`` is on a kind of targets than on fine ones, in points, a sample."""
    return difference(of(table, parameters, kind), of(table, parameters, "fine"))


def printed_more(column="improvement"):
    """The printed improvements: mean over the paper's coarse targets less that over its fine ones.

    column : "corrected", those that the printed errors give; "saved", the same in points of test error.
    """
    scratch, tuned = (printed(setting).set_index("target") for setting in ("scratch", "fine-tuned"))
    general = tuned["test_error"] - tuned["train_error"]  # as B.3 has it
    values = scratch.assign(
        saved=scratch["test_error"] - tuned["test_error"],
        corrected=100 * (1 - general / scratch["test_error"]),
    )[column]
    return float(values[COARSE].mean() - values[FINE].mean())


def training_error(table, parameters, **given):
    """The largest mean training error of a kind and start, percent."""
    return max(ended(table, kind, start, "train_error").mean() for kind in KINDS for start in STARTS)


CASES = [Case(kind, f"{kind}, {words}", {"kind": kind}) for kind, words in KINDS.items()]
FITTED = Requirement("training error on the targets, %", of=training_error, at_most=5.0)
LIMITS = {"unit": "points of test error", "requires": (LEARNED, FITTED)}
IN_PRINT = (
    f"{5 / printed_more():.0%} of the printed difference, {5 / printed_more('corrected'):.0%} of that by the "
    "printed errors"
)
POINTS = 2.0  # of test error: ten of a target's 500 test images
SHARE = LIMITS | {"above": 0, "matters": 5.0, "because": IN_PRINT, "unit": "points of the share"}
OF_ERROR = {"unit": "% of the error from scratch", "because": "as for the differences between targets"}
STATEMENTS = [
    Statement(
        "distant", "Pre-training removes a larger share of the error on distant targets than on fine ones.",
        source="Appendix B.3", of=lambda t, p: more(t, p, "distant"), paper=lambda p: printed_more(),
        headline=True, ours=True, **SHARE,
    ),
    Statement(
        "coarse", "Pre-training removes a larger share of the error on coarse targets than on fine ones.",
        source="Appendix B.3, if coarse means superclasses", of=lambda t, p: more(t, p, "coarse"), ours=True,
        **SHARE,
    ),
    Statement(
        "improves", "Pre-training removes a share of the error from scratch.", source="Appendix B.3",
        of=removed, each=lambda p: CASES, **SHARE | OF_ERROR,
    ),
    Statement(
        "points", "In points of test error, pre-training saves less on coarse targets than on fine ones: "
        "coarse less fine.",
        source="Tables 1 and 2", of=lambda t, p: more(t, p, "coarse", saved), below=0, matters=POINTS,
        because="ten of a target's 500 test images", ours=True, **LIMITS,
    ),
    Statement(
        "moves", "Fine-tuning moves the weights less on coarse targets (superclasses) than on fine ones.",
        ours=True, source="Section 3, Table 1", above=0, matters=0.05,
        because="less than printed deviations differ by", of=lambda t, p: nearer(t, p, "coarse"),
        **LIMITS | {"unit": "of the distance on fine ones"},
    ),
]  # fmt: skip

REMOVES, FAR, NEAR = "pre-training removes", "classes that lie far apart", "classes of one kind"
SAID = by_verdict(
    f"Pre-training removes a larger share of the error on {FAR} than on {NEAR}",
    f"Against the paper, {REMOVES} a smaller share of the error on {FAR} than on {NEAR}",
    f"Against the paper, {REMOVES} as large a share of the error on {NEAR} as on {FAR}",
    f"{REMOVES} a larger share of the error on {FAR} than on {NEAR}",
)
COARSE_SAID = by_verdict(
    "The share is also larger with coarse labels, one per kind",
    "With coarse labels, one per kind, the share is smaller",
    "With coarse labels, one per kind, the share is no larger",
    "the share is larger with coarse labels, one per kind",
)


def finding(table, parameters, claims):
    """The verdict on distant classes, what is removed in percent and in points, and that on superclasses."""
    if claims["distant"].measured is None:
        return "Nothing was measured."
    shares = [f"{removed(table, parameters, kind).mean():.0f}" for kind in PAIR]
    said = f"{SAID[claims['distant'].outcome]} ({shares[0]} % and {shares[1]} %)"
    points, coarse = in_points(table, parameters), COARSE_SAID[claims["coarse"].outcome]
    told = (coarse, "our networks are small")
    return fitting(sentences(joined(said, points), *told), sentences(joined(said, points), coarse))


PAIR = ("distant", "fine")  # the kinds that the headline compares


def in_points(table, parameters):
    """How much error pre-training saves on either kind, in points; not judged: ``POINTS`` words it alone."""
    points = [saved(table, parameters, kind).mean() for kind in PAIR]
    apart = points[0] - points[1]
    how = "about as much" if abs(apart) < POINTS else "more" if apart > 0 else "less"
    return f"in points, it saves {how} ({points[0]:.1f} and {points[1]:.1f})"


PRINTED = f"{printed_more():+.1f} ({printed_more('corrected'):+.1f} from its errors)"


def key_numbers(table, parameters):
    """By how much more pre-training helps on distant targets, in both measures, and on coarse ones."""
    found = (
        ("share removed, distant minus fine (points)", more(table, parameters, "distant"), PRINTED),
        (
            "error saved, distant minus fine (points)",
            more(table, parameters, "distant", saved),
            f"{printed_more('saved'):+.1f}",
        ),
        ("share removed, coarse minus fine (points)", more(table, parameters, "coarse"), None),
    )
    return [
        KeyNumber(what, interval(values, "{:+.1f}"), theirs) for what, values, theirs in found if len(values)
    ]
