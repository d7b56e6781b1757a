"""What two halves of the images, simulated directions and Propositions 1 and 2 say of eigenvectors."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, sample
from alignbook.statements import Case, Statement
from alignbook.wording import fitting, joined, listed, opening, sentences

from .design import OPTIMISERS, PROPERTIES, ROUNDING
from .directions import divergence, half_information, information, printed_distance

# Table D.1, left: σ_i² and |⟨e_i, e_i'⟩| as printed, digits included.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), dtype=str).astype({"index": int})
APART = np.log10(1 - PRINTED.set_index("index")["agreement"].astype(float))
LEAST = 0.975  # D.1: below all scalar products
SPREAD = 1 / 30  # D.3: standard deviation of α (rad) where n I(α) is between 904.1 and 909.1
DISTANCES = {  # D.4: two expressions of one distance
    "definition": ("its definition by divergences", divergence),
    "closed-form": ("its closed form as printed", printed_distance),
}


def splits(table, column):
    """(splits × eigenvectors) frame of ``variance``, ``apart`` or ``partner``, columns from 1."""
    return curves(at(table, kind="split"), "index", column).rename_axis("split")


def swapped(table):
    """Numbers of the eigenvectors whose scalar product is at most ``LEAST`` in the median split."""
    middle = splits(table, "apart").median()
    return [int(number) for number in middle.index[middle >= 1 - LEAST]]


def least(table, column="apart"):
    """The least scalar product of each split; ``partner``: each with the eigenvector most like it."""
    return 1 - splits(table, column).max(axis=1)


def logs(table, column="apart"):
    """log₁₀ of a frame of :func:`splits`."""
    return np.log10(splits(table, column).clip(lower=1e-16))


def diagonal(parameters):
    """(λ, n) of Figure 19 whose n I(α) is about as large as the paper says."""
    cells = product(parameters["ratios"], parameters["samples"])
    return [(ratio, n) for ratio, n in cells if 904.0 <= n * information(ratio) <= 909.2]


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


class Bounded(Statement):
    """A printed run lies below the bound ``one_run``; to be far below it is no contradiction."""

    def _judged(self, about, values, target):
        claim = super()._judged(about, values, target)
        below = claim.interval is not None and claim.interval[1] < target
        return replace(claim, outcome=HOLDS) if below else claim


def each(cases):
    """``each`` of a statement whose cases, {id: (words, what is given)}, are the same for all parameters."""
    return lambda parameters: [Case(str(id), words, given) for id, (words, given) in cases.items()]


def optimisers(commute):
    """Cases: those of Appendix C that are said to commute with the symmetries of the data, or not to."""
    return {
        name.lower().replace(" ", "-"): (f"{name} {'does' if yes else 'does not'}", {"optimiser": name})
        for name, yes in OPTIMISERS.items()
        if yes == commute
    }


TABLE = {"source": "Table D.1 (left)"}
PRINTED_BOUND = {"source": "D.1", "one_run": np.log10(1 - LEAST)}
BOUND = f"One split could have all scalar products, also of later eigenvectors, above {LEAST}"
SYMMETRY = {
    "text": "Training commutes with the symmetries of the data; Appendix C lists these optimisers.",
    "source": "Appendix C, a remark", "unit": "of the distance trained",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "agreement",
        "One split of ours could have given the printed agreement of the first twelve eigenvectors: mean of "
        "log10 of 1 − scalar product.",
        of=lambda t, p: logs(t)[APART.index].mean(axis=1), one_run=APART.mean(), headline=True, **TABLE,
    ),
    Bounded(
        "least", f"{BOUND}: log10 of 1 − the least.", of=lambda t, p: logs(t).max(axis=1), **PRINTED_BOUND
    ),
    Bounded(
        "least-partners", f"{BOUND}, each with the eigenvector most like it: log10 of 1 − the least.",
        of=lambda t, p: logs(t, "partner").max(axis=1), ours=True, **PRINTED_BOUND,
    ),
    Statement(
        "agreement", "Each printed scalar product could come from one split (log10 of its distance from 1).",
        of=lambda t, p, number: logs(t)[number], one_run=lambda p, number: APART[number],
        each=each({i: (f"eigenvector {i}", {"number": i}) for i in APART.index}), **TABLE,
    ),
    *(
        Statement(
            "eigenvalue", "Each printed eigenvalue equals ours to within one unit of its last digit.",
            of=lambda t, p, number: splits(t, "variance")[number], near=float(text),
            within=10.0 ** -len(text.partition(".")[2]),
            each=each({i: (f"eigenvector {i}", {"number": i})}), **TABLE,
        )
        for i, text in zip(APART.index, PRINTED["variance"], strict=True)
    ),
    Statement(
        "spread", "Where n I(α) is the same, so is the standard deviation of the angle: 1/30.",
        of=spread, source="D.3", near=SPREAD, within=0.1 * SPREAD, unit="rad",
        each=lambda p: [
            Case(f"{ratio:g}", f"λ = {ratio:g}, n = {n:,}", {"ratio": ratio, "n": n})
            for ratio, n in diagonal(p)
        ],
    ),
    Statement(
        "lost-near-1", "With few samples the direction is lost as λ approaches 1: angle, minus that at "
        "the largest λ.", of=lost, source="D.3, Figure 19", above=0, matters=0.05, unit="rad",
        because="three degrees can hardly be seen in Figure 19",
    ),
    Statement(
        "fisher", "The variance 1/(n I) becomes exact for many samples: exact deviation over Fisher's.",
        of=fisher, source="D.3", exactly=1.0, within=0.01,
    ),
    Statement(
        "commutes", of=lambda t, p, optimiser: trained(t)[optimiser].max(), exactly=0.0, within=ROUNDING,
        each=each(optimisers(True)), **SYMMETRY,
    ),
    Statement(
        "commutes", of=lambda t, p, optimiser: trained(t)[optimiser], above=ROUNDING, matters=0.001,
        because="a thousandth of what training does", each=each(optimisers(False)), **SYMMETRY,
    ),
    Statement(
        "distance", "D.4's distance of two covariances is half the integral of the Fisher information.",
        of=lambda t, p, name: DISTANCES[name][1](1, 2) / half_information(1, 2) if len(t) else None,
        source="D.4", exactly=1.0, within=ROUNDING, unit="times half of the integral",
        each=each({name: (words, {"name": name}) for name, (words, _) in DISTANCES.items()}),
        post_hoc="the factor had been found in the derivation before this was written down",
    ),
    *(
        Statement(
            "proposition-2",
            "Misalignment M(A, B) has the properties of Proposition 2, and is not continuous in A.",
            of=lambda t, p, name: sample(at(t, kind="misalignment", property=name), "value").get(0),
            source="Proposition 2", exactly=due, within=margin,
            each=each({name.lower(): (words, {"name": name})}),
        )
        for name, (words, due, margin) in PROPERTIES.items()
    ),
]  # fmt: skip


def finding(table, parameters, claims):
    """Whether two halves agree, the least product, and which optimisers break Proposition 1."""
    agree = opening(
        claims["agreement"],
        "The printed agreement of two halves of CIFAR-10 on the first twelve eigenvectors could come from "
        "one split of ours",
        contradicted="Eigenvectors of image patches from two halves of CIFAR-10 do not agree as printed",
        absent="Eigenvectors of image patches from two halves of CIFAR-10 differ too little to matter",
    )
    bound = {
        HOLDS: f"One split could have all scalar products above {LEAST}, as in the paper",
        CONTRADICTED: "Over all eigenvectors the least scalar product is "
        f"{least(table).median():.2f} (median over the splits), in the paper above {LEAST}",
    }
    moved = claims["least"].outcome == CONTRADICTED and claims["least-partners"].outcome == HOLDS
    swap = f"Matched by likeness instead of order, one split could reach {LEAST}" * moved
    found = {given["optimiser"]: claims[f"commutes-{id}"] for id, (_, given) in optimisers(True).items()}
    broken = [name for name, claim in found.items() if claim.outcome == CONTRADICTED]
    symmetry = ""
    if broken:
        breaks = f"{listed(broken)} break{'s' * (len(broken) == 1)} the symmetry of Proposition 1's proof"
        symmetry = f"Contrary to the paper, {breaks}"
    elif {claim.outcome for claim in found.values()} == {HOLDS}:
        symmetry = "All optimisers that the paper lists keep Proposition 1's symmetry"
    parts = [part for part in (agree, bound.get(claims["least"].outcome)) if part]
    if not parts:
        return f"{symmetry or 'Nothing is among the results'}."
    said = joined(*parts)
    return fitting(sentences(said, swap or symmetry), sentences(said))


def key_numbers(table, parameters):
    """First and worst of the twelve scalar products, and the angle's deviation on the diagonal."""
    result, products = [], 1 - splits(table, "apart")
    for i in (i for i in (1, 9) if i in products):
        printed = PRINTED["agreement"][i - 1]
        middle, low, high = (f"{products[i].quantile(q):.{len(printed) - 2}f}" for q in (0.5, 0, 1))
        what = f"scalar product of both halves' eigenvectors number {i}: median (range)"
        result.append(KeyNumber(what, f"{middle} ({low} to {high})", printed))
    for ratio, n in diagonal(parameters)[:1]:
        values = spread(table, parameters, ratio, n)
        if len(values):
            what = f"standard deviation of an eigenvector's angle for λ = {ratio:g}, n = {n:,} (rad)"
            result.append(KeyNumber(what, interval(values, "{:.4f}"), "about 1/30"))
    return result
