"""What each start gains over training from scratch, by initial scale: measures, then statements."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, once, weakest
from companion.statements import Number, Statement

from ..shared.gains import mean_accuracy
from .design import ALL, EARLY, FIRST, KINDS, LATE, SCRATCH, STARTS

LEARNED = 0.95  # of the random labels upstream, as in Figures 1, 3 and 12


@once
def gains(table):
    """A row per seed, scale, labels and start: gain over training from scratch in mean accuracy, points.

    Of runs whose pre-training has learned ``LEARNED`` of its random labels.
    """
    found = []
    learned = at(table, start="upstream")
    learned = learned[learned["accuracy"] >= LEARNED] if len(learned) else learned
    for scale, rows in learned.groupby("init_scale") if len(learned) else ():
        for kind in KINDS:
            runs = at(table, init_scale=scale, labels=kind, seed=list(rows["seed"]))
            whole = {start: mean_accuracy(at(runs, start=start)) for start in STARTS}
            for start in list(STARTS)[1:]:
                gain = 100 * difference(whole[start], whole[SCRATCH])
                found.append(
                    pd.DataFrame({"gain": gain})
                    .reset_index()
                    .assign(init_scale=scale, labels=kind, start=start)
                )
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def gain(table, start, large):
    """Mean gain of a start over the larger (or smaller) half of the scales, mean over the labels, by seed."""
    rows = at(gains(table), start=start)
    if rows.empty:
        return pd.Series(dtype=float)
    scales = np.sort(rows["init_scale"].unique())
    half = scales[len(scales) // 2 :] if large else scales[: len(scales) // 2]
    wide = at(rows, init_scale=list(half)).pivot_table(
        index="seed", columns=["init_scale", "labels"], values="gain"
    )
    return wide.dropna().mean(axis=1)


def late_hurts(table, parameters):
    """Gain of the dense layer alone at the larger scales."""
    return gain(table, LATE, True)


def early_spares(table, parameters):
    """Gain of the convolutions alone less that of all layers, at the larger scales."""
    return difference(gain(table, EARLY, True), gain(table, ALL, True))


def turns(table, parameters):
    """Gain of all layers in the lower half of the scales, or their loss in the upper one, as shows less."""
    return weakest(gain(table, ALL, False), -gain(table, ALL, True))


def first_helps(table, parameters):
    """Gain of the first convolution over all scales."""
    return (gain(table, FIRST, True) + gain(table, FIRST, False)).dropna() / 2


def crossing(start):
    """Reading: the initial scale at which the mean gain of a start changes its sign, by seed."""

    def scale(table, parameters):
        rows = at(gains(table), start=start)
        if rows.empty:
            return pd.Series(dtype=float)
        found = {}
        for seed, one in rows.groupby("seed"):
            line = one.groupby("init_scale")["gain"].mean()
            below = np.flatnonzero((line.to_numpy()[:-1] > 0) & (line.to_numpy()[1:] <= 0))
            if len(below):
                n = below[0]
                (a, b), (x, y) = np.log(line.index[n : n + 2]), line.iloc[n : n + 2]
                found[seed] = float(np.exp(a + (b - a) * x / (x - y)))
        return pd.Series(found, dtype=float)

    return scale


POINTS = {
    "matters": 1.0, "unit": "points", "because": "one point is the width of a line in the paper's panels",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "late", "At large initial scales, handing on the dense layer alone slows training.",
        source="Section 3", of=late_hurts, below=0, headline=True, **POINTS,
    ),
    Statement(
        "early", "There the convolutions alone do better than all layers.", source="Section 3",
        of=early_spares, above=0, **POINTS,
    ),
    Statement(
        "turns", "All layers gain in the lower half of the scales and lose in the upper one.",
        source="Section 1.1", of=turns, above=0, **POINTS,
    ),
    Statement(
        "first", "The first convolution alone helps over all scales.", source="ours", ours=True,
        of=first_helps, above=0, **POINTS,
    ),
]  # fmt: skip
NUMBERS = [
    Number("crossing", "scale at which all layers turn", crossing(ALL)),
    Number(
        "early-large",
        "gain of the convolutions, large scales",
        lambda t, p: gain(t, EARLY, True),
        unit="points",
    ),
    Number("all-large", "gain of all layers, large scales", lambda t, p: gain(t, ALL, True), unit="points"),
]
