"""How two labellings align with the same points, and how fast each is learned: measures, then statements."""

from companion.over_seeds import at, difference, sample
from companion.statements import Number, Statement, among

from .design import LABELLINGS, PRINTED, PRINTED_POINTS

# Of two printed decimals; in three digits, as the margin is shown.
ROUNDING = float(f"{sum(2 * sigma * 0.005 for sigma in PRINTED) / PRINTED_POINTS:.3g}")


def of(table, parameters, labelling, column):
    """``column`` of one labelling at the figure's number of points, a sample over seeds."""
    return sample(at(table, points=parameters["points"], labelling=labelling), column)


def along(table, parameters, labelling, *singular):
    """Share of the labels along these of the singular vectors 1 and 2, a sample."""
    return sum(of(table, parameters, labelling, f"along{n}") for n in singular)


def along_own(table, parameters, labelling):
    """Share of a labelling along the singular vector that it follows, a sample."""
    return along(table, parameters, labelling, 1 + LABELLINGS.index(labelling))


def contrast(table, parameters, *singular):
    """How much more of the first labelling than of the second lies along these singular vectors."""
    return difference(*(along(table, parameters, name, *singular) for name in LABELLINGS))


def steps_saved(table, parameters):
    """Steps of gradient descent that the second labelling takes beyond the first."""
    return difference(*(of(table, parameters, name, "steps") for name in reversed(LABELLINGS)))


def printed_square(table, parameters):
    """Mean squared length of ``PRINTED_POINTS`` points with the printed singular values; None of no runs."""
    return sum(sigma**2 for sigma in PRINTED) / PRINTED_POINTS if len(at(table, labelling="first")) else None


each_labelling = among("labelling", {name: f"{name} labelling" for name in LABELLINGS})


SHARE = {"matters": 0.05, "unit": "of ‖y‖²", "because": "a twentieth is about what one can see in Figure 3"}
STATEMENTS = [
    Statement(
        "higher", "Between the two singular values, the labelling along v_1 aligns more.",
        source="Figures 3 and 4, Section 4.1", of=lambda t, p: contrast(t, p, 1), above=0, headline=True,
        **SHARE,
    ),
    Statement(
        "faster", "Gradient descent learns the better aligned labelling in fewer steps.",
        source="Sections 4 and 6.1", of=steps_saved, above=0, matters=1.0, unit="steps",
        because="steps are whole numbers",
    ),
    Statement(
        "trace", f"The printed singular values are those of {PRINTED_POINTS} points of length one.",
        source="Section 4.1", of=printed_square, exactly=1.0, within=ROUNDING, unit="mean squared length",
    ),
]  # fmt: skip
NUMBERS = [
    Number("along", "share of the labels along their own singular vector", along_own, each=each_labelling),
    Number("steps-first", "steps to learn the first labelling", lambda t, p: of(t, p, "first", "steps")),
    Number("steps-second", "steps to learn the second labelling", lambda t, p: of(t, p, "second", "steps")),
]
