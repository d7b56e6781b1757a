"""Whether tangent features move as predicted, and where the predictor's eigenvectors lie (Figure 5)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook import over_seeds
from alignbook.claims import CONTRADICTED, KeyNumber, interval, t_interval
from alignbook.over_seeds import across, area, at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, sentences

PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv")).set_index("quantity")["value"]
# Fixed before any result was seen.
HIGH = 0.7  # "highly correlated": half of the squared length is in the predicted direction
EXACT = 1e-8  # relative error of Theorem A in float64
FEW = 1000  # images: with fewer the finding says that it rests on few
BALANCE = 0.1  # of a symmetric spectrum: Σλ / Σ|λ| over the largest by magnitude is 0 within this


def curves(table, column, kind="step"):
    """(seeds × epochs) frame of one column; empty where there is none."""
    return over_seeds.curves(at(table, kind=kind), "epoch", column)


def early(table, column, kind="step"):
    """Mean of ``column`` over the first epoch's steps (area under the curve), by seed."""
    frame = curves(table, column, kind)
    return area(frame[[epoch for epoch in frame if epoch <= 1]])


def best(table):
    """[cosine], ascending: largest mean over the seeds, at a step of the first epoch, of "swapped".

    On fewer and on more images, where there are any. As the first order is exact in a step in which no ReLU
    switches, this is how near such a step comes to -H_w ΨỸ.
    """
    found = [curves(table, "swapped", kind).mean().loc[:1].max() for kind in ("step", "more")]
    return sorted(value for value in found if math.isfinite(value))


def rates(table):
    """(seeds × rates η) frame of the cosine with first order for one step of that rate, ascending.

    Means over the three times.
    """
    rows = at(table, kind="rate")
    known = sorted(rows["rate"].unique()) if len(rows) else []
    return across(rows, "rate", known, lambda of_rate: means(of_rate, "first_order"))


def reach(table):
    """The longest step (rate η) up to which all have their own first order; None where there is none.

    The 95 % interval of the cosine's mean over the seeds, or their common value, lies above ``HIGH``.
    """
    found = None
    for rate, values in rates(table).items():
        _, mean, ends = t_interval(values)
        if len(values) < 3 or (ends[0] if ends else mean) <= HIGH:
            break
        found = rate
    return found


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


def readings(parameters):
    """What the paper's undefined U and its step may be: a case each."""
    return [
        Case("all", "U keeps lengths: all parameters", {"column": "predicted", "kind": "step"}),
        Case("top", "U projects on the top eigenvectors of H_w", {"column": "predicted", "kind": "top"}),
        Case("more", f"on {parameters['more_examples']} images", {"column": "predicted", "kind": "more"}),
        Case("taken", "for the step that mini-batch SGD takes", {"column": "taken", "kind": "step"}),
    ]


def not_first(parameters, column, kind):
    """Whether a reading is none but ours: the first needs no more than that U keeps lengths."""
    return (column, kind) != ("predicted", "step")


def times(parameters):
    """A case per training time whose largest eigenvalue is printed."""
    named = zip(parameters["epochs_at"], range(1, 4), strict=False)
    return [Case(str(epoch), f"after epoch {epoch}", {"epoch": epoch, "time": n}) for epoch, n in named]


COSINE = {
    "above": HIGH, "matters": 0.1, "because": "a curve of cosines cannot be read more finely than that",
    "bounds": (-1, 1),
}  # fmt: skip
NORM = {
    "source": "Figure 5, Appendix B.4", "above": 0, "matters": 0.05, "unit": "in norm", "bounds": (-1, 1),
    "because": "a twentieth of a vector of length 1; Figure 5 shows nothing smaller",
}  # fmt: skip
KNOWN = Requirement("the times, images and width of Figure 5 are known", lambda t, p, **given: False)
STATEMENTS = [
    Statement(
        "correlated", "Over the first epoch a step changes ΨỸ along -H_w ΨỸ (ours: cosine above 0.7).",
        source="Approximation 1, second part, Appendix B.5", each=readings, headline=True,
        of=lambda t, p, column, kind: early(t, column, kind), paper="highly correlated", ours=not_first,
        **COSINE,
    ),
    Statement(
        "first-order", "At the training's rate η a step's change of ΨỸ has the direction of its first order, "
        "-η H_Ỹ Ψw (ours: cosine above 0.7).",
        source="Appendix B.5.2, Approximation 2; that it reaches to this η is ours", ours=True,
        of=lambda t, p: early(t, "first_order"), **COSINE,
    ),
    Statement(
        "swapped", "H_Ỹ Ψw has the direction of H_w ΨỸ (ours: cosine above 0.7).",
        source="Appendix B.5.2, Equation 10; how near its “≈” is, is ours", ours=True,
        of=lambda t, p: early(t, "swapped"), **COSINE,
    ),
    Statement(
        "theorem-a", "(L - 1) ∇ℒ = H_w θ (largest relative error in float64).", source="Theorem A",
        of=lambda t, p: None if (errors := curves(t, "theorem_a")).empty else errors.max(axis=None),
        exactly=0.0, within=EXACT,
    ),
    Statement(
        "middle", "While alignment rises, H_w's top eigenvectors have a larger part in the middle layer "
        "than in the first or the last.",
        of=in_the_middle, requires=(KNOWN,), **NORM,
    ),
    Statement(
        "concentrates", "That part in the middle layer is larger than at initialisation.", of=gained,
        requires=(KNOWN,), **NORM,
    ),
    Statement(
        "symmetric", "The spectrum of H_w is symmetric (sum of the largest eigenvalues over that of their "
        "absolute values).",
        source="Figure 5, caption", of=balance, near=0.0, within=BALANCE,
        post_hoc="replaces the share of positive eigenvalues, which was the same in all seeds", seen=3,
    ),
    Statement(
        "largest", "One of our runs could have given the printed largest |eigenvalue| of H_w.",
        source="Figure 5, caption", each=times, bounds=(0, math.inf), requires=(KNOWN,),
        of=lambda t, p, epoch, time: largest(t, epoch),
        one_run=lambda p, epoch, time: PRINTED[f"largest eigenvalue {time}"],
    ),
]  # fmt: skip

MOVE = "move the tangent features as the paper predicts"
SAID = by_verdict(
    f"Training steps {MOVE}", f"At the learning rate of training, steps do not {MOVE}",
    "How closely tangent features move as the paper predicts is just at our threshold",
    f"training steps {MOVE}",
)  # fmt: skip


IN_THE_MIDDLE = by_verdict(
    "The leading eigenvectors lie in the middle layers",
    "The leading eigenvectors do not lie in the middle",
    "The leading eigenvectors hardly prefer the middle",
    undecided="Where the leading eigenvectors lie is undecided",
    not_judged="Where the leading eigenvectors lie is not judged",
)


def finding(table, parameters, claims):
    """Whether tangent features move as predicted, how far first order reaches, and where eigenvectors lie."""
    claim = claims["correlated-all"]
    if claim.outcome not in SAID:
        return "No network was trained to the end."
    said = f"{SAID[claim.outcome]}: over the first epoch, change and prediction have a mean cosine of "
    said += f"{claim.measured:.2f}, where 1 is exact"
    middle = IN_THE_MIDDLE.get(claims["middle"].outcome)
    rate, caveat = reach(table), f"Measured on {'few ' * (parameters['examples'] < FEW)}images"
    if rate is not None and rate < parameters["learning_rate"]:
        far = "far " * (parameters["learning_rate"] >= 10 * rate)
        caveat = f"As ReLUs switch, even the first-order term holds only for {far}shorter steps"
        if claim.outcome == CONTRADICTED and (most := best(table)):
            reached = " to ".join(dict.fromkeys(f"{value:.2f}" for value in most))
            caveat = f"{far}shorter steps could reach {reached} (not judged)"
    return fitting(sentences(said, caveat, middle), sentences(said, middle), sentences(said))


def key_numbers(table, parameters):
    """The cosine over the first epoch; the largest |eigenvalue| at the first two times."""
    result = []
    if len(values := early(table, "predicted")):
        what = "cosine of a step's change of ΨỸ with the prediction -H_w ΨỸ, mean over the first epoch"
        result.append(KeyNumber(what, interval(values, within=(-1, 1)), "highly correlated"))
    for name, case in zip(("first", "second"), times(parameters), strict=False):
        epoch, values = case.given["epoch"], largest(table, case.given["epoch"])
        if len(values):
            when = "at initialisation" if epoch == 0 else f"after epoch {epoch}"
            what = f"largest |eigenvalue| of H_w at the paper's {name} time, ours {when}"
            printed = float(PRINTED[f"largest eigenvalue {case.given['time']}"])
            result.append(KeyNumber(what, interval(values, "{:.2g}", (0, math.inf)), printed))
    return result
