"""Does pre-training remove more of the error on coarse targets than on fine ones (Appendix B.3)? No torch."""

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.deviations import printed
from alignbook.studies.transferability.targets import STARTS, of_source
from alignbook.wording import by_verdict

from .design import COARSE, FINE, KINDS

LEARNED = 60.0  # percent of the source's test images that a network must get right which has learned it
FITTED = 5.0  # percent of its training images that a network may get wrong which has learned its target


def ended(table, kind, start, column="test_error"):
    """Mean of ``column`` at the end of training over the targets of a kind, a sample."""
    return means(at(table, kind=kind, start=start), column)


def removed(table, parameters, kind):
    """Percentage of the error from scratch that fine-tuning removes on a kind of targets, a sample."""
    return 100 * (1 - ratio(*(ended(table, kind, start) for start in ("pretrained", "scratch"))))


def more(table, parameters, kind):
    """How much larger that is than on fine targets, in points, a sample."""
    return difference(removed(table, parameters, kind), removed(table, parameters, "fine"))


def saved_more(table, parameters):
    """Points of test error that fine-tuning saves on coarse targets less those on fine ones, a sample."""
    saved = [
        difference(*(ended(table, kind, start) for start in ("scratch", "pretrained")))
        for kind in ("coarse", "fine")
    ]
    return difference(*saved)


def moved_less(table, parameters):
    """Share by which fine-tuning moves the weights less on coarse targets than on fine ones, a sample."""
    return 1 - ratio(*(ended(table, kind, "pretrained", "deviation") for kind in ("coarse", "fine")))


def printed_more(parameters):
    """The printed improvements: mean over the paper's coarse targets less that over its fine ones."""
    return _coarse_less_fine(printed("scratch").set_index("target")["improvement"])


def printed_saved_more(parameters):
    """The same of the points that are saved, from the printed errors."""
    scratch, tuned = (printed(s).set_index("target")["test_error"] for s in ("scratch", "fine-tuned"))
    return _coarse_less_fine(scratch - tuned)


def _coarse_less_fine(values):
    return float(values[COARSE].mean() - values[FINE].mean())


def source_accuracy(table, parameters, **given):
    """Mean accuracy of the pre-trained networks on their source's test images, percent."""
    return of_source(table)["source_test_accuracy"].mean()


def training_error(table, parameters, **given):
    """The largest mean training error of a kind and start, percent."""
    return max(ended(table, kind, start, "train_error").mean() for kind in KINDS for start in STARTS)


def kinds(parameters):
    """A case per kind of targets."""
    return [Case(kind, f"{kind}, {words}", {"kind": kind}) for kind, words in KINDS.items()]


SHARE = {
    "above": 0, "matters": 5.0, "unit": "points", "because": "a seventh of what the printed ones differ by",
}  # fmt: skip
LEARNT = (
    Requirement("accuracy on the source, %", of=source_accuracy, at_least=LEARNED),
    Requirement("training error on the targets, %", of=training_error, at_most=FITTED),
)
STATEMENTS = [
    Statement(
        "coarse", "Pre-training removes a larger share of the error on coarse targets than on fine ones.",
        source="Appendix B.3", of=lambda t, p: more(t, p, "coarse"), paper=printed_more, headline=True,
        requires=LEARNT, **SHARE,
    ),
    Statement(
        "improves", "Pre-training removes a share of the error from scratch.", source="Appendix B.3",
        of=removed, each=kinds, requires=LEARNT, **SHARE,
    ),
    Statement(
        "distant", "It removes a larger share on one class of each superclass than on the classes of one.",
        source="Appendix B.3, for labels that are equally narrow", of=lambda t, p: more(t, p, "distant"),
        ours=True, requires=LEARNT, **SHARE,
    ),
    Statement(
        "points", "In points of test error, it saves less on coarse targets than on fine ones.",
        source="Tables 1 and 2", of=saved_more, paper=printed_saved_more, below=0, matters=2.0,
        unit="points", because="ten of a target's 500 test images", requires=LEARNT,
    ),
    Statement(
        "moves", "Fine-tuning moves the weights less on coarse targets than on fine ones.",
        source="Section 3, Table 1", of=moved_less, above=0, matters=0.05, unit="of the way on fine ones",
        because="less than any two printed deviations differ by", requires=LEARNT, ours=True,
    ),
]  # fmt: skip

SAID = by_verdict(
    "Pre-training helps more on coarse targets than on fine ones",
    "Pre-training helps less on coarse targets than on fine ones, against the paper",
    "Pre-training helps coarse and fine targets alike, against the paper",
    "pre-training helps more on coarse targets than on fine ones",
)


def finding(table, parameters, claims):
    """The verdict, and the shares of the error that are removed."""
    if claims["coarse"].measured is None:
        return "Nothing was measured."
    coarse, fine = (removed(table, parameters, kind).mean() for kind in ("coarse", "fine"))
    return (
        f"{SAID[claims['coarse'].outcome]}: it removes {coarse:.0f} % of the error from scratch where "
        f"superclasses are told apart, {fine:.0f} % where the classes of one are. Small images, networks and "
        "targets."
    )


def key_numbers(table, parameters):
    """The differences of the shares, and of the points saved."""
    share, saved = "share of the error removed", "test error saved, coarse less fine (points)"
    found = {
        f"{share}, coarse less fine (points)": (more(table, parameters, "coarse"), printed_more),
        f"{share}, distant less fine (points)": (more(table, parameters, "distant"), None),
        saved: (saved_more(table, parameters), printed_saved_more),
    }
    return [
        KeyNumber(what, interval(values, "{:+.1f}"), theirs and f"{theirs(parameters):+.1f}")
        for what, (values, theirs) in found.items()
        if len(values)
    ]
