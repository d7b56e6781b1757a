"""How far f(σ) departs from rising and then falling, from Gaussian patches to images (Figures 21, 22)."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import HOLDS, KeyNumber, interval
from alignbook.over_seeds import at, difference
from alignbook.statements import Case, Statement
from alignbook.wording import by_verdict, fitting, sentences, weaker

from ..transfer_curves import FALL, RISE, change, growth
from .design import IDEAL, STEPS

ALL = 50_000  # training images of CIFAR-10
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
    """``measure`` of ln of the growth by seed, at one of ``STEPS``. Noise adds to all: :func:`by_noise`."""
    return departures_of(np.log(growth(rows_of(table, step))), measure)


def departures_of(logs, measure=departure):
    """``measure`` of every row of a (seeds × eigenvalues) frame, a sample."""
    return logs.apply(measure, axis=1) if len(logs) else pd.Series(dtype=float)


def of_mean(table, step):
    """Departure of the mean over the seeds of ln of the growth; None without results."""
    logs = np.log(growth(rows_of(table, step)))
    return departure(logs.mean()) if len(logs) else None


def by_noise(table, step):
    """The departures that the seeds' scatter alone would give: around a mean that has one top, by seed."""
    logs = np.log(growth(rows_of(table, step)))
    return departures_of(logs - logs.mean() + up_and_down(logs.mean()) if len(logs) else logs)


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


def further(table, parameters, before, after, measure=departure):
    """How much further the second step departs than the first, by seed."""
    return difference(*(departures(table, step, measure) for step in (after, before)))


def closer(table, parameters):
    """How much closer to the ideal shape than images the farther of the two approximations is, by seed."""
    near = [distances(table, step) for step in ("one per position", "permuted patches")]
    return difference(distances(table, "images, stride 3"), pd.concat(near, axis=1).dropna().max(axis=1))


STATEMENTS = [
    Statement(
        "neighbours",
        "Correlations between neighbouring patches make f(σ) depart from rising and then falling, relative "
        "to the curve's own height.",
        of=lambda t, p: further(t, p, "permuted patches", "images, stride 3"), source="Figure 22, E.2",
        headline=True, **DEPARTURES,
    ),
    Statement(
        "stride",
        "The more the patches overlap, the further f(σ) departs, relative to the curve's own height.",
        of=further, source="Figure 22, E.2", ours=True, **DEPARTURES,
        each=lambda p: [
            Case(f"{stride}", f"stride {stride} against {stride + 1}",
                 {"before": f"images, stride {stride + 1}", "after": f"images, stride {stride}"})
            for stride in (2, 1)
        ],
    ),
    Statement(
        "still-close",
        "Up to permuted patches, the curve stays closer to the ideal one than the curve of images does.",
        of=closer, source="Figure 21, E.2", above=0, matters=0.05, unit="standard deviations of a shape",
        because="a twentieth of a shape's own standard deviation cannot be seen in the figure",
    ),
    Statement(
        "ideal", "In the ideal case the curve goes up and then down.",
        of=lambda t, p, end: change(growth(rows_of(t, IDEAL)), end), source="Figure 21, E.2", above=0,
        matters=0.05, unit="in ln τ", because="5 % of τ is the width of the line in the figure",
        each=lambda p: [Case("rises", "it rises", {"end": RISE}), Case("falls", "it falls", {"end": FALL})],
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="Correlations between neighbouring patches make the curve depart from one rise and one fall",
    contradicted="Correlations between neighbouring patches bring the curve closer to one rise and one fall",
    absent="Correlations between neighbouring patches hardly change the curve's one rise and one fall",
    whether="correlations between neighbouring patches make the curve depart from one rise and one fall",
)

OVERLAP = by_verdict(
    holds="The more the patches overlap, the further it departs, relative to its height",
    contradicted="Patches that overlap more do not always make it depart further",
    absent="Patches that overlap more do not visibly make it depart further",
    whether="it departs further where patches overlap more",
)


def finding(table, parameters, claims):
    """What neighbours do to the shape, with the departure before and after; words follow the verdicts."""
    outcome = claims["neighbours"].outcome
    before, after = of_mean(table, "permuted patches"), of_mean(table, "images, stride 3")
    if outcome not in SAID or before is None or after is None:
        return "The curves with and without fitting neighbours are not both among the results."
    said = (
        f"{SAID[outcome]}: the mean curve departs by {100 * after:.2g} % of its height on images at stride 3 "
    )
    said += f"and by {100 * before:.2g} % on permuted patches"
    if claims["ideal-falls"].outcome != HOLDS:
        return f"{said}. Even the ideal case does not clearly fall."
    overlap = OVERLAP.get(weaker(*(claims[f"stride-{stride}"] for stride in (2, 1))))
    small = "our network is small"
    some = small + " and saw only some images" * (parameters["images"] < ALL)
    return fitting(sentences(said, overlap, some), sentences(said, overlap, small), sentences(said, some))


def key_numbers(table, parameters):
    """Departures of permuted patches and of images at both ends."""
    said = {
        "permuted patches": "very close to ideal",
        "images, stride 3": "first significant deviation",
        "images, stride 1": "strongest",
    }
    found = {step: departures(table, step) for step in said}
    return [
        KeyNumber(
            f"departure of each seed's curve, noise included (%): {step}",
            interval(100 * found[step], "{:.1f}"),
            word,
        )
        for step, word in said.items()
        if len(found[step])
    ]
