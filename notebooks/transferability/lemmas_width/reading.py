"""Does what the proofs call small shrink with the width as the lemmas say, and do their constants hold?"""

import math
from dataclasses import dataclass

import numpy as np

from alignbook.claims import UNDECIDED, KeyNumber
from alignbook.over_seeds import at, weakest
from alignbook.statements import Requirement, Statement, over
from alignbook.studies.transferability.by_seed import mean_spread, over_sets, per_seed, widest
from alignbook.studies.transferability.targets import each
from alignbook.wording import by_verdict, over_cases

ROOM = 0.1  # by which an exponent may fall short at the widths here
KAPPA = 1.0  # of the headline: Lemma 2 states w ~ N(0, I)
LEAST = 3  # widths through which a power is laid
ROOTS = {0.5: "square root", 0.25: "fourth root"}


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
        "distance, random outputs removed",
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
        by_width = rows.set_index("width")[column]
        if len(by_width) < LEAST or not (by_width > 0).all():
            return math.nan
        return -np.polyfit(np.log(by_width.index.to_numpy(float)), np.log(by_width.to_numpy(float)), 1)[0]

    return over_sets(per_seed(at(table, kappa=kappa), exponent))


def slowest(table, parameters, dataset):
    """Exponent less the proof's of the quantity that falls short of it most surely, at ``KAPPA``."""
    table = at(table, dataset=dataset)
    return weakest(*(exponents(table, parameters, small.column, KAPPA) - small.power for small in SMALL))


def over_bound(table, parameters, column, bound, kappa):
    """``column`` over its ``bound``, at the width where that is largest."""
    return over_sets(per_seed(at(table, kappa=kappa), lambda rows: (rows[column] / rows[bound]).max()))


def density(table, parameters, kappa):
    """Share of units near their threshold over what the proof of Lemma 5 allows, largest over the widths."""
    return over_sets(per_seed(at(table, kappa=kappa), lambda rows: rows["density"].max()))


def smallest(table, parameters, kappa):
    """λ_min(H(k)) over its limit, the least over training, at the largest width."""
    return over_sets(per_seed(widest(at(table, kappa=kappa)), lambda rows: rows["smallest"].min()))


def width_needed(table, kappa=KAPPA):
    """Width at which pre-training would move units by Lemma 2's radius κ λ/n² at most, by m^-1/2."""

    def needed(rows):
        row = rows.iloc[0]
        return row["width"] * (row["moved_p"] / (kappa * row["radius"])) ** 2

    return per_seed(widest(at(table, kappa=kappa)), needed)


def far_for_kappa(table, parameters, kappas):
    """The farthest that both trainings move a unit at the smallest width, over κ, mean of the runs."""
    rows = at(table, kappa=kappas)
    return (at(rows, width=rows["width"].min())["moved_q"] / kappas).mean()


# The share of N(0, κ²) within a radius grows with the radius only as long as that is below about κ.
NOT_ALL = {
    "requires": (
        Requirement("the farthest that a unit moves at the smallest width, over κ", far_for_kappa, at_most=1),
    ),
    "post_hoc": "required after all units were seen near their threshold at κ = 0.1 and small widths",
}


def _rate(small):
    more = NOT_ALL if small.column == "near" else {}
    return Statement(
        f"rate-{small.column.replace('_', '-')}",
        f"{small.words} shrinks like one over the {ROOTS[small.power]} of the width, or faster, to within "
        f"{ROOM:g} of the exponent.",
        source=small.source, of=lambda t, p, kappas: exponents(t, p, small.column, kappas),
        above=small.power - ROOM, matters=0.05, paper=small.power, ours=True,
        because=EXPONENT, each=KAPPAS, **more,
    )  # fmt: skip


def _way(column, bound, words, source):
    return Statement(
        column.replace("_", "-"), f"No unit moves farther than its bound in {words}.", source=source,
        of=lambda t, p, kappas: over_bound(t, p, column, bound, kappas), below=1, matters=0.01,
        unit="of the bound", because="a hundredth, for a bound with an error term", each=KAPPAS,
    )  # fmt: skip


KAPPAS = over("kappas", {0.1: "κ = 0.1", 1.0: "κ = 1"})
EXPONENT = "over our widths, a difference of 0.05 in the exponent is a factor of 1.3"
STATEMENTS = [
    Statement(
        "falls",
        f"Everything that the proofs call small shrinks as they say, to within {ROOM:g} of the exponent.",
        source="Appendix C", of=slowest, above=-ROOM, matters=0.05, because=EXPONENT, ours=True,
        headline=True, each=each("datasets", "dataset"),
    ),
    *map(_rate, SMALL),
    _way("moved_p", "bound_p", "pre-training", "Lemma 1"),
    _way("moved_q", "bound_q", "both trainings", "Lemma 4, Corollary 1"),
    Statement(
        "eigenvalue",
        "The smallest eigenvalue of the Gram matrix stays above half of its limit's at the largest width.",
        source="Lemma 2", of=lambda t, p, kappas: smallest(t, p, kappas), above=0.5, matters=0.01,
        unit="of the limit's", because="a hundredth of the eigenvalue does not change any rate", each=KAPPAS,
    ),
    Statement(
        "near", "No more units are near their threshold than the proof says: ratio of the shares.",
        source="Lemma 5", of=lambda t, p, kappas: density(t, p, kappas), below=1.05, matters=0.01,
        unit="of the proof's share", because="a fifth of the margin", each=KAPPAS, ours=True,
    ),
]  # fmt: skip

SAID = by_verdict(
    "Everything that the proofs call small shrinks with the width as fast as they say",
    "Something that the proofs call small shrinks more slowly than they say",
    "What the proofs call small shrinks just as fast as they allow",
    "everything that the proofs call small shrinks as fast as they say",
)


def finding(table, parameters, claims):
    """Whether everything small shrinks as it should, and what the proofs' own condition would need."""
    ids, needed = [f"falls-{name}" for name in parameters["datasets"]], width_needed(table)
    said = over_cases(claims, ids, SAID, "on {} data sets")
    if said is None or needed.empty:
        return "Nothing has finished."
    worst = min(claims[id].measured for id in ids if claims[id].measured is not None)
    wide = [claims[id] for id in ids if claims[id].outcome == UNDECIDED and claims[id].interval]
    past = f", and {'an interval reaches' if len(wide) == 1 else 'intervals reach'} past that" * bool(wide)
    return (
        f"{said}: for standard normal weights the weakest exponent is {abs(worst):.2f} "
        f"{'below' if worst < 0 else 'above'} the lemma's (we allow {ROOM:g}{past}). Lemma 2 needs at least "
        f"some {float(f'{needed.median() / 1e6:.1g}'):,.0f} million units; our networks are far narrower."
    )


def key_numbers(table, parameters):
    """How loose Lemma 1's bound is, and how near the outputs are to the transformed labels."""
    made, kappas = [], parameters["kappas"]
    for kappa in dict.fromkeys((min(kappas), max(kappas))):
        rows = widest(at(table, kappa=kappa))
        if rows.empty:
            continue
        if not made:
            what = f"Lemma 1's bound, divided by the farthest that a unit moves (κ = {kappa:g})"
            loose = per_seed(rows, lambda part: (part["bound_p"] / part["moved_p"]).mean())
            made.append(KeyNumber(what, mean_spread(loose, 0), "at least 1"))
        what = f"distance of outputs from transformed labels, as a share of the labels (κ = {kappa:g})"
        carried = per_seed(rows, lambda part: part["carried"].mean())
        made.append(KeyNumber(what, mean_spread(carried), "of order κ in the limit"))
    return made
