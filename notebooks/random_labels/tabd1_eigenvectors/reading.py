"""What two halves of the images, simulated directions and Propositions 1 and 2 say of eigenvectors."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, sample
from alignbook.statements import Case, Statement
from alignbook.wording import by_verdict

from .design import OPTIMISERS, PROPERTIES, ROUNDING
from .directions import divergence, half_information, information, printed_distance

# Table D.1, left: σ_i² and |⟨e_i, e_i'⟩| as printed, digits included.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), dtype=str).astype({"index": int})
LEAST = 0.975  # D.1: below all scalar products
SPREAD = 1 / 30  # D.3: standard deviation of α (rad) where n I(α) is NEAR_INFORMATION
NEAR_INFORMATION = (904.1, 909.1)  # D.3
TABLE = "Table D.1 (left)"


def splits(table, column):
    """(splits × eigenvectors) frame of ``variance``, ``apart`` or ``partner``, columns from 1."""
    return curves(at(table, kind="split"), "index", column)


def logs(table, column="apart"):
    """log₁₀ of a frame of :func:`splits`."""
    return np.log10(splits(table, column).clip(lower=1e-16))


def printed_apart(number):
    """log₁₀(1 - the printed scalar product of row ``number``)."""
    return math.log10(1 - float(PRINTED["agreement"][number - 1]))


def last_digit(text):
    """One unit of the last digit of a printed number."""
    return 10.0 ** -len(text.partition(".")[2])


def diagonal(parameters):
    """(λ, n) of Figure 19 whose n I(α) is about as large as the paper says."""
    low, high = NEAR_INFORMATION
    return [
        (ratio, n)
        for ratio in parameters["ratios"]
        for n in parameters["samples"]
        if low - 0.1 <= n * information(ratio) <= high + 0.1
    ]


def trained(table, axes="turned"):
    """(seeds × optimisers) frame of the departure from equivariance; empty where nothing is stored."""
    return curves(at(table, kind="training", axes=axes), "optimiser", "departure")


def spread(table, parameters, ratio, n):
    """Root mean square angle (rad) at λ = ``ratio`` with ``n`` samples, by seed."""
    return sample(at(table, kind="angles", ratio=ratio, samples=n), "spread")


def lost(table, parameters):
    """The angle with the fewest samples at the smallest λ less that at the largest one, by seed."""
    few, ratios = min(parameters["samples"]), parameters["ratios"]
    near, far = (spread(table, parameters, ratio, few) for ratio in (min(ratios), max(ratios)))
    return difference(near, far) if len(ratios) > 1 else None


def fisher(table, parameters):
    """The exact angle over Fisher's with the most samples, at the λ where that is farthest from 1."""
    many = at(table, kind="angles", samples=max(parameters["samples"]))
    ratio = many["exact"] / many["fisher"]
    return ratio.iloc[(ratio - 1).abs().argmax()] if len(ratio) else None


def property_of(table, parameters, name):
    """What is measured of one of ``PROPERTIES``."""
    found = at(table, kind="misalignment", property=name)
    return found["value"].iloc[0] if len(found) else None


DISTANCES = {"definition": divergence, "closed-form": printed_distance}  # D.4: three names for one number


def against_information(table, parameters, name):
    """One of ``DISTANCES`` over half of the integral of the Fisher information, for Σ = 1 and 2."""
    return DISTANCES[name](1, 2) / half_information(1, 2) if len(table) else None


class Bounded(Statement):
    """A printed run lies below the bound ``one_run``; to be far below it is no contradiction."""

    def _judged(self, about, values, target):
        claim = super()._judged(about, values, target)
        below = claim.interval is not None and claim.interval[1] < target
        return replace(claim, outcome=HOLDS) if below else claim


def one(id, words, **given):
    """``each`` of a statement with one case."""
    return lambda parameters: [Case(id, words, given)]


def optimisers(commute):
    """``each``: those of Appendix C that are said to commute with the symmetries of the data, or not to."""
    return lambda parameters: [
        Case(name.lower().replace(" ", "-"), f"{name} {'does' if yes else 'does not'}", {"optimiser": name})
        for name, yes in OPTIMISERS.items()
        if yes == commute
    ]


def each_angle(parameters):
    """Cases: the λ and n of :func:`diagonal`."""
    return [
        Case(f"{ratio:g}", f"λ = {ratio:g}, n = {n:,}", {"ratio": ratio, "n": n})
        for ratio, n in diagonal(parameters)
    ]


NUMBERS = list(PRINTED["index"])
BELOW = math.log10(1 - LEAST)
BOUND = f"All scalar products, of later eigenvectors too, are above {LEAST}: log10 of 1 − the least"
SYMMETRY = {
    "text": "Training commutes with the symmetries of the data; Appendix C lists these optimisers.",
    "source": "Proposition 1, Appendix C", "unit": "of the distance trained",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "agreement",
        "Eigenvectors of two halves agree as printed: mean over twelve of log10 of 1 − scalar product.",
        of=lambda t, p: logs(t)[NUMBERS].mean(axis=1), source=TABLE, headline=True,
        one_run=lambda p: np.mean([printed_apart(i) for i in NUMBERS]),
    ),
    Bounded(
        "least", f"{BOUND}.", of=lambda t, p: logs(t).max(axis=1), source="D.1", one_run=BELOW,
    ),
    Bounded(
        "least-partners", f"{BOUND}, each with the eigenvector most like it.",
        of=lambda t, p: logs(t, "partner").max(axis=1), source="D.1", one_run=BELOW, ours=True,
    ),
    Statement(
        "agreement", "Each printed scalar product is one that a split gives (log10 of its distance from 1).",
        of=lambda t, p, number: logs(t)[number], source=TABLE,
        one_run=lambda p, number: printed_apart(number),
        each=lambda p: [Case(str(i), f"eigenvector {i}", {"number": i}) for i in NUMBERS],
    ),
    *(
        Statement(
            "eigenvalue", "Each printed eigenvalue is ours, to a unit of its last digit.",
            of=lambda t, p, number: splits(t, "variance")[number], source=TABLE, near=float(text),
            within=last_digit(text), each=one(i, f"eigenvector {i}", number=i),
        )
        for i, text in zip(NUMBERS, PRINTED["variance"], strict=True)
    ),
    Statement(
        "spread", "Where n I(α) is the same, so is the standard deviation of the angle: 1/30.",
        of=spread, source="D.3", near=SPREAD, within=0.1 * SPREAD, unit="rad", each=each_angle,
    ),
    Statement(
        "lost-near-1", "With few samples the direction is lost as λ comes near 1: angle, less that at the "
        "largest λ.", of=lost, source="D.3, Figure 19", above=0, matters=0.05, unit="rad",
        because="three degrees can hardly be seen in Figure 19",
    ),
    Statement(
        "fisher", "The variance 1/(n I) becomes exact for many samples: exact deviation over it.",
        of=fisher, source="D.3", exactly=1.0, within=0.01,
    ),
    Statement(
        "commutes", of=lambda t, p, optimiser: trained(t)[optimiser].max(), exactly=0.0, within=ROUNDING,
        each=optimisers(True), **SYMMETRY,
    ),
    Statement(
        "commutes", of=lambda t, p, optimiser: trained(t)[optimiser], above=ROUNDING, matters=0.001,
        because="a thousandth of what training does", each=optimisers(False), **SYMMETRY,
    ),
    Statement(
        "distance", "D.4's distance of two covariances is half of the integral of the Fisher information.",
        source="D.4", of=against_information, exactly=1.0, within=ROUNDING, unit="times half of the integral",
        each=lambda p: [
            Case("definition", "its definition by divergences", {"name": "definition"}),
            Case("closed-form", "its closed form as printed", {"name": "closed-form"}),
        ],
        post_hoc="the factor had been found in the derivation before this was written down",
    ),
    *(
        Statement(
            "proposition-2",
            "Misalignment M(A, B) has the properties of Proposition 2, and is not continuous in A.",
            of=property_of, source="Proposition 2", exactly=due, within=margin,
            each=one(name.lower(), words, name=name),
        )
        for name, (words, due, margin) in PROPERTIES.items()
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="The first twelve eigenvectors of image patches from two halves of CIFAR-10 agree as printed",
    contradicted="Eigenvectors of image patches from two halves of CIFAR-10 do not agree as printed",
    absent="Eigenvectors of image patches from two halves of CIFAR-10 differ too little to matter",
    undecided="It is undecided whether eigenvectors from two halves of CIFAR-10 agree as printed",
    not_judged="Whether eigenvectors from two halves of CIFAR-10 agree as printed is not judged",
)


def finding(table, parameters, claims):
    """Whether two halves agree, the least product, and which optimisers break Proposition 1."""
    said, least = [], claims["least"].outcome
    if claims["agreement"].outcome in SAID:
        said.append(SAID[claims["agreement"].outcome] + ".")
    if least == HOLDS:
        said.append(f"All scalar products are above {LEAST}, as in the paper.")
    elif least == CONTRADICTED:
        smallest = 1 - splits(table, "apart").max(axis=1).median()
        said.append(f"The least scalar product of all is {smallest:.2f}, where the paper's is above {LEAST}.")
    found = {case.given["optimiser"]: claims[f"commutes-{case.id}"] for case in optimisers(True)(parameters)}
    broken = [name for name, claim in found.items() if claim.outcome == CONTRADICTED]
    if broken:
        said.append(f"Proposition 1's symmetry fails for {' and '.join(broken)}, which the paper lists.")
    elif {claim.outcome for claim in found.values()} == {HOLDS}:
        said.append("All optimisers that the paper lists keep Proposition 1's symmetry.")
    return " ".join(said) or "Nothing is among the results."


def key_numbers(table, parameters):
    """First and worst of the twelve scalar products, and the angle's deviation on the diagonal."""
    result, apart = [], splits(table, "apart")
    for i in (i for i in (1, 9) if i in apart):
        printed = PRINTED["agreement"][i - 1]
        ends = " ({} to {})".format(*(f"{1 - apart[i].quantile(q):.{len(printed) - 2}f}" for q in (1, 0)))
        middle = f"{1 - apart[i].median():.{len(printed) - 2}f}"
        what = f"scalar product of the two halves' eigenvectors number {i}: median (range)"
        result.append(KeyNumber(what, middle + ends, printed))
    for ratio, n in diagonal(parameters)[:1]:
        values = spread(table, parameters, ratio, n)
        if len(values):
            what = f"deviation of the direction for λ = {ratio:g}, n = {n:,} (rad)"
            result.append(KeyNumber(what, interval(values, "{:.4f}"), "about 1/30"))
    return result
