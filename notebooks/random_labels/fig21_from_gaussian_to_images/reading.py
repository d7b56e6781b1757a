"""How far f(σ) departs from rising and then falling, from Gaussian patches to images (Figures 21, 22)."""

import itertools
import math

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, weakest
from companion.statements import Case, Number, Statement, among

from ..shared.transfer_curves import FALL, RISE, change, growth
from .design import IDEAL, STEPS

DEPARTURES = {
    "above": 0, "matters": 0.01, "unit": "of the curve's height",
    "because": "the line of a drawn curve covers about 1 % of its height",
}  # fmt: skip


def rows_of(table, step):
    """The rows of one of ``STEPS``."""
    inputs, stride = STEPS[step]
    return at(table, inputs=inputs, stride=stride)


def up_and_down(values):
    """The sequence nearest to ``values`` (k,) in least squares that only rises and then only falls."""
    values = np.asarray(values, dtype=float)
    best, least = None, math.inf
    for top in range(len(values) + 1):
        fit = np.concatenate([_monotone(values[:top]), -_monotone(-values[top:])])
        error = np.square(fit - values).sum()
        if error < least:
            best, least = fit, error
    return best


def _monotone(values):
    """Least-squares non-decreasing fit: neighbours that fall are pooled to their mean."""
    means, sizes = [], []
    for value in values:
        means.append(float(value))
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size]
            sizes[-2:] = [size]
    return np.repeat(means, sizes)


def departure(values):
    """How far a curve (k,) is from the nearest one that rises and then falls: 0 for one top, wherever it is.

    :func:`undivided` over that curve's height, largest less smallest; 0 where it is flat to rounding.
    """
    height = np.ptp(up_and_down(values))
    return undivided(values) / height if height > 1e-12 else 0.0


def undivided(values):
    """Root mean square distance of a curve (k,) from the nearest one that rises and then falls."""
    return math.sqrt(np.mean((np.asarray(values) - up_and_down(values)) ** 2))


def departures(table, step, measure=departure):
    """``measure`` of ln of the growth by seed, at one of ``STEPS``."""
    return departures_of(np.log(growth(rows_of(table, step))), measure)


def departures_of(logs, measure=departure):
    """``measure`` of every row of a (seeds × eigenvalues) frame, a sample."""
    return logs.apply(measure, axis=1) if len(logs) else pd.Series(dtype=float)


def of_mean(table, step):
    """Departure of the mean over the seeds of ln of the growth, jackknifed: a sample of pseudo-values.

    Noise averages out in a mean curve, and its departure has no value for one seed. n θ − (n − 1) θ₋ᵢ, with
    θ₋ᵢ that of the mean without seed i, has the mean and the standard error of θ.
    """
    logs = np.log(growth(rows_of(table, step)))
    if len(logs) < 2:
        return pd.Series(dtype=float)
    total, whole = logs.sum(), departure(logs.mean())
    n = len(logs)
    return logs.apply(lambda row: n * whole - (n - 1) * departure((total - row) / (n - 1)), axis=1)


def distances(table, step):
    """Distance of a curve's shape from that of the same seed's ideal case, a sample.

    A shape is ln of the growth less its mean over the eigenvalues, over its standard deviation: what size
    and length of training do to a whole curve does not count. Root mean square.
    """
    apart = (_shapes(table, step) - _shapes(table, IDEAL)).dropna()
    return np.sqrt(np.square(apart).mean(axis=1)) if len(apart) else pd.Series(dtype=float)


def _shapes(table, step):
    logs = np.log(growth(rows_of(table, step)))
    return logs.sub(logs.mean(axis=1), axis=0).div(logs.std(axis=1, ddof=0), axis=0)


def further(table, parameters, before, after, by="own"):
    """How much further the second step departs than the first, by seed.

    by : "own", each curve over its own height; "mean", the mean curves; "ideal", curves over the height of
    the ideal case's
    """
    if by == "mean":
        return difference(of_mean(table, after), of_mean(table, before))
    measure = departure if by == "own" else undivided
    found = difference(*(departures(table, step, measure) for step in (after, before)))
    return found if by == "own" else found / height(table)


def by_stride(table, parameters, by):
    """How much further images depart at stride 2 than at 3, or at 1 than at 2, as shows less."""
    at_stride = [f"images, stride {stride}" for stride in (3, 2, 1)]
    return weakest(*(further(table, parameters, *pair, by) for pair in itertools.pairwise(at_stride)))


def up_then_down(table, parameters):
    """The rise or the fall of the ideal case's curve, whichever is less sure."""
    curve = growth(rows_of(table, IDEAL))
    return weakest(change(curve, RISE), change(curve, FALL))


def height(table):
    """Height of the ideal case's mean curve, in ln τ; NaN without results."""
    logs = np.log(growth(rows_of(table, IDEAL)))
    return np.ptp(up_and_down(logs.mean())) if len(logs) else math.nan


def closer(table, parameters):
    """How much closer to the ideal shape than images the farther of the two approximations is, by seed."""
    near = [distances(table, step) for step in ("one per position", "permuted patches")]
    return difference(distances(table, "images, stride 3"), pd.concat(near, axis=1).dropna().max(axis=1))


PERMUTED, IMAGES = "permuted patches", "images, stride 3"
STATEMENTS = [
    Statement(
        "neighbours",
        "Correlations between neighbouring patches make f(σ) depart from rising and then falling.",
        source="Figure 22, E.2", of=lambda t, p, by: further(t, p, PERMUTED, IMAGES, by), headline=True,
        each=lambda p: [
            Case("mean", "mean curves", {"by": "mean"}), Case("seeds", "seed by seed", {"by": "own"}),
        ],
        post_hoc="mean curves were compared when the verdict seed by seed was known", **DEPARTURES,
    ),
    Statement(
        "stride", "The more the patches overlap, the further f(σ) departs.", source="Figure 22, E.2",
        of=by_stride, each=among("by", {"own": "over each curve's height", "ideal": "over one height"}),
        **DEPARTURES,
    ),
    Statement(
        "still-close",
        "Up to permuted patches, the curve stays closer to the ideal one than the curve of images does.",
        of=closer, source="Figure 21, E.2", above=0, matters=0.05, unit="standard deviations of a shape",
        because="a twentieth of a shape's own standard deviation cannot be seen in the figure",
    ),
    Statement(
        "ideal", "In the ideal case the curve goes up and then down.",
        of=up_then_down, source="Figure 21, E.2", above=0, matters=0.05, unit="in ln τ",
        because="5 % of τ is the width of the line in the figure",
    ),
]  # fmt: skip
SHOWN = {"permuted": PERMUTED} | {f"stride-{n}": f"images, stride {n}" for n in (3, 2, 1)}
NUMBERS = [
    Number(
        "departure", "departure of the mean curve", lambda t, p, step: of_mean(t, step),
        each=lambda p: [Case(id, step, {"step": step}) for id, step in SHOWN.items()],
    ),
]  # fmt: skip
