"""How two labellings align with the same points, and how fast each is learned (Figures 3 and 4)."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference, sample
from alignbook.statements import Case, Statement

from .design import LABELLINGS, PRINTED, PRINTED_POINTS, SEPARATING, circle

SHARE = "a twentieth of the labels' squared length is what Figure 3's drawn curves can tell apart"
ROUNDING = sum(2 * sigma * 0.005 for sigma in PRINTED) / PRINTED_POINTS  # of two printed decimals


def rows_of(table, parameters, labelling):
    """The rows of one of ``LABELLINGS`` at the figure's number of points, one per seed."""
    return at(table, points=parameters["points"], labelling=labelling)


def of(table, parameters, labelling, column):
    """``column`` of a labelling by seed, a sample."""
    return sample(rows_of(table, parameters, labelling), column)


def between(table, parameters):
    """By seed: alignment of the first less the second labelling at thresholds between σ_2 and σ_1."""
    return difference(*(of(table, parameters, name, "along1") for name in LABELLINGS))


def below(table, parameters):
    """By seed: the same at thresholds from 0 to σ_2, where both singular vectors count."""
    reached = [
        of(table, parameters, name, "along1") + of(table, parameters, name, "along2") for name in LABELLINGS
    ]
    return difference(*reached)


def fewer(table, parameters):
    """By seed: how many steps fewer the first labelling takes."""
    first, second = (of(table, parameters, name, "steps") for name in LABELLINGS)
    return difference(second, first)


def missed(table, parameters, labelling):
    """Share of points beyond the line that separates the classes, of the worst draw; None without runs."""
    shares = []
    for seed in rows_of(table, parameters, labelling)["seed"]:
        phi, labels = circle(parameters["points"], parameters["spread"], int(seed))
        shares.append(float((labels[labelling] * (phi @ SEPARATING[labelling]) <= 0).mean()))
    return max(shares, default=None)


def mean_square(sigmas):
    """Mean squared length of ``PRINTED_POINTS`` points that have these singular values."""
    return sum(sigma**2 for sigma in sigmas) / PRINTED_POINTS


STATEMENTS = [
    Statement(
        "higher",
        "Between the two singular values the labelling along the first singular vector aligns more.",
        source="Figure 4, Section 4.1", of=between, above=0, matters=0.05, unit="of ‖y‖²", because=SHARE,
        headline=True,
    ),
    Statement(
        "first", "The first labelling lies mostly along the first singular vector.",
        source="Figure 4, Section 4.1", of=lambda t, p: of(t, p, "first", "along1"),
        above=0.5, matters=0.05, unit="of ‖y‖²", because=SHARE, bounds=(0, 1),
    ),
    Statement(
        "second", "The second labelling lies mostly along the second singular vector.",
        source="Figure 4, Section 4.1", of=lambda t, p: of(t, p, "second", "along2"),
        above=0.5, matters=0.05, unit="of ‖y‖²", because=SHARE, bounds=(0, 1),
    ),
    Statement(
        "faster", "Gradient descent learns the better aligned labelling in fewer steps.",
        source="Sections 4 and 6.1", of=fewer, above=0, matters=1.0, unit="steps",
        because="steps are whole numbers",
    ),
    Statement(
        "below", "At thresholds below the second singular value, too, the first labelling aligns more.",
        source="Figure 3", of=below, above=0, matters=0.05, unit="of ‖y‖²", because=SHARE, ours=True,
    ),
    Statement(
        "separable", "A line through the origin separates the two classes without an error.",
        source="Section 4.1", of=missed, exactly=0.0, within=0.0, unit="of the points, worst draw",
        each=lambda p: [Case(name, f"{name} labelling", {"labelling": name}) for name in LABELLINGS],
    ),
    Statement(
        "trace",
        f"The printed singular values are those of {PRINTED_POINTS} points of length one.",
        source="Section 4.1", of=lambda t, p: mean_square(PRINTED) if len(at(t, labelling="first")) else None,
        exactly=1.0, within=ROUNDING, unit="mean squared length",
        opposed_by=f"squares of the singular values of {PRINTED_POINTS} points of length one sum to "
        f"{PRINTED_POINTS}, those of the printed ones to {PRINTED_POINTS * mean_square(PRINTED):.1f}",
    ),
]  # fmt: skip

ALIGN = {
    HOLDS: "Labels along the first singular vector align more",
    CONTRADICTED: "Labels along the first singular vector align less",
    ABSENT: "Both labellings align equally well",
    UNDECIDED: "It is undecided which labelling aligns more",
}
LEARNED = {
    HOLDS: "and are learned faster",
    CONTRADICTED: "and are learned more slowly",
    ABSENT: "and are learned equally fast",
    UNDECIDED: "and it is undecided which is learned faster",
}


def finding(table, parameters, claims):
    """Which labelling aligns more and is learned faster, with the steps; words follow the verdicts."""
    first, second = (of(table, parameters, name, "steps") for name in LABELLINGS)
    align, learned = claims["higher"].outcome, claims["faster"].outcome
    if align not in ALIGN or learned not in LEARNED or first.empty or second.empty:
        return "The two labellings are not both among the results."
    said = (
        f"{ALIGN[align]} {LEARNED[learned]}: the first labelling takes {first.mean():.0f} steps of gradient "
        f"descent, the second {second.mean():.0f}."
    )
    if claims["trace"].outcome == CONTRADICTED:
        said += f" The printed singular values cannot be those of {PRINTED_POINTS:,} points of length one."
    return said


def key_numbers(table, parameters):
    """Singular values, the share of the second labelling along the first singular vector, and the steps."""
    first, second = (rows_of(table, parameters, name) for name in LABELLINGS)
    if first.empty or second.empty:
        return []
    steps = [interval(sample(rows, "steps"), "{:.0f}") for rows in (first, second)]
    return [
        KeyNumber(
            "two singular values of the points",
            ", ".join(interval(sample(first, name)) for name in ("sigma1", "sigma2")),
            ", ".join(f"{sigma:g}" for sigma in PRINTED),
        ),
        KeyNumber(
            "share of the first / second labelling along the first singular vector",
            " / ".join(f"{sample(rows, 'along1').mean():.1%}" for rows in (first, second)),
        ),
        KeyNumber("steps to learn the first / second labelling", " / ".join(steps)),
    ]
