"""How much of the labels lies along the top singular vectors, and whether training raises it (Figure 2)."""

from alignbook.claims import HOLDS, NOT_JUDGED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, last
from alignbook.statements import Requirement, Statement
from alignbook.wording import opening

from .design import TOP

PERCENT = (0, 100)  # within which a share lies
MOSTLY = 0.5  # share of the labels: "mostly aligned" (Section 4.2)
CHANCE = 0.01  # share of the labels by which "more or less uniformly" (Section 4) may be missed
LEARNED = 0.95  # share of the shuffled labels that the network has to have right
PRINTED_POINTS = 10000  # Section 4


def shares(table, top=TOP, column="share"):
    """Shares along the top singular vectors, frame of (seeds × panels); empty without runs."""
    return curves(at(table, kind="share", top=top), "panel", column)


def beyond_chance(panel):
    """A reading: the share in ``panel`` less its expectation over all orders of the labels, by seed."""
    return lambda t, p: difference(shares(t)[panel], shares(t, column="chance")[panel])


def accuracies(table):
    """Share of the shuffled labels that the network has right after the last epoch, a sample."""
    return last(curves(at(table, kind="epoch"), "epoch", "accuracy"))


learned = Requirement(
    "training accuracy of the network on the shuffled labels",
    lambda table, parameters: accuracies(table).mean(), at_least=LEARNED,
)  # fmt: skip
SHARE = {
    "matters": 0.05, "unit": "of the labels",
    "because": "a twentieth of the labels: less would not change what “mostly” means",
}  # fmt: skip
UNIFORM = {
    "near": 0.0, "within": CHANCE, "matters": CHANCE, "unit": "of the labels, beyond chance",
    "because": "the margin",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "aligned-after",
        f"After training on shuffled labels, these labels lie mostly along the top {TOP} singular vectors of "
        "the last hidden layer.",
        source="Figure 2 (d), Section 4.2", of=lambda t, p: shares(t)["d"], above=MOSTLY, bounds=(0, 1),
        requires=(learned,), headline=True, **SHARE,
    ),
    Statement(
        "emerges", f"Training raises the share of the shuffled labels along the top {TOP} singular vectors.",
        source="Figure 2 (c) and (d)", of=lambda t, p: difference(shares(t)["d"], shares(t)["c"]), above=0,
        requires=(learned,), **SHARE,
    ),
    Statement(
        "real-labels", f"The real labels lie mostly along the top {TOP} singular vectors of the inputs.",
        source="Figure 2 (a), Section 4", of=lambda t, p: shares(t)["a"], above=MOSTLY, bounds=(0, 1),
        **SHARE,
    ),
    Statement(
        "uniform-inputs",
        f"The share of the shuffled labels along the top {TOP} singular vectors of the inputs is at chance "
        "level.",
        source="Figure 2 (b), Section 4", of=beyond_chance("b"), **UNIFORM,
    ),
    Statement(
        "uniform-before",
        "Before training, the shuffled labels' share along those of the last hidden layer is also at chance "
        "level.",
        source="Figure 2 (c)", of=beyond_chance("c"), **UNIFORM,
    ),
]  # fmt: skip


def finding(table, parameters, claims):
    """What training on shuffled labels does, with the shares before and after; words follow the verdict."""
    claim, found = claims["aligned-after"], shares(table)
    said = opening(
        claim, "Training aligns features even with labels that have nothing to do with the inputs",
        contradicted="Training does not align features with most of the labels that the network memorises",
        absent="Training aligns features with about half of the labels that the network memorises",
    )  # fmt: skip
    if found.empty or said is None:
        return "No finished run is among the results."
    if claim.outcome == NOT_JUDGED:
        return f"The network learned only {accuracies(table).mean():.0%} of the shuffled labels."
    chance = ", which is chance" * (claims["uniform-before"].outcome == HOLDS)
    points = parameters["points"]
    caveat = "Step size and initial weights are our choice."
    if points < PRINTED_POINTS:
        caveat = f"We used {points:,} images instead of {PRINTED_POINTS:,}."
    return (
        f"{said}: after training, {100 * found['d'].mean():.0f} % of their squared length lies along the top "
        f"{TOP} singular vectors, against {100 * found['c'].mean():.1f} % before{chance}. {caveat}"
    )


def key_numbers(table, parameters):
    """Shares along the top singular vectors: after training, before it, and of the real labels."""
    found = 100 * shares(table)
    whats = {
        "d": "of the shuffled labels after training",
        "c": "of the shuffled labels before training",
        "a": "of the real labels, inputs",
    }
    return [
        KeyNumber(f"share along the top {TOP} {what}", f"{interval(found[panel], '{:.1f}', PERCENT)} %")
        for panel, what in whats.items()
        if panel in found
    ]
