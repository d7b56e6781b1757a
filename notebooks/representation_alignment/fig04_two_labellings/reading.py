"""How two labellings align with the same points, and how fast each is learned (Figures 3 and 4)."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference, sample
from alignbook.statements import Case, Statement
from alignbook.wording import joined, opening

from .design import LABELLINGS, PRINTED, PRINTED_POINTS, SEPARATING, circle

# Of two printed decimals; in three digits, as the margin is shown.
ROUNDING = float(f"{sum(2 * sigma * 0.005 for sigma in PRINTED) / PRINTED_POINTS:.3g}")


def rows_of(table, parameters, labelling):
    """The rows of one of ``LABELLINGS`` at the figure's number of points, one per seed."""
    return at(table, points=parameters["points"], labelling=labelling)


def along(table, parameters, labelling, *singular):
    """Share of the labels along these of the singular vectors 1 and 2 by seed, a sample."""
    rows = rows_of(table, parameters, labelling)
    return sum(sample(rows, f"along{n}") for n in singular)


def between(table, parameters, *singular):
    """By seed: how much more of the first labelling than of the second lies along these singular vectors."""
    return difference(*(along(table, parameters, name, *singular) for name in LABELLINGS))


def steps(table, parameters):
    """Steps that each labelling takes, two samples."""
    return [sample(rows_of(table, parameters, name), "steps") for name in LABELLINGS]


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


SHARE = {
    "matters": 0.05, "unit": "of ‖y‖²",
    "because": "a twentieth of the labels' squared length is about what one can see in Figure 3's curves",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "higher",
        "At thresholds between the two singular values, the labelling along the first singular vector aligns "
        "more.",
        source="Figure 4, Section 4.1", of=lambda t, p: between(t, p, 1), above=0, headline=True, **SHARE,
    ),
    Statement(
        "first", "The first labelling lies mostly along the first singular vector.",
        source="Figure 4, Section 4.1", of=lambda t, p: along(t, p, "first", 1), above=0.5, bounds=(0, 1),
        **SHARE,
    ),
    Statement(
        "second", "The second labelling lies mostly along the second singular vector.",
        source="Figure 4, Section 4.1", of=lambda t, p: along(t, p, "second", 2), above=0.5, bounds=(0, 1),
        **SHARE,
    ),
    Statement(
        "faster", "Gradient descent learns the better aligned labelling in fewer steps.",
        source="Sections 4 and 6.1", of=lambda t, p: difference(*steps(t, p)[::-1]), above=0, matters=1.0,
        unit="steps", because="steps are whole numbers",
    ),
    Statement(
        "below", "At thresholds below the second singular value, too, the first labelling aligns more.",
        source="Figure 3", of=lambda t, p: between(t, p, 1, 2), above=0, ours=True, **SHARE,
    ),
    Statement(
        "separable", "A line through the origin separates the two classes without error.",
        source="Section 4.1", of=missed, exactly=0.0, within=0.0, unit="of the points, worst draw",
        each=lambda p: [Case(name, f"{name} labelling", {"labelling": name}) for name in LABELLINGS],
    ),
    Statement(
        "trace",
        f"The printed singular values are those of {PRINTED_POINTS} points of length one.",
        source="Section 4.1", of=lambda t, p: mean_square(PRINTED) if len(at(t, labelling="first")) else None,
        exactly=1.0, within=ROUNDING, unit="mean squared length",
        opposed_by="the squares of its printed singular values sum to "
        f"{PRINTED_POINTS * mean_square(PRINTED):.1f}; those of {PRINTED_POINTS} points of length one sum to "
        f"{PRINTED_POINTS}",
    ),
]  # fmt: skip

LEARNED = {
    HOLDS: "They are learned faster",
    CONTRADICTED: "They are learned more slowly",
    ABSENT: "They are learned equally fast",
    UNDECIDED: "It is undecided which are learned faster",
    NOT_JUDGED: "We do not judge which are learned faster",
}
TRACE = f" The printed singular values cannot be those of {PRINTED_POINTS} points of length one."


def finding(table, parameters, claims):
    """Which labelling aligns more and is learned faster, with the steps; words follow the verdicts."""
    said = opening(
        claims["higher"], "Labels along the first singular vector align more than labels along the second",
        contradicted="Labels along the first singular vector align less than labels along the second",
        absent="Labels along the first and the second singular vector align equally well",
    )  # fmt: skip
    learned = LEARNED.get(claims["faster"].outcome)
    if said is None or learned is None:
        return "The two labellings are not both among the results."
    first, second = (found.mean() for found in steps(table, parameters))
    trace = TRACE * (claims["trace"].outcome == CONTRADICTED)
    return f"{joined(said, learned)}: {first:.0f} steps of gradient descent against {second:.0f}.{trace}"


def key_numbers(table, parameters):
    """Singular values, and the share of the first labelling along the first singular vector."""
    first, second = (rows_of(table, parameters, name) for name in LABELLINGS)
    if first.empty or second.empty:
        return []
    return [
        *(
            KeyNumber(f"{words} singular value of the points", interval(sample(first, name)), f"{sigma:g}")
            for words, name, sigma in zip(("first", "second"), ("sigma1", "sigma2"), PRINTED, strict=True)
        ),
        KeyNumber(
            "share of the first labelling along the first singular vector (%)",
            f"{100 * sample(first, 'along1').mean():.1f}",
        ),
    ]
