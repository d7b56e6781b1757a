"""Whether tangent features evolve as Appendix D derives, and layers' alignment with them. No torch."""

import math

import numpy as np
import pandas as pd

from companion import over_seeds
from companion.over_seeds import at, difference, first, last, means
from companion.statements import Case, Number, Statement, among, least, pooled

KINDS = {"random": "Gaussian u", "shuffled": "u of shuffled labels"}
LEVEL = 0.15  # log2 within which a quantity "stays constant": a tenth; fixed before any result was seen
PARTS = {"first": (0, 1), "later": (20, math.inf)}  # steps of the epoch


def rates(parameters):
    """The steps' rates η, the training's first."""
    return sorted((parameters["learning_rate"] / factor for factor in parameters["shorter"]), reverse=True)


def near(rows, rate):
    """The rows of one rate, which is a float."""
    return rows[np.isclose(rows["rate"], rate, rtol=1e-6)] if len(rows) else rows


def layers(table, rate):
    """The rows ``layer`` of a rate, with relative growths per unit of the rate."""
    rows = near(at(table, kind="layer"), rate)
    known = [name for name in ("growth", "numerator", "by_23", "by_25") if name in rows]
    return rows.assign(**{name: rows[name] / rate for name in known})


def profile(table, rate):
    """Median over networks of each growth, by step and layer: the noise of single networks averages out."""
    rows = layers(table, rate)
    known = [name for name in ("growth", "numerator", "by_23", "by_25") if name in rows]
    return rows.groupby(["step", "layer"], as_index=False)[known].median() if known else pd.DataFrame()


def excess(table, parameters, low, high):
    """Growth of alignment by (25) less the measured one in very short steps, medians, by seed."""
    rows = layers(table, rates(parameters)[-1])
    if "growth" not in rows:
        return None
    rows = rows[rows["step"].between(low, high)]
    return difference(medians(rows, "by_25"), medians(rows, "growth"))


def moved(table, parameters, kind, rate):
    """‖ΔΨu‖ over ‖ΔΨỸ‖, mean over the steps, by seed."""
    return means(near(at(table, kind="step"), rate), f"moved_{kind}")


def state(table, column):
    """(seeds × epochs) frame of log2 of vᵀKv over its first value."""
    frame = np.log2(over_seeds.curves(at(table, kind="state"), "epoch", column))
    return frame.sub(frame.iloc[:, 0], axis=0) if frame.shape[1] else frame


def grown(table, column):
    """log2 of vᵀKv at the end of the epoch over its value before training, by seed."""
    frame = state(table, column)
    return difference(last(frame), first(frame))


def gain(table, parameters, sign):
    """(new - old) / (2η old) of ΨỸ's square on the eigenvectors of one sign, median very short step, by seed.

    If (23) holds this is the mean of -λ, weighted by that square. In a mean over steps the few in which a
    ReLU switched outweigh all others.
    """
    rate = rates(parameters)[-1]
    rows = near(at(table, kind="pair", sign=sign), rate)
    if not {"old", "new"} <= set(rows):
        return pd.Series(dtype=float)
    rows = rows[rows["old"] > 0]
    return medians(rows.assign(gain=(rows["new"] / rows["old"] - 1) / (2 * rate)), "gain")


def medians(rows, column):
    """Median of ``column`` over the rows of each seed."""
    return rows.groupby("seed")[column].median() if column in rows else pd.Series(dtype=float)


def parts(parameters):
    return [
        Case("first", "steps 0 and 1", dict(zip(("low", "high"), PARTS["first"], strict=True))),
        Case("later", "from step 20 on", dict(zip(("low", "high"), PARTS["later"], strict=True))),
    ]


def directions(parameters):
    """A case for each kind of u, at the shortest step and at the training's rate."""
    long, *_, short = rates(parameters)
    return [Case("", "", {"kind": kind, "rate": rate}) for kind in KINDS for rate in (short, long)]


SIGNS = [Case("", "", {"sign": sign}) for sign in (-1, 1)]
STATEMENTS = [
    Statement(
        "size",
        "Equation 25 gives the growth of alignment in a very short step (predicted less measured, per rate).",
        source="Appendix D.3, Equation 25", each=parts, of=excess, near=0.0, within=0.3, headline=True,
        post_hoc="replaces rank correlations of single networks, in which the errors of the traces were as "
        "large as the signal",
    ),
    Statement(
        "others", "For u orthogonal to Ỹ, Ψu does not change (length of its change over that of ΨỸ's, mean "
        "over kinds of u and rates).",
        source="Equation 24", of=pooled(moved, directions), near=0.0, within=0.1, bounds=(0, math.inf),
    ),
    Statement(
        "stays", "For u orthogonal to Ỹ, uᵀKu stays constant over the first epoch (doublings, mean over "
        "kinds of u).",
        source="Appendix D.2", of=pooled(lambda t, p, kind: grown(t, kind), among("kind", KINDS)),
        near=0.0, within=LEVEL,
    ),
    Statement(
        "signs", "In a very short step ΨỸ grows along H_w's large negative eigenvalues and shrinks along the "
        "positive ones: the sign that shows it less.",
        source="Appendix B.4, end, Equation 10", above=0.0, matters=0.1, unit="in units of an eigenvalue",
        of=least(lambda t, p, sign: -sign * gain(t, p, sign), lambda p: SIGNS),
        because="a twentieth of the smallest in Figure 5, 2",
    ),
]  # fmt: skip


def typical(column, part):
    """A reading: the median of a growth in very short steps of one of ``PARTS``, by seed."""

    def of(table, parameters):
        rows = layers(table, rates(parameters)[-1])
        return medians(rows[rows["step"].between(*PARTS[part])], column) if len(rows) else None

    return of


NUMBERS = [
    Number("measured-first", "growth of alignment per unit of rate", typical("growth", "first")),
    Number("measured-later", "the same from step 20 on", typical("growth", "later")),
    Number("predicted-first", "the same by Equation 25", typical("by_25", "first")),
]
