"""What each start gains over training from scratch (Figure 5): measures, then statements."""

from companion.over_seeds import across, difference, once
from companion.statements import Number, Statement

from ..shared.gains import above, mean_accuracy
from .design import COVARIANCE, DIAGONAL, FILTERS, ROTATED, SCRATCH, STARTS


@once
def gains(table):
    """(seeds × starts) frame of the gain over training from scratch: mean accuracy over training, points."""
    return above(across(table, "start", STARTS, mean_accuracy), SCRATCH)


def gain(one, other=SCRATCH):
    """Reading: gain of a start over another, points, by seed."""

    def points(table, parameters):
        found = gains(table)
        return difference(found[one], found[other]) if len(found) else None

    return points


POINTS = {
    "above": 0, "matters": 0.5, "unit": "points",
    "because": "half a point is about a quarter of what pre-trained filters gain in Figure 5",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "aligned", "Filters drawn from the learned covariance gain more than filters with the same spectrum "
        "in a random basis.", source="Section 2.4, Figure 5; the control is ours",
        of=gain(COVARIANCE, ROTATED), headline=True, **POINTS,
    ),
    Statement(
        "gains", "Filters drawn from the learned covariance train faster than a fresh start.",
        source="Section 2.4, Figure 5", of=gain(COVARIANCE), **POINTS,
    ),
    Statement(
        "recovers", "They gain as much as the pre-trained filters themselves.",
        source="Section 2.4, Figure 5", of=gain(COVARIANCE, FILTERS), near=0, within=1.0, unit="points",
        because="one point is the width of a line in the paper's panels",
    ),
    Statement(
        "transfer", "The data's basis and the transfer function alone, V f² Vᵀ, gain as much as the whole "
        "covariance.", source="Section 2.4: “fully described by” them",
        of=gain(DIAGONAL, COVARIANCE), near=0, within=1.0, unit="points",
        because="one point is the width of a line in the paper's panels",
    ),
    Statement(
        "spectrum", "The spectrum in a random basis gains something, too.", source="ours", ours=True,
        of=gain(ROTATED), **POINTS,
    ),
]  # fmt: skip
NUMBERS = [
    Number("filters", "gain of the pre-trained filters", gain(FILTERS), unit="points"),
    Number("diagonal", "gain of V f² Vᵀ", gain(DIAGONAL), unit="points"),
]
