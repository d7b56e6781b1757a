"""Does what the proofs call small shrink with the width as the lemmas say, and do their constants hold?"""

import math
from dataclasses import dataclass

import numpy as np

from companion.over_seeds import at, weakest
from companion.statements import Number, Statement, over
from companion.studies.transferability.shared.by_seed import over_sets, per_seed, widest
from companion.studies.transferability.shared.target_rows import words

ROOM = 0.1  # by which an exponent may fall short at the widths here
KAPPA = 1.0  # of the headline: Lemma 2 states w ~ N(0, I)
LEAST = 3  # widths through which a power is laid


@dataclass(frozen=True)
class Small:
    """A quantity that the proofs call small: its column, and the power of 1/m that bounds it."""

    column: str
    power: float
    source: str
    words: str
    short: str


SMALL = (
    Small("moved_p", 0.5, "Lemma 1", "The farthest that pre-training moves a unit", "move, pre-training"),
    Small("cross", 0.5, "Lemma 3", "The cross Gram matrix's distance from its limit", "cross Gram matrix"),
    Small("linear", 0.5, "Equation 19", "What units that switch add to the outputs", "switching units"),
    Small(
        "remainder",
        0.25,
        "Equation 19",
        "The outputs' distance from the transformed labels, without the random network's outputs,",
        "distance",
    ),
    Small("moved_q", 0.5, "Lemma 4", "The farthest that both trainings move a unit", "move, both trainings"),
    Small("near", 0.5, "Lemma 5", "The share of units near their threshold", "near the threshold"),
    Small("features", 0.25, "Lemma 6", "The change of the features", "features"),
    Small("gram", 0.5, "Lemma 6", "The change of the Gram matrix", "Gram matrix"),
)


def exponents(table, parameters, column, kappa):
    """α of the power m^-α that fits ``column`` best over the widths, by least squares of the logarithms.

    By seed, the mean over the data sets.
    """

    def exponent(rows):
        values = rows[column].to_numpy(float)
        if len(values) < LEAST or not (values > 0).all():
            return math.nan
        width = np.log(rows["width"].to_numpy(float))
        return -np.cov(width, np.log(values))[0, 1] / np.var(width, ddof=1)

    return over_sets(per_seed(at(table, kappa=kappa), exponent))


def slowest(table, parameters, dataset=None, kappa=KAPPA):
    """Exponent less the proof's of the quantity that falls short of it most surely."""
    table = table if dataset is None else at(table, dataset=dataset)
    return weakest(*(exponents(table, parameters, small.column, kappa) - small.power for small in SMALL))


def over_bound(table, parameters):
    """The farthest that a unit moves over its bound, the largest of either training, any width and κ."""

    def largest(rows):
        return max((rows[f"moved_{which}"] / rows[f"bound_{which}"]).max() for which in "pq")

    return over_sets(per_seed(table, largest))


def density(table, parameters):
    """Share of units near their threshold over what Lemma 5 allows, the largest at any width and κ."""
    return over_sets(per_seed(table, lambda rows: rows["density"].max()))


def smallest(table, parameters):
    """λ_min(H(k)) over its limit at the largest width, the least over training and κ."""
    return over_sets(per_seed(widest(table), lambda rows: rows["smallest"].min()))


def width_needed(table, kappa=KAPPA):
    """Width at which pre-training would move units by Lemma 2's radius κ λ/n² at most, by m^-1/2."""

    def needed(rows):
        row = rows.iloc[0]
        return row["width"] * (row["moved_p"] / (kappa * row["radius"])) ** 2

    return per_seed(widest(at(table, kappa=kappa)), needed)


def looseness(table, parameters):
    """Lemma 1's bound over the farthest that a unit moves, at the largest width and ``KAPPA``."""
    rows = widest(at(table, kappa=KAPPA))
    return over_sets(per_seed(rows, lambda part: (part["bound_p"] / part["moved_p"]).mean()))


RULE = {
    "source": "Appendix C", "above": -ROOM, "matters": 0.05, "unit": "of the exponent",
    "because": "over our widths, a difference of 0.05 in the exponent is a factor of 1.3",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "falls", "Everything that the proofs call small shrinks with the width as they say, to within "
        f"{ROOM:g} of the exponent: exponent less the proof's, slowest quantity.",
        of=slowest, headline=True, each=over("datasets", words, "dataset"), **RULE,
    ),
    Statement(
        "falls-small", "It does so also with smaller random weights.",
        of=lambda t, p: slowest(t, p, kappa=min(p["kappas"])), ours=True, **RULE,
    ),
    Statement(
        "moved", "No unit moves farther than its bound.", source="Lemmas 1 and 4, Corollary 1",
        of=over_bound, below=1, matters=0.01, unit="of the bound",
        because="a hundredth, for a bound with an error term",
    ),
    Statement(
        "eigenvalue",
        "The smallest eigenvalue of the Gram matrix stays above half of its limit's at the largest width.",
        source="Lemma 2", of=smallest, above=0.5, matters=0.01, unit="of the limit's",
        because="a hundredth of the eigenvalue does not change any rate",
    ),
    Statement(
        "near", "No more units are near their threshold than the proof says: ratio of the shares.",
        source="Lemma 5", of=density, below=1.05, matters=0.01, unit="of the proof's share",
        because="a fifth of the margin", ours=True,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "short",
        "what the slowest exponent lacks",
        lambda t, p, dataset: -slowest(t, p, dataset),
        each=over("datasets", words, "dataset"),
    ),
    Number("loose", "Lemma 1's bound over the farthest that a unit moves", looseness),
    Number(
        "units",
        "millions of units that Lemma 2 needs",
        lambda t, p: width_needed(t).median() / 1e6 if len(t) else None,
    ),
]
