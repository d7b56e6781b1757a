"""Does pre-training help more on classes that lie far apart than on fine ones (Appendix B.3)? No torch."""

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.deviations import printed
from alignbook.studies.transferability.targets import LEARNED, STARTS
from alignbook.wording import by_verdict, sentences

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
LIMITS = {"unit": "points", "requires": (LEARNED, FITTED)}
IN_PRINT = (
    f"{5 / printed_more():.0%} of the printed difference, {5 / printed_more('corrected'):.0%} of that by the "
    "printed errors"
)
SHARE = LIMITS | {"above": 0, "matters": 5.0, "because": IN_PRINT}
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
        of=removed, each=lambda p: CASES, **SHARE,
    ),
    Statement(
        "points", "In points of test error, pre-training saves less on coarse targets than on fine ones: "
        "coarse less fine.",
        source="Tables 1 and 2", of=lambda t, p: more(t, p, "coarse", saved), below=0, matters=2.0,
        because="ten of a target's 500 test images", ours=True, **LIMITS,
    ),
    Statement(
        "moves", "Fine-tuning moves the weights less on coarse targets than on fine ones.", ours=True,
        source="Section 3, Table 1", above=0, matters=0.05, because="less than printed deviations differ by",
        of=lambda t, p: 1 - ratio(*(ended(t, k, "pretrained", "deviation") for k in ("coarse", "fine"))),
        **LIMITS | {"unit": "of the distance on fine ones"},
    ),
]  # fmt: skip

SAID = by_verdict(
    "Pre-training helps more on classes that lie far apart than on classes of one kind",
    "Against the paper, pre-training helps less on classes that lie far apart than on classes of one kind",
    "Against the paper, pre-training helps as much on classes of one kind as on classes that lie far apart",
    "pre-training helps more on classes that lie far apart than on classes of one kind",
)
COARSE_SAID = by_verdict(
    "It also helps more with coarse labels, one per kind", "With coarse labels, one per kind, it helps less",
    "With coarse labels, one per kind, it helps no more", "it helps more with coarse labels, one per kind",
)  # fmt: skip


def finding(table, parameters, claims):
    """The verdict on distant classes, the shares of the error that are removed, and that on superclasses."""
    if claims["distant"].measured is None:
        return "Nothing was measured."
    distant, fine = (removed(table, parameters, kind).mean() for kind in ("distant", "fine"))
    said = (
        f"{SAID[claims['distant'].outcome]}: it removes {distant:.0f} % of the error on classes of "
        f"different kinds and {fine:.0f} % on those of one kind"
    )
    return sentences(said, COARSE_SAID[claims["coarse"].outcome], "our networks are small")


PRINTED = f"{printed_more():+.1f} ({printed_more('corrected'):+.1f} from its errors)"


def key_numbers(table, parameters):
    """By how much more pre-training helps on distant targets, and on coarse ones."""
    found = (
        ("share removed, distant minus fine (points)", more(table, parameters, "distant"), PRINTED),
        ("share removed, coarse minus fine (points)", more(table, parameters, "coarse"), None),
        ("error saved, coarse minus fine (points)", more(table, parameters, "coarse", saved), None),
    )
    return [
        KeyNumber(what, interval(values, "{:+.1f}"), theirs) for what, values, theirs in found if len(values)
    ]
