"""Does pre-training remove more of the error on coarse targets than on fine ones (Appendix B.3)? No torch."""

from alignbook.claims import HOLDS, KeyNumber, interval
from alignbook.over_seeds import at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.deviations import printed
from alignbook.studies.transferability.targets import STARTS, of_source
from alignbook.wording import by_verdict

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
    """The printed improvements: mean over the paper's coarse targets less that over its fine ones."""
    scratch, tuned = (printed(setting).set_index("target") for setting in ("scratch", "fine-tuned"))
    values = scratch.assign(saved=scratch["test_error"] - tuned["test_error"])[column]
    return float(values[COARSE].mean() - values[FINE].mean())


def source_accuracy(table, parameters, **given):
    """Mean accuracy of the pre-trained networks on their source's test images, percent."""
    return of_source(table)["source_test_accuracy"].mean()


def training_error(table, parameters, **given):
    """The largest mean training error of a kind and start, percent."""
    return max(ended(table, kind, start, "train_error").mean() for kind in KINDS for start in STARTS)


CASES = [Case(kind, f"{kind}, {words}", {"kind": kind}) for kind, words in KINDS.items()]
LEARNED = Requirement("accuracy on the source, %", of=source_accuracy, at_least=60.0)
FITTED = Requirement("training error on the targets, %", of=training_error, at_most=5.0)
LIMITS = {"unit": "points", "requires": (LEARNED, FITTED)}
SHARE = LIMITS | {"above": 0, "matters": 5.0, "because": "a seventh of what the printed ones differ by"}
STATEMENTS = [
    Statement(
        "coarse", "Pre-training removes a larger share of the error on coarse targets than on fine ones.",
        source="Appendix B.3", of=lambda t, p: more(t, p, "coarse"), paper=lambda p: printed_more(),
        headline=True, **SHARE,
    ),
    Statement(
        "improves", "Pre-training removes a share of the error from scratch.", source="Appendix B.3",
        of=removed, each=lambda p: CASES, **SHARE,
    ),
    Statement(
        "distant", "A larger share is removed on one class of each superclass than on the classes of one.",
        source="Appendix B.3, for labels that are equally narrow", of=lambda t, p: more(t, p, "distant"),
        ours=True, **SHARE,
    ),
    Statement(
        "points", "In points of test error, pre-training saves less on coarse targets than on fine ones.",
        source="Tables 1 and 2", of=lambda t, p: more(t, p, "coarse", saved), below=0, matters=2.0,
        because="ten of a target's 500 test images", paper=lambda p: printed_more("saved"), **LIMITS,
    ),
    Statement(
        "moves", "Fine-tuning moves the weights less on coarse targets than on fine ones.", ours=True,
        source="Section 3, Table 1", above=0, matters=0.05, because="less than printed deviations differ by",
        of=lambda t, p: 1 - ratio(*(ended(t, k, "pretrained", "deviation") for k in ("coarse", "fine"))),
        **LIMITS | {"unit": "of the way on fine ones"},
    ),
]  # fmt: skip

SAID = by_verdict(
    "Pre-training helps more on coarse targets than on fine ones",
    "Against the paper, pre-training helps less on coarse targets than on fine ones",
    "Against the paper, pre-training helps coarse and fine targets alike",
    "pre-training helps more on coarse targets than on fine ones",
)


def finding(table, parameters, claims):
    """The verdict, and the shares of the error that are removed."""
    if claims["coarse"].measured is None:
        return "Nothing was measured."
    far = " It helps more where equally narrow classes come from different superclasses."
    coarse, fine = (removed(table, parameters, kind).mean() for kind in ("coarse", "fine"))
    return (
        f"{SAID[claims['coarse'].outcome]}: it removes {coarse:.0f} % of the error in telling "
        f"superclasses apart and {fine:.0f} % in telling apart the classes of one."
        f"{far if claims['distant'].outcome == HOLDS else ''} Our networks are small."
    )


def key_numbers(table, parameters):
    """By how much more pre-training helps on coarse targets, and on distant ones."""
    found = (
        ("share removed, coarse less fine (points)", more(table, parameters, "coarse"), printed_more()),
        ("share removed, distant less fine (points)", more(table, parameters, "distant"), None),
        ("error saved, coarse less fine (points)", more(table, parameters, "coarse", saved),
         printed_more("saved")),
    )  # fmt: skip
    return [
        KeyNumber(what, interval(values, "{:+.1f}"), theirs if theirs is None else f"{theirs:+.1f}")
        for what, values, theirs in found
        if len(values)
    ]
