"""Whether tangent features evolve as Appendix D derives, and layers' alignment with them. No torch."""

import math

import numpy as np
import pandas as pd

from alignbook import over_seeds
from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference, first, last, means, rank_correlation
from alignbook.statements import Case, Statement

KINDS = {"random": "Gaussian u", "shuffled": "u of shuffled labels"}
LEVEL = 0.15  # log2 within which a quantity "stays constant": a tenth; fixed before any result was seen
DRAWS = 50  # of the traces' errors


def rates(parameters):
    """The steps' rates η, the training's first."""
    return sorted((parameters["learning_rate"] / factor for factor in parameters["shorter"]), reverse=True)


def near(rows, rate):
    """The rows of one rate, which is a float."""
    return rows[np.isclose(rows["rate"], rate, rtol=1e-6)] if len(rows) else rows


def layers(table, rate, step=None):
    """The rows ``layer`` of a rate, of all steps or one; with measured, ΔA_l, and factor, A_l by_25."""
    rows = near(at(table, kind="layer") if step is None else at(table, kind="layer", step=step), rate)
    if not {"alignment", "growth", "by_25"} <= set(rows):
        return rows
    return rows.assign(measured=rows["alignment"] * rows["growth"], factor=rows["alignment"] * rows["by_25"])


def ranks(table, rate, one="factor", other="measured"):
    """Rank correlation over the layers of two columns, mean over the steps, by seed."""
    found = []
    for step in sorted(at(table, kind="layer")["step"].unique()) if "step" in table else []:
        rows = layers(table, rate, step)
        found.append(rank_correlation(*(over_seeds.curves(rows, "layer", name) for name in (one, other))))
    return pd.concat(found, axis=1).mean(axis=1) if found else pd.Series(dtype=float)


def shrunk(rows):
    """``rows`` with true, the ratio of traces without the share of its mean square that its errors make up.

    At each step of the training, over its layers and networks. 0 where the errors make up all.
    """
    squares = rows.assign(square=rows["third"] ** 2, error=rows["unsure"] ** 2)
    squares = squares.groupby("step")[["square", "error"]].transform("mean")
    share = (squares["error"] / squares["square"]).clip(upper=1)
    return rows.assign(true=rows["third"] * np.sqrt(1 - share))


def if_exact(table, rate):
    """What :func:`ranks` would read if (25) were exact, mean over networks; NaN of none."""
    found = exact_ranks(table, rate)
    return float(found.mean()) if len(found) else math.nan


def exact_ranks(table, rate):
    """The same by seed: 1 less what the errors of (25)'s traces spoil. Mean over steps and draws.

    In the worst case, in which these errors are independent between layers: drawn anew by their standard
    errors about the ratios that :func:`shrunk` leaves.
    """
    rows = layers(table, rate).dropna(subset=["third", "unsure", "alignment"])
    rows = shrunk(rows)
    network, rng = [rows["seed"], rows["step"]], np.random.default_rng(0)

    def ranked(values):
        ranks = values.groupby(network).rank()
        return ranks - ranks.groupby(network).transform("mean")

    def sums(values):
        return values.groupby(network).sum()

    exact, found = ranked(rows["alignment"] * rows["true"]), []
    for _ in range(DRAWS):
        drawn = rows["true"] + rows["unsure"] * rng.standard_normal(len(rows))
        read = ranked(rows["alignment"] * drawn)
        found.append(sums(exact * read) / np.sqrt(sums(exact**2) * sums(read**2)))
    mean = sum(found) / DRAWS
    return mean.groupby(level="seed").mean() if len(rows) else pd.Series(dtype=float)


def beside_exact(table, parameters, rate):
    """Rank correlation of (25), with its factor A_l, over what it would be if (25) were exact, by seed.

    Their mean is the ratio R of the two means. A seed's value is R + (r - R e) / mean(e), of its own r and e,
    so that the spread over seeds has the error of the divisor, too (to first order in both errors).
    """
    found = ranks(table, rate)
    if not len(found):
        return found
    exact = exact_ranks(table, rate).reindex(found.index)
    ratio = found.mean() / exact.mean()
    return ratio + (found - ratio * exact) / exact.mean()


def outgrown(table, kind):
    """By how many doublings more than uᵀKu ỸᵀKỸ grows over the first epoch, by seed."""
    return difference(grown(table, "label"), grown(table, kind))


def moved(table, kind, rate):
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


def gain(table, rate, sign):
    """(new - old) / (2η old) of ΨỸ's square on the eigenvectors of one sign, mean over the steps, by seed.

    If (23) holds this is the mean of -λ, weighted by that square.
    """
    return means(growths(table, rate, sign), "gain")


def growths(table, rate, sign):
    """The rows ``pair`` of one rate and sign with ``gain``, (new - old) / (2η old)."""
    rows = near(at(table, kind="pair", sign=sign), rate)
    if not {"old", "new"} <= set(rows):
        return rows
    rows = rows[rows["old"] > 0]
    return rows.assign(gain=(rows["new"] / rows["old"] - 1) / (2 * rate))


def typical_gain(sign):
    """A reading: the median over the steps of :func:`growths` at the shortest rate, by seed."""
    return lambda t, p: medians(growths(t, rates(p)[-1], sign), "gain")


def typical_size(column):
    """A reading: log10 of the median size of a predicted over that of the measured ΔA_l, shortest rate."""

    def reading(table, parameters):
        rows = layers(table, rates(parameters)[-1])
        sizes = [medians(rows.assign(size=rows[name].abs()), "size") for name in (column, "measured")]
        return difference(*map(np.log10, sizes))

    return reading


def medians(rows, column):
    """Median of ``column`` over the rows of each seed."""
    return rows.groupby("seed")[column].median() if column in rows else pd.Series(dtype=float)


def noise(rows, weight=1.0):
    """log10 of the factor by which errors of the traces inflate a root mean square of (25)'s part in η.

    One number for all networks: within one of them, the errors' mean square may exceed the whole.
    weight : of each row, by which its ratio of traces is multiplied
    """
    errors, whole = (((weight * rows[name]) ** 2).mean() for name in ("unsure", "third"))
    return -np.log10(1 - errors / whole) / 2 if errors < whole else math.nan


def size(table, rate, column):
    """log10 of predicted over measured ΔA_l (root mean squares over layers and steps), by seed.

    Without what the errors of the traces add to the predicted one.
    """
    rows = layers(table, rate)
    squares = [means(rows.assign(square=rows[name] ** 2), "square") for name in (column, "measured")]
    weight = rows["alignment"] if column == "factor" else 1.0
    return difference(*(np.log10(values) / 2 for values in squares)) - noise(rows, weight)


def third_part(table, parameters):
    """log10 of (25)'s part in η² over its part in η (root mean squares) at the training's rate, by seed.

    Without what errors add to the part in η; those of the part in η², which are not stored, make it larger.
    """
    rate = rates(parameters)[0]
    rows = layers(table, rate)
    linear = 2 * rate * rows["third"]
    squares = [means(rows.assign(square=part**2), "square") for part in (rows["by_25"] + linear, linear)]
    return difference(*(np.log10(values) / 2 for values in squares)) + noise(rows)


def steps(parameters):
    """A case for the shortest step, where first order can hold, and one for the training's rate."""
    long, short = rates(parameters)[0], rates(parameters)[-1]
    return [
        Case("short", f"steps of rate {short:.1g}", {"rate": short}),
        Case("rate", f"steps of the training's rate, {long:g}", {"rate": long}),
    ]


def directions(parameters):
    """Those cases for each kind of u."""
    return [
        Case(f"{kind}-{case.id}", f"{words}, {case.words}", {"kind": kind, **case.given})
        for kind, words in KINDS.items()
        for case in steps(parameters)
    ]


SIGNED = {
    "matters": 0.1,
    "unit": "in units of an eigenvalue",
    "because": "a twentieth of the smallest in Figure 5, 2",
}
SIZE = {"near": 0.0, "within": 0.3, "unit": "factors of ten"}
TYPICAL = {
    "seen": 3, "post_hoc": "the few very short steps in which a ReLU switched dominate every mean over steps",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "hierarchy", "Layers gain alignment in the order of (25), with its factor A_l (rank correlation over "
        "what it would be if (25) were exact).",
        source="Appendix D.3, Equation 25; the order is ours", each=steps, of=beside_exact, above=0.0,
        matters=0.3, because="a smaller one explains less than a tenth of the variance of ranks",
        bounds=(-1, 1), ours=True, headline=True,
    ),
    Statement(
        "others", "For u orthogonal to Ỹ, Ψu does not change (length of its change over that of ΨỸ's).",
        source="Equation 24", each=directions, of=lambda t, p, kind, rate: moved(t, kind, rate), near=0.0,
        within=0.1, bounds=(0, math.inf),
    ),
    Statement(
        "rises", "ỸᵀKỸ rises over the first epoch (doublings).", source="Appendix D.2",
        of=lambda t, p: grown(t, "label"), above=0.0, matters=LEVEL, because="growth by a tenth",
    ),
    Statement(
        "stays", "For u orthogonal to Ỹ, uᵀKu stays constant over the first epoch (doublings).",
        source="Appendix D.2", of=lambda t, p, kind: grown(t, kind),
        each=lambda p: [Case(kind, words, {"kind": kind}) for kind, words in KINDS.items()],
        near=0.0, within=LEVEL,
    ),
    Statement(
        "negative", "A step lengthens ΨỸ along H_w's eigenvectors of large negative eigenvalue.",
        source="Appendix B.4, end", each=steps, of=lambda t, p, rate: gain(t, rate, -1), above=0.0, **SIGNED,
    ),
    Statement(
        "positive", "A step shortens ΨỸ along H_w's eigenvectors of large positive eigenvalue.",
        source="Equation 10", each=steps, of=lambda t, p, rate: gain(t, rate, 1), below=0.0, **SIGNED,
    ),
    Statement(
        "printed-size", "The last line of (25) as printed gives the size of A_l's change (log10 of ratio).",
        source="Equation 25, last line", each=steps, of=lambda t, p, rate: size(t, rate, "by_25"), **SIZE,
    ),
    Statement(
        "factor-size", "With the factor A_l, this line gives the size of A_l's change (log10 of the ratio).",
        source="Equation 25, the line before; our correction", each=steps,
        of=lambda t, p, rate: size(t, rate, "factor"), ours=True, **SIZE,
    ),
    Statement(
        "third-part", "The part of (25) in η² is smaller than the part in η, a weak reading of “dominated” "
        "(log10 of the ratio).",
        source="Appendix D.3", of=third_part, below=0.0, matters=0.1, because="a quarter of the smaller part",
        ours=True,
    ),
    Statement(
        "typical-negative", "In the median very short step, ΨỸ grows along large negative eigenvalues.",
        source="Appendix B.4, end", of=typical_gain(-1), above=0.0, **SIGNED, **TYPICAL,
    ),
    Statement(
        "typical-positive", "In the median very short step, ΨỸ shrinks along large positive eigenvalues.",
        source="Equation 10", of=typical_gain(1), below=0.0, **SIGNED, **TYPICAL,
    ),
    Statement(
        "typical-printed-size", "(25) as printed has the median size of A_l's change (log10 of ratio).",
        source="Equation 25, last line", of=typical_size("by_25"), **SIZE, **TYPICAL,
    ),
    Statement(
        "typical-factor-size",
        "With the factor A_l, (25) has the median size of A_l's change (log10 of the ratio).",
        source="Equation 25, the line before; our correction", of=typical_size("factor"), ours=True,
        **SIZE, **TYPICAL,
    ),
]  # fmt: skip

WEAK = 0.3  # a correlation that explains less than a tenth of the variance
SPOILT = 0.5  # an exact order that reads as less than this is said to be hidden by errors
SAID = {
    HOLDS: "In very short steps, layers gain alignment{} in the order of the Hessian's moments",
    CONTRADICTED: "In very short steps, layers gain alignment{} against the order of the Hessian's moments",
    ABSENT: "In very short steps, the Hessian's moments do not order the layers by the alignment they gain",
    UNDECIDED: "In very short steps, it is undecided whether layers gain alignment in the order of the "
    "Hessian's moments",
}
LONG = {
    HOLDS: "that order shows{} in training's longer ones",
    CONTRADICTED: "that order is{} reversed in training's longer ones",
    ABSENT: "no order shows in training's longer ones",
    UNDECIDED: "training's longer ones leave it undecided",
}


def finding(table, parameters, claims):
    """Whether (25) ranks the layers, and how far features off the labels move."""
    short, long = (claims[f"hierarchy-{case.id}"] for case in steps(parameters))
    if short.outcome not in SAID:
        return "No network was trained to the end."
    said = SAID[short.outcome].format(weakly(short))
    if short.outcome == UNDECIDED:
        exact = if_exact(table, rates(parameters)[-1])
        if exact < SPOILT:
            said += ": with the errors of our estimates, even an exact order would correlate by only "
            said += f"{exact:.2f}"
    else:
        said += f" (rank correlation {short.measured:.2f}, our errors allowed for; exact: 1)"
    if long.outcome != short.outcome and long.outcome in LONG:
        said += f"; {LONG[long.outcome].format(weakly(long))} ({long.measured:.2f})"
    if claims["others-shuffled-rate"].outcome == CONTRADICTED:
        return f"{said}. Features orthogonal to the labels move, too, which the paper's model rules out."
    return f"{said}. Measured on {parameters['examples']} images."


def weakly(claim):
    """`` weakly`` of a correlation that explains little."""
    return " weakly" * (abs(claim.measured) < WEAK)


def key_numbers(table, parameters):
    """How near very short steps come to (23), how far other features move, and how they grow."""
    rate, result = rates(parameters)[0], []
    wanted = (
        (
            "cosine of the change of ΨỸ in very short steps with Equation 23, mean over the first epoch",
            means(near(at(table, kind="step"), rates(parameters)[-1]), "cosine"),
            (-1, 1),
            1.0,
        ),
        (
            "change of Ψu over that of ΨỸ, shuffled labels, at the rate of training",
            moved(table, "shuffled", rate),
            (0, math.inf),
            0.0,
        ),
        (
            "doublings of uᵀKu in the first epoch, shuffled labels",
            grown(table, "shuffled"),
            (-math.inf, math.inf),
            0.0,
        ),
    )
    for what, values, bounds, printed in wanted:
        if len(values):
            result.append(KeyNumber(what, interval(values, within=bounds), printed))
    return result
