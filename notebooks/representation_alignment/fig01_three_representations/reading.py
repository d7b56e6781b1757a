"""How three representations align, and how fast linear models learn on them (Figures 1 and 5)."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves
from alignbook.statements import Requirement, Statement

from ..curve_order import share_above
from .design import NAMES, OTHER

FITTED = 1e-10  # of the labels' mean square: what least squares may leave of labels that it fits
PRINTED_POINTS = 1000  # Section 3
PRINTED_START = 200.0  # ‖y‖² of these (Section 4.2)
PRINTED_TAU = 8.0  # "about 8": where most of the ReLU network's alignment is still there (Section 4.2)
AREA = "a hundredth of the largest possible area is about what the width of a drawn curve covers"
ERROR = "a hundredth of the labels' mean square"
LATE = "chosen after runs at other settings, where the order after the last step was seen"


def areas(table):
    """(seeds × representations) frame of areas under the alignment curves; empty where there are none."""
    return curves(at(table, kind="area"), "representation", "area")


def alignment(table, representation):
    """(seeds × thresholds over √n) frame of a representation's alignment over ‖y‖²."""
    return curves(at(table, kind="curve", representation=representation), "threshold", "alignment")


def squares(table):
    """The labels' mean square by seed."""
    return at(table, kind="area").groupby("seed")["square"].first()


def best_step_sizes(table):
    """{representation: step size} of lowest training error after the last step, mean over the runs.

    Of those that converge in every run; the larger one where two are alike. Test points have no say.
    """
    steps = at(table, kind="step")
    last = steps[steps["step"] == steps["step"].max()]
    grouped = last.groupby(["representation", "step_size"])["train_error"]
    found = grouped.mean()[grouped.count() == steps["seed"].nunique()].reset_index()
    found = found.sort_values(["train_error", "step_size"], ascending=[True, False])
    return found.groupby("representation")["step_size"].first().to_dict()


def at_best(table):
    """The rows of kind ``step`` at each representation's best step size."""
    steps = at(table, kind="step")
    return steps[steps["step_size"] == steps["representation"].map(best_step_sizes(table))]


def errors(table, step, column):
    """(seeds × representations) frame of ``train_error`` or ``test_error`` after ``step`` steps (None: the
    last), over the labels' mean square."""
    chosen = at_best(table)
    chosen = chosen[chosen["step"] == (chosen["step"].max() if step is None else step)]
    return curves(chosen, "representation", column).div(squares(table), axis=0)


def early(parameters):
    """The step at which errors are compared."""
    return min(parameters["early"], parameters["iterations"])


def margins(frame, sign=1, rbf="rbf"):
    """How much the better of two neighbours in the printed order is ahead, least of both, one per seed."""
    ordered = sign * frame
    return np.minimum(ordered["relu"] - ordered[rbf], ordered[rbf] - ordered["dictionary"])


def nearer(table, rbf="rbf"):
    """How much nearer the RBF network's area is to the dictionary's than to the ReLU network's, by seed."""
    frame = areas(table)
    return (frame["relu"] - frame[rbf]).abs() - (frame[rbf] - frame["dictionary"]).abs()


def ahead(frame, sign=1):
    """How much the ReLU network is ahead of the better of the others, by seed."""
    return sign * frame["relu"] - (sign * frame[["rbf", "dictionary"]]).max(axis=1)


def aligned_at(table, representation, threshold):
    """Alignment over ‖y‖² at the stored threshold (over √n) next to ``threshold``, a sample."""
    found = alignment(table, representation)
    return found[min(found, key=lambda stored: abs(stored - threshold))] if len(found) else None


def errors_ordered(column, step=early, rbf="rbf"):
    """A reading: the margins of the printed order of errors after ``step(parameters)`` steps."""
    return lambda t, p: margins(errors(t, step(p), column), -1, rbf)


def unfitted(table, parameters, names=tuple(NAMES)):
    """What least squares leaves of the labels' mean square, in the worst run of these representations."""
    return at(table, kind="area", representation=list(names))["unfitted"].max()


FITS = "least squares leaves, of the labels' mean square, in the worst run and representation,"
fits = (Requirement(FITS, unfitted, at_most=FITTED),)
other_fits = (Requirement(FITS, lambda t, p: unfitted(t, p, [*NAMES, OTHER]), at_most=FITTED),)
by_area = {"above": 0, "matters": 0.01, "unit": "of the largest possible area", "because": AREA}
by_error = {"above": 0, "matters": 0.01, "unit": "of the labels' mean square", "because": ERROR}

STATEMENTS = [
    Statement(
        "alignment", "The ReLU network aligns best, then the RBF network, then the dictionary.",
        source="Figure 5, Section 4.2", of=lambda t, p: margins(areas(t)), requires=fits, headline=True,
        **by_area,
    ),
    Statement(
        "training", "Linear models learn the training labels in that order.", source="Figure 1, Section 3",
        of=errors_ordered("train_error"), requires=fits, **by_error,
    ),
    Statement(
        "test", "Their test errors are in that order, too.", source="Figure 1, Section 3",
        of=errors_ordered("test_error"), requires=fits, **by_error,
    ),
    Statement(
        "relu-first", "The ReLU network's features align better than both others.",
        source="Figure 5, Section 4.2", of=lambda t, p: ahead(areas(t)), requires=fits, **by_area,
    ),
    Statement(
        "relu-fastest", "Linear models train fastest on the ReLU network's features.",
        source="Figure 1, Section 3", of=lambda t, p: ahead(errors(t, early(p), "train_error"), -1),
        requires=fits, **by_error,
    ),
    Statement(
        "alignment-other", "With another bandwidth of the RBF network, alignment has the same order.",
        source="Figure 5; bandwidth not given", of=lambda t, p: margins(areas(t), rbf=OTHER),
        requires=other_fits, ours=True, **by_area,
    ),
    Statement(
        "training-other", "With another bandwidth, training errors have the same order.",
        source="Figure 1; bandwidth not given", of=errors_ordered("train_error", rbf=OTHER),
        requires=other_fits, ours=True, **by_error,
    ),
    Statement(
        "closer", "The RBF network's alignment is nearer to the dictionary's than to the ReLU network's.",
        source="Figure 5, Section 4.2", of=lambda t, p: nearer(t), requires=fits,
        post_hoc="the statement was added after runs at other settings", **by_area,
    ),
    Statement(
        "closer-other", "With another bandwidth it is nearer to the dictionary's, too.",
        source="Figure 5; bandwidth not given", of=lambda t, p: nearer(t, OTHER), requires=other_fits,
        post_hoc="the statement was added after runs at other settings", ours=True, **by_area,
    ),
    Statement(
        "training-last", "Training errors have the same order after the last step.",
        source="Figure 1; at which step is ours", of=errors_ordered("train_error", lambda p: None),
        requires=fits, post_hoc=LATE, ours=True, **by_error,
    ),
    Statement(
        "test-last", "Test errors have the same order after the last step.",
        source="Figure 1; at which step is ours", of=errors_ordered("test_error", lambda p: None),
        requires=fits, post_hoc=LATE, ours=True, **by_error,
    ),
    Statement(
        "most",
        f"The ReLU network keeps most of its alignment at a threshold of about {PRINTED_TAU:g}, of "
        f"{PRINTED_POINTS} points.",
        source="Figure 5, Section 4.2",
        of=lambda t, p: aligned_at(t, "relu", PRINTED_TAU / math.sqrt(PRINTED_POINTS)),
        above=0.5, matters=0.05, unit="of ‖y‖²", bounds=(0, 1), requires=fits,
        because="a twentieth of the labels: less would not change what “most” means",
    ),
]  # fmt: skip

ALIGN = {
    HOLDS: "The ReLU network's features align best with the labels, then the RBF network's, then the "
    "dictionary's",
    CONTRADICTED: "The three representations do not align with the labels in the printed order",
    ABSENT: "Two of the three representations align equally well with the labels",
    UNDECIDED: "It is undecided whether the three representations align in the printed order",
}


def finding(table, parameters, claims):
    """Whether alignment and errors have the printed order, with the first area and the last."""
    found, outcome = areas(table), claims["alignment"].outcome
    if found.empty:
        return "The three representations are not among the results."
    if outcome not in ALIGN:
        return (
            "The orders are not judged: in the paper a linear model can fit the labels on all three "
            f"representations; here least squares leaves up to {100 * unfitted(table, parameters):.1g} %."
        )
    mean = found[list(NAMES)].mean()
    said = f"{ALIGN[outcome]} (areas from {mean.max():.2f} down to {mean.min():.2f})."
    both = {claims["training"].outcome, claims["test"].outcome}
    if both == {HOLDS}:
        said += " Linear models learn and generalise in the printed order."
    elif CONTRADICTED in both:
        said += " Linear models do not learn and generalise in the printed order."
    points = at(table, kind="area")["points"].min()
    if parameters["dataset"] == "ct_slices" and points < PRINTED_POINTS:
        said += f" {points:.0f} training rows of two patients stand in for {PRINTED_POINTS:,}."
    return said


def key_numbers(table, parameters):
    """Areas, errors, and where the curves start."""
    found = areas(table)
    if found.empty:
        return []
    labels, after = ", ".join(NAMES.values()), errors(table, early(parameters), "test_error")
    return [
        KeyNumber(f"area: {labels}", ", ".join(f"{found[name].mean():.2f}" for name in NAMES)),
        KeyNumber(
            f"test error after {early(parameters)} steps, of the labels' mean square: {labels}",
            ", ".join(f"{after[name].mean():.1%}" for name in NAMES),
        ),
        KeyNumber(
            f"squared length of the labels, per {PRINTED_POINTS} points",
            interval(PRINTED_POINTS * squares(table), "{:.0f}", (0, PRINTED_POINTS)), f"{PRINTED_START:.0f}",
        ),
    ]  # fmt: skip


def higher_at(table, name):
    """Share of the thresholds at which a representation's curve lies above the next one's in ``NAMES``."""
    order = list(NAMES)
    place = order.index(name) + 1
    if place == len(order):
        return pd.Series(dtype=float)
    return share_above(alignment(table, name), alignment(table, order[place]))
