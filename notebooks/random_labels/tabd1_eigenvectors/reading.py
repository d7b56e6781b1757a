"""What two halves of the images, simulated directions and Propositions 1 and 2 say of eigenvectors."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, sample
from alignbook.statements import Case, Statement

from .design import OPTIMISERS, PROPERTIES, ROUNDING
from .directions import information

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
    """log₁₀ of a frame of :func:`splits`, of splits that have twelve eigenvectors at least."""
    frame = splits(table, column)
    return np.log10(frame.clip(lower=1e-16)) if frame.shape[1] >= len(PRINTED) else frame.iloc[:0]


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


def twelve(table, parameters):
    """Mean of log₁₀(1 - scalar product) over the twelve printed eigenvectors, by split."""
    found = logs(table)
    return found[list(PRINTED["index"])].mean(axis=1) if len(found) else None


def least(table, parameters, column):
    """log₁₀(1 - the least scalar product of all eigenvectors), by split."""
    return logs(table, column).max(axis=1)


def agreement(table, parameters, number):
    """log₁₀(1 - scalar product) of one eigenvector, by split."""
    found = logs(table)
    return found[number] if len(found) else None


def eigenvalue(table, parameters, number):
    """σ² of one eigenvector, by split."""
    frame = splits(table, "variance")
    return frame[number] if frame.shape[1] >= len(PRINTED) else None


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


def departure(table, parameters, optimiser):
    """Departure from equivariance with the axes of Σ_x turned, by seed."""
    found = trained(table)
    return found[optimiser] if optimiser in found else None


def largest_departure(table, parameters, optimiser):
    """The largest of :func:`departure`, a number."""
    found = departure(table, parameters, optimiser)
    return None if found is None else found.max()


def property_of(table, parameters, name):
    """What is measured of one of ``PROPERTIES``."""
    found = at(table, kind="misalignment", property=name)
    return found["value"].iloc[0] if len(found) else None


class Bounded(Statement):
    """A printed run lies below the bound ``one_run``; to be far below it is no contradiction."""

    def _judged(self, about, values, target):
        claim = super()._judged(about, values, target)
        below = claim.interval is not None and claim.interval[1] < target
        return replace(claim, outcome=HOLDS) if below else claim


def one(id, words, **given):
    """``each`` of a statement with one case."""
    return lambda parameters: [Case(id, words, given)]


def numbered(parameters):
    """The twelve printed eigenvectors."""
    return [Case(str(i), f"eigenvector {i}", {"number": i}) for i in PRINTED["index"]]


def _optimisers(commute):
    """Those of Appendix C that are said to commute with the symmetries of the data, or not to."""
    return lambda parameters: [
        Case(name.lower().replace(" ", "-"), f"{name} {'does' if yes else 'does not'}", {"optimiser": name})
        for name, yes in OPTIMISERS.items()
        if yes == commute
    ]


SYMMETRY = "Training commutes with the symmetries of the data; Appendix C lists these optimisers."
BELOW = math.log10(1 - LEAST)
BOUND = f"All scalar products, of later eigenvectors too, are above {LEAST}: log10 of 1 − the least."
STATEMENTS = [
    Statement(
        "agreement",
        "Eigenvectors of two halves agree as printed: mean over twelve of log10 of 1 − scalar product.",
        source=TABLE, of=twelve, headline=True,
        one_run=lambda p: np.mean([printed_apart(i) for i in PRINTED["index"]]),
    ),
    Bounded("least", BOUND, source="D.1", one_run=BELOW, of=lambda t, p: least(t, p, "apart")),
    Bounded(
        "least-partners", f"{BOUND[:-1]}, each with the eigenvector most like it.", source="D.1",
        one_run=BELOW, of=lambda t, p: least(t, p, "partner"), ours=True,
    ),
    Statement(
        "agreement", "Each printed scalar product is one that a split gives (log10 of its distance from 1).",
        source=TABLE, of=agreement, one_run=lambda p, number: printed_apart(number), each=numbered,
    ),
    *(
        Statement(
            "eigenvalue", "Each printed eigenvalue is ours, to a unit of its last digit.", source=TABLE,
            of=eigenvalue, near=float(text), within=last_digit(text),
            each=one(i, f"eigenvector {i}", number=i),
        )
        for i, text in zip(PRINTED["index"], PRINTED["variance"], strict=True)
    ),
    Statement(
        "spread", "Where n I(α) is the same, so is the standard deviation of the angle: 1/30.", source="D.3",
        of=spread, near=SPREAD, within=0.1 * SPREAD, unit="rad",
        each=lambda p: [
            Case(f"{ratio:g}", f"λ = {ratio:g}, n = {n:,}", {"ratio": ratio, "n": n})
            for ratio, n in diagonal(p)
        ],
    ),
    Statement(
        "lost-near-1", "With few samples the direction is lost as λ comes near 1: angle, less that at the "
        "largest λ.", source="D.3, Figure 19", of=lost, above=0, matters=0.05, unit="rad",
        because="three degrees can hardly be seen in Figure 19",
    ),
    Statement(
        "fisher", "The variance 1/(n I) becomes exact for many samples: exact deviation over it.",
        source="D.3", of=fisher, exactly=1.0, within=0.01,
    ),
    Statement(
        "commutes", SYMMETRY, source="Proposition 1, Appendix C", of=largest_departure, exactly=0.0,
        within=ROUNDING, unit="of the distance trained", each=_optimisers(True),
    ),
    Statement(
        "commutes", SYMMETRY, source="Proposition 1, Appendix C", of=departure, above=ROUNDING,
        matters=0.001, unit="of the distance trained", because="a thousandth of what training does",
        each=_optimisers(False),
    ),
    *(
        Statement(
            "proposition-2",
            "Misalignment M(A, B) has the properties of Proposition 2, and is not continuous in A.",
            source="Proposition 2", of=property_of, exactly=due, within=margin,
            each=one(name.lower(), words, name=name),
        )
        for name, (words, due, margin) in PROPERTIES.items()
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The first twelve eigenvectors of image patches from two halves of CIFAR-10 agree as printed",
    CONTRADICTED: "Eigenvectors of image patches from two halves of CIFAR-10 do not agree as printed",
    UNDECIDED: "It is undecided whether eigenvectors from two halves of CIFAR-10 agree as printed",
}
LATER = {
    HOLDS: ", and all later ones agree, too",
    CONTRADICTED: ", but not all later ones: the least scalar product is {:.2f}, the paper's above 0.975",
}


def finding(table, parameters, claims):
    """Whether two halves agree, the least product, who breaks Proposition 1; words follow verdicts."""
    said, apart = [], splits(table, "apart")
    if claims["agreement"].outcome in SAID:
        later = LATER.get(claims["least"].outcome, "").format(1 - apart.max(axis=1).median())
        said.append(f"{SAID[claims['agreement'].outcome]}{later}.")
    found = {case.given["optimiser"]: claims[f"commutes-{case.id}"] for case in _optimisers(True)(parameters)}
    broken = [name for name, claim in found.items() if claim.outcome == CONTRADICTED]
    if broken:
        said.append(f"Proposition 1's symmetry fails for {' and '.join(broken)}, which the paper lists.")
    elif {claim.outcome for claim in found.values()} == {HOLDS}:
        said.append("All optimisers that the paper lists keep Proposition 1's symmetry.")
    return " ".join(said) or "Nothing is among the results."


def key_numbers(table, parameters):
    """First and worst of the twelve scalar products, and the angle's deviation on the diagonal."""
    result, apart = [], splits(table, "apart")
    for i in (1, 9) if apart.shape[1] >= len(PRINTED) else ():
        printed = PRINTED["agreement"][i - 1]
        form = f"{{:.{len(printed) - 2}f}}"
        middle, low, high = (form.format(1 - apart[i].quantile(q)) for q in (0.5, 1, 0))
        what = f"scalar product of the two halves' eigenvectors number {i}: median (range)"
        result.append(KeyNumber(what, f"{middle} ({low} to {high})", printed))
    for ratio, n in diagonal(parameters)[:1]:
        values = spread(table, parameters, ratio, n)
        if len(values):
            what = f"deviation of the direction for λ = {ratio:g}, n = {n:,} (rad)"
            result.append(KeyNumber(what, interval(values, "{:.4f}"), "about 1/30"))
    return result
