"""Whether filters line up with the principal axes of image patches while they train (Figure 2)."""

import math

from scipy.special import gammaln

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import difference, ratio, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, others

from ..filter_runs import DIMENSION, ends, figure_rows
from ..gains import KINDS

SMALL = 2.0  # "remains very small", fixed before any run: at most this many times the floor
LABELS = ("random", "real")  # Proposition 1 is about random ones
SEEN = 3  # seeds that had been seen when ``MOVED`` was chosen
LEARNED = 0.95  # of the labels: networks that fit fewer have not learned them, as on other pages
MOVED = 0.1  # displacement of the filters from which on "throughout training" counts


def expected_floor(filters, dimension):
    """Mean of the floor for Gaussian filters, exactly.

    Bᵢᵢ (B⁻¹)ᵢᵢ = 1 / (1 - R²) with R the multiple correlation of component i with the others; for
    independent Gaussians 1 - R² is Beta(a, b) with a = (filters - dimension) / 2, b = (dimension - 1) / 2.
    """
    a, b = (filters - dimension) / 2, (dimension - 1) / 2
    root = math.exp(gammaln(a - 0.5) + gammaln(a + b) - gammaln(a) - gammaln(a + b - 0.5))
    return dimension * (root - 1)


def floor(parameters):
    """:func:`expected_floor` of the parameters' number of filters."""
    return expected_floor(parameters["filters"], DIMENSION)


def _trained(table, labels):
    """Score rows of the figure's runs from the first epoch on."""
    rows = figure_rows(table, labels)
    return rows[rows["epoch"] >= 1]


def at_the_end(table, parameters, labels):
    """Misalignment with random bases less that with the data, at the end of training, by seed."""
    last = ends(_trained(table, labels))
    return difference(sample(last, "basis_mean"), sample(last, "misalignment"))


def throughout(table, parameters, labels):
    """The same at the epoch where it is least, from the one on whose displacement exceeds ``MOVED``.

    A run whose filters never move as far counts with its last epoch.
    """
    rows = _trained(table, labels)
    rows = rows[(rows["displacement"] > MOVED) | rows.index.isin(ends(rows).index)]
    return (rows["basis_mean"] - rows["misalignment"]).groupby(rows["seed"]).min()


def room(table, parameters, labels):
    """``SMALL`` times the floor less the misalignment, at the epoch where that is largest, by seed."""
    rows = _trained(table, labels)
    return (SMALL * floor(parameters) - rows["misalignment"]).groupby(rows["seed"]).min()


MOVES = Requirement(
    "smallest displacement of the filters at the end of a run",
    lambda t, p, labels: ends(_trained(t, labels))["displacement"].min(),
    at_least=MOVED,
)
OTHERS = Requirement(
    "misalignment with random bases at the end, divided by the bound",
    lambda t, p, labels: ends(_trained(t, labels))["basis_mean"].max() / (SMALL * floor(p)),
    at_least=1.0,
)
KNOWN = Requirement(
    "share of the labels that the networks have learned",
    lambda t, p, labels: ends(_trained(t, labels))["accuracy"].mean(),
    at_least=LEARNED,
    because="Filters of networks that still learn move on, and misalignment grows with how far they move",
)
MEASURED = {
    "source": "Figure 2", "above": 0, "matters": 0.15, "unit": "of misalignment",
    "because": "a tenth of what sampling alone gives (1.5)",
    "each": lambda p: [Case(kind, KINDS[kind], {"labels": kind}) for kind in LABELS],
}  # fmt: skip
STATEMENTS = [
    Statement(
        "ends-below-random-basis",
        "At the end of training the filters are less misaligned with the data than with random bases.",
        of=at_the_end, headline=True, **MEASURED,
    ),
    Statement(
        "below-random-basis",
        "The filters are less misaligned with the data than with random bases at every recorded epoch once "
        f"they have moved by {MOVED:g} of their norm.",
        of=throughout, requires=(MOVES,), **MEASURED,
        post_hoc="where “throughout training” starts was chosen after these runs were seen",
        seen=SEEN,
    ),
    Statement(
        "very-small",
        f"By our own bound misalignment stays very small: below {SMALL:g} times what sampling alone gives.",
        of=room, requires=(OTHERS, KNOWN), ours=True, **MEASURED,
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="Filters trained on random labels end better aligned with the data than with random bases",
    contradicted="Filters trained on random labels end better aligned with random bases than with the data",
    absent="Filters trained on random labels end no better aligned with the data than with random bases",
    undecided="It is undecided whether filters trained on random labels align with the data",
    not_judged="Whether filters trained on random labels align with the data is not judged",
)


def finding(table, parameters, claims):
    """Misalignment after training on random labels, beside random bases, and whether real labels differ."""
    outcome, last = claims["ends-below-random-basis-random"].outcome, ends(_trained(table, "random"))
    if outcome not in SAID or last.empty:
        return "No run with random labels is among the results: there is nothing to see."
    data, bases = last["misalignment"].mean(), last["basis_mean"].mean()
    text = f"{SAID[outcome]}: misalignment with the data ends at {data:.1f}, with the bases at {bases:.1f}"
    text += others(outcome, {KINDS["real"]: claims["ends-below-random-basis-real"].outcome})
    most = last["accuracy"].max()
    if most >= LEARNED:
        return f"{text}."
    part = f"{100 * last['accuracy'].mean():.0f} %"
    return f"{text}. The networks have learned only {part} of their random labels (guessing: 10 %)."


def key_numbers(table, parameters):
    """How many times less misaligned with the data than with random bases; the floor."""
    result = []
    for kind in LABELS:
        last = ends(_trained(table, kind))
        times = interval(ratio(sample(last, "basis_mean"), sample(last, "misalignment")), "{:.3g}")
        what = f"misalignment with random bases over that with the data, {KINDS[kind]}"
        result.append(KeyNumber(what, times))
    return [*result, KeyNumber("misalignment that sampling alone gives (the floor)", floor(parameters))]
