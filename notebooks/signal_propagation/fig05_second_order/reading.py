"""Whether tangent features move as predicted, and where the predictor's eigenvectors lie (Figure 5)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from companion import over_seeds
from companion.over_seeds import area, at, difference, means, ratio
from companion.statements import Case, Number, Statement

PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv")).set_index("quantity")["value"]
# Fixed before any result was seen.
HIGH = 0.7  # "highly correlated": half of the squared length is in the predicted direction
BALANCE = 0.1  # of a symmetric spectrum: Σλ / Σ|λ| over the largest by magnitude is 0 within this


def curves(table, column, kind="step"):
    """(seeds × epochs) frame of one column; empty where there is none."""
    return over_seeds.curves(at(table, kind=kind), "epoch", column)


def early(table, column, kind="step"):
    """Mean of ``column`` over the first epoch's steps (area under the curve), by seed."""
    frame = curves(table, column, kind)
    return area(frame[[epoch for epoch in frame if epoch <= 1]])


def best(table, parameters, kind):
    """Largest mean over the seeds, at a step of the first epoch, of "swapped"; None of none.

    As the first order is exact in a step in which no ReLU switches, this is how near such a step comes to
    -H_w ΨỸ.
    """
    values = [value for value in curves(table, "swapped", kind).mean().loc[:1] if math.isfinite(value)]
    return max(values, default=None)


def pairs(table, epoch):
    """The rows of the eigenpairs of H_w taken after ``epoch``."""
    rows = at(table, kind="pair")
    return rows[np.isclose(rows["epoch"], epoch)] if len(rows) else rows


def eigenvalues(table, epoch):
    """(seeds × places) frame of the eigenvalues taken after ``epoch``."""
    return over_seeds.curves(pairs(table, epoch), "index", "eigenvalue")


def energy(table, layer, epoch):
    """Mean norm of the eigenvectors' parts in a layer, by seed."""
    return means(pairs(table, epoch), f"energy_{layer}")


def largest(table, epoch):
    """Largest |eigenvalue| after ``epoch``, by seed."""
    return eigenvalues(table, epoch).abs().max(axis=1).astype(float)


def balance(table, parameters):
    """Σλ / Σ|λ| over the eigenvalues taken at the second time, by seed."""
    values = eigenvalues(table, parameters["epochs_at"][1])
    return ratio(values.sum(axis=1).astype(float), values.abs().sum(axis=1).astype(float))


def in_the_middle(table, parameters):
    """Norm in the middle layer, less the larger of those in the first and the last, at the second time."""
    low, middle, high = (energy(table, n, parameters["epochs_at"][1]) for n in parameters["layers"])
    return difference(middle, pd.concat([low, high], axis=1).max(axis=1))


def gained(table, parameters):
    """Norm in the middle layer at the second time, less at the first."""
    before, after = (energy(table, parameters["layers"][1], time) for time in parameters["epochs_at"][:2])
    return difference(after, before)


def images(parameters):
    """On how many images: a case each."""
    counts = {"step": parameters["examples"], "more": parameters["more_examples"]}
    return [Case(str(n), f"{n} images", {"column": "predicted", "kind": kind}) for kind, n in counts.items()]


COSINE = {
    "above": HIGH, "matters": 0.1, "because": "a curve of cosines cannot be read more finely than that",
    "bounds": (-1, 1),
}  # fmt: skip
NORM = {
    "source": "Figure 5, Appendix B.4", "above": 0, "matters": 0.05, "unit": "in norm", "bounds": (-1, 1),
    "because": "a twentieth of a vector of length 1; Figure 5 shows nothing smaller",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "correlated", "Over the first epoch a step changes ΨỸ along -H_w ΨỸ (cosine above 0.7).",
        source="Approximation 1, second part, Appendix B.5, Figure 5", each=images, headline=True,
        of=lambda t, p, column, kind: early(t, column, kind), **COSINE,
    ),
    Statement(
        "first-order", "At the training's rate a step's change of ΨỸ has the direction of its first order, "
        "-H_Ỹ Ψw (cosine above 0.7).",
        source="Appendix B.5.2, Approximation 2; that it reaches to this rate is ours", ours=True,
        of=lambda t, p: early(t, "first_order"), **COSINE,
    ),
    Statement(
        "swapped", "H_Ỹ Ψw has the direction of H_w ΨỸ (cosine above 0.7).",
        source="Appendix B.5.2, Equation 10; how near its “≈” is, is ours", ours=True,
        of=lambda t, p: early(t, "swapped"), **COSINE,
    ),
    Statement(
        "middle", "While alignment rises, H_w's top eigenvectors have a larger part in the middle layer "
        "than in the first or the last.",
        of=in_the_middle, **NORM,
    ),
    Statement(
        "concentrates", "That part in the middle layer is larger than at initialisation.", of=gained, **NORM,
    ),
    Statement(
        "symmetric", "The spectrum of H_w is symmetric (sum of the largest eigenvalues over that of their "
        "absolute values).",
        source="Figure 5, caption", of=balance, near=0.0, within=BALANCE,
        post_hoc="replaces the share of positive eigenvalues, which was the same in all seeds",
    ),
    Statement(
        "largest", "One of our runs could have given the printed largest |eigenvalue| of H_w (second time).",
        source="Figure 5, caption", of=lambda t, p: largest(t, p["epochs_at"][1]), within=5.0,
        one_run=PRINTED["largest eigenvalue 2"], bounds=(0, math.inf),
    ),
]  # fmt: skip
NUMBERS = [
    Number("best", "largest cosine of a step so short that no ReLU switches", best,
           each=lambda p: [Case(kind, kind, {"kind": kind}) for kind in ("step", "more")]),
]  # fmt: skip
