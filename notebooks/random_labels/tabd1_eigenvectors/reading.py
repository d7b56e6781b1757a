"""What two halves of the images, simulated directions and Propositions 1 and 2 say of eigenvectors."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from companion.claims import HOLDS
from companion.over_seeds import at, curves, difference, sample
from companion.statements import Case, Number, Statement, pooled

from .design import ROUNDING
from .directions import half_information, information, printed_distance

# Table D.1, left: σ_i² and |⟨e_i, e_i'⟩| as printed, digits included.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), dtype=str).astype({"index": int})
APART = np.log10(1 - PRINTED.set_index("index")["agreement"].astype(float))
LEAST = 0.975  # D.1: below all scalar products
SPREAD = 1 / 30  # D.3: standard deviation of α (rad) where n I(α) is between 904.1 and 909.1


def splits(table, column):
    """(splits × eigenvectors) frame of ``variance``, ``apart`` or ``partner``, columns from 1."""
    return curves(at(table, kind="split"), "index", column).rename_axis("split")


def least(table, column="apart"):
    """The least scalar product of each split; ``partner``: each with the eigenvector most like it."""
    return 1 - splits(table, column).max(axis=1)


def logs(table, column="apart"):
    """log₁₀ of a frame of :func:`splits`."""
    return np.log10(splits(table, column).clip(lower=1e-16))


def diagonal(parameters):
    """Cases: λ and n of Figure 19 whose n I(α) is about as large as the paper says."""
    cells = product(parameters["ratios"], parameters["samples"])
    return [
        Case(f"{ratio:g}", "", {"ratio": ratio, "n": n})
        for ratio, n in cells
        if 904.0 <= n * information(ratio) <= 909.2
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


class Bounded(Statement):
    """A printed run lies below the bound ``one_run``; to be far below it is no contradiction."""

    def _judged(self, about, values, target):
        claim = super()._judged(about, values, target)
        below = claim.interval is not None and claim.interval[1] < target
        return replace(claim, outcome=HOLDS) if below else claim


def off(table, parameters):
    """The largest distance of an eigenvalue's mean from the printed one, in units of its last digit."""
    frame = splits(table, "variance")
    units = [10.0 ** -len(text.partition(".")[2]) for text in PRINTED["variance"]]
    apart = (frame[APART.index].mean() - PRINTED["variance"].astype(float).to_numpy()).abs() / units
    return apart.max()


def departs(table, parameters):
    """The largest departure from symmetry with AdaGrad or Adam, over the seeds."""
    return trained(table)[["AdaGrad", "Adam"]].max(axis=None)


TABLE = {"source": "Table D.1 (left)"}
PRINTED_BOUND = {"source": "D.1", "one_run": np.log10(1 - LEAST)}
BOUND = f"One split could have all scalar products, also of later eigenvectors, above {LEAST}"
STATEMENTS = [
    Statement(
        "agreement",
        "One split of ours could have given the printed agreement of the first twelve eigenvectors: mean of "
        "log10 of 1 − scalar product.",
        of=lambda t, p: logs(t)[APART.index].mean(axis=1), one_run=APART.mean(), headline=True, **TABLE,
    ),
    Statement(
        "eigenvalues", "The printed eigenvalues are ours to within one unit of their last digit.", of=off,
        exactly=0.0, within=1.0, unit="units, largest of twelve", **TABLE,
    ),
    Bounded(
        "least", f"{BOUND}: log10 of 1 − the least.", of=lambda t, p, product: logs(t, product).max(axis=1),
        ours=lambda p, product: product == "partner", **PRINTED_BOUND,
        each=lambda p: [
            Case("order", "eigenvectors of the same number", {"product": "apart"}),
            Case("partners", "each with the eigenvector most like it", {"product": "partner"}),
        ],
    ),
    Statement(
        "spread", "Where n I(α) is the same, so is the standard deviation of the angle: 1/30, mean over λ.",
        of=pooled(spread, diagonal), source="D.3", near=SPREAD, within=0.1 * SPREAD, unit="rad",
    ),
    Statement(
        "lost-near-1", "With few samples the direction is lost as λ approaches 1: angle, minus that at "
        "the largest λ.", of=lost, source="D.3, Figure 19", above=0, matters=0.05, unit="rad",
        because="three degrees can hardly be seen in Figure 19",
    ),
    Statement(
        "commutes", "Training by AdaGrad or Adam commutes with the symmetries of the data.",
        source="Appendix C, a remark", of=departs, exactly=0.0, within=ROUNDING,
        unit="of the distance trained",
    ),
    Statement(
        "distance", "The printed closed form of D.4's distance of two covariances is half the integral of "
        "the Fisher information.",
        of=lambda t, p: printed_distance(1, 2) / half_information(1, 2) if len(t) else None,
        source="D.4", exactly=1.0, within=ROUNDING, unit="times half of the integral",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "product", "scalar product of both halves' ninth eigenvectors", bounds=(0, 1),
        of=lambda t, p: [1 - splits(t, "apart")[9].median()], paper=float(PRINTED["agreement"][8]),
    ),
    Number("smallest", "least scalar product, median split", lambda t, p: [least(t).median()], paper=LEAST),
    Number(
        "smallest-partner", "the same, each with the eigenvector most like it",
        lambda t, p: [least(t, "partner").median()], paper=LEAST,
    ),
]  # fmt: skip
