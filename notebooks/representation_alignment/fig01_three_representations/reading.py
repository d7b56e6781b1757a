"""How three representations align, and how fast linear models learn on them (Figures 1 and 5)."""

import math

from companion.over_seeds import at, curves, difference, weakest
from companion.statements import Case, Number, Statement

from ..shared import step_sizes
from ..shared.curve_order import LARGER
from .design import OTHER

FITTED = 1e-10  # of the labels' mean square: what least squares may leave of labels that it fits
PRINTED_POINTS = 1000  # Section 3
PRINTED_TAU = 8.0  # "about 8": where most of the ReLU network's alignment is still there (Section 4.2)
PRINTED_SHARE = PRINTED_TAU / math.sqrt(PRINTED_POINTS)  # the same over √n


def areas(table):
    """(seeds × representations) frame of areas under the alignment curves; empty where there are none."""
    return curves(at(table, kind="area"), "representation", "area")


def alignment(table, representation):
    """(seeds × thresholds over √n) frame of a representation's alignment over ‖y‖²."""
    return curves(at(table, kind="curve", representation=representation), "threshold", "alignment")


def squares(table):
    """The labels' mean square by seed."""
    return at(table, kind="area").groupby("seed")["square"].first()


def at_best(table):
    """The rows of kind ``step`` at each representation's best step size."""
    steps = at(table, kind="step")
    return step_sizes.at_best(steps, step_sizes.best(steps, ["representation"]))


def errors(table, parameters, column, early=True):
    """(seeds × representations) frame of ``train_error`` or ``test_error`` over the labels' mean square.

    early : after ``early`` steps, otherwise after the last
    """
    rows = at_best(table)
    step = min(parameters["early"], parameters["iterations"]) if early else rows["step"].max()
    return curves(at(rows, step=step), "representation", column).div(squares(table), axis=0)


def ahead(frame, rbf):
    """How much the ReLU network lies above the larger of the others, by seed."""
    return difference(frame["relu"], frame[[rbf, "dictionary"]].max(axis=1, skipna=False))


def at_both(table, of):
    """The sample ``of(areas, rbf)`` at the bandwidth that shows it least."""
    found = areas(table)
    return weakest(*(of(found, rbf) for rbf in ("rbf", OTHER))) if len(found) else None


def kept(table, parameters):
    """Alignment of the ReLU network over ‖y‖² at the stored threshold next to the printed one, by seed."""
    found = alignment(table, "relu")
    return found[min(found, key=lambda stored: abs(stored - PRINTED_SHARE))] if len(found) else None


def unfitted(table, parameters):
    """What least squares leaves of the labels' mean square, in the worst run and representation."""
    return at(table, kind="area")["unfitted"].max() if len(at(table, kind="area")) else None


def bandwidths(parameters):
    """Cases: the two bandwidths of the RBF network, which the paper does not give."""
    named = {"rbf": parameters["bandwidth"], OTHER: parameters["other_bandwidth"]}
    return [Case(name, f"RBF network of bandwidth {value:g}", {"rbf": name}) for name, value in named.items()]


ERROR = {
    "above": 0, "matters": 0.01, "unit": "of the labels' mean square",
    "because": "a hundredth of the labels' mean square",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "faster", "Linear models train fastest on the ReLU network's features: training error early on.",
        source="Figure 1, Section 3", headline=True, each=bandwidths, **ERROR,
        of=lambda t, p, rbf: ahead(-errors(t, p, "train_error"), rbf),
    ),
    Statement(
        "first", "The ReLU network's features align better than the other two representations.",
        source="Figure 5, Section 4.2", of=lambda t, p: at_both(t, ahead), **LARGER,
    ),
    Statement(
        "second", "The RBF network's features align better than the dictionary's.",
        source="Figure 5, Section 4.2", **LARGER,
        of=lambda t, p: at_both(t, lambda found, rbf: difference(found[rbf], found["dictionary"])),
    ),
    Statement(
        "most",
        f"At τ/√n of about {PRINTED_SHARE:.2f}, a threshold of about {PRINTED_TAU:g} for the paper's "
        f"{PRINTED_POINTS} points, the ReLU network keeps most of its alignment.",
        source="Figure 5, Section 4.2", of=kept, above=0.5, matters=0.05, unit="of ‖y‖²", bounds=(0, 1),
        because="a twentieth of the labels: less would not change what “most” means",
    ),
    Statement(
        "fits", "A linear model can fit the labels on every representation: what least squares leaves.",
        source="Section 3", of=unfitted, exactly=0.0, within=FITTED,
        unit="of the labels' mean square, worst run",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "area", "area under the alignment curve", lambda t, p, name: areas(t).get(name), bounds=(0, 1),
        each=lambda p: [Case(name, "", {"name": name}) for name in ("relu", "rbf", OTHER, "dictionary")],
    ),
    Number(
        "error", "training error early on", lambda t, p, name: errors(t, p, "train_error").get(name),
        each=lambda p: [Case(name, "", {"name": name}) for name in ("relu", "rbf", OTHER, "dictionary")],
    ),
]  # fmt: skip
