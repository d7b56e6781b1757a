"""Two labellings of points on a circle, their alignment and how fast each is learned (Figures 3 and 4).

Two clouds of points around the angles π/4 and −3π/4. The ``first`` labelling has a class for each cloud, so
that v_1 separates them; the ``second`` has a class for each side of the clouds, so that v_2 does.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.experiments.representation_alignment.linear_descent import (
    descend,
    first_steps,
    reducible,
    spectrum,
)
from alignbook.metrics import alignment_curve
from alignbook.seeding import numpy_stream

HEADLINE = "higher"
LABELLINGS = ("first", "second")
SEPARATING = {"first": (1, 1), "second": (-1, 1)}  # weights that separate them
PRINTED = (9.58, 2.84)  # σ_1 and σ_2 (Section 4.1, Figure 4), printed to two decimals
PRINTED_POINTS = 1000  # Section 4.1


def units(parameters):
    """One unit per number of points and seed."""
    shared = {name: parameters[name] for name in ("spread", "step_size", "remaining")}
    return [
        Unit(f"{points}-seed{seed}", compute, shared | {"points": points, "seed": seed})
        for points in dict.fromkeys((parameters["points"], parameters["fewer"]))
        for seed in range(parameters["seeds"])
    ]


def circle(points, spread, seed):
    """(Φ (n, 2) float64, {labelling: (n,) of ±1}): angles normal around π/4 and, half, −3π/4."""
    draw = numpy_stream(seed, "circle", points)
    cloud = np.where(np.arange(points) < points // 2, 1.0, -1.0)
    off = spread * draw.standard_normal(points)
    angles = np.where(cloud > 0, np.pi / 4, -3 * np.pi / 4) + off
    side = np.where(np.sin(angles - np.pi / 4) > 0, 1.0, -1.0)
    phi = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return phi, dict(zip(LABELLINGS, (cloud, side), strict=True))


def compute(*, points, spread, step_size, remaining, seed, device, report):
    """Alignment of both labellings, and gradient descent from zero weights at η = ``step_size`` / σ_1².

    One row per labelling: ``sigma1``, ``sigma2``; ``along1``, ``along2``, (u_iᵀ y)² over ‖y‖² from
    :func:`alignbook.metrics.alignment_curve`; ``wrong``, share of points on the wrong side for the
    least-squares weights; ``steps``, the first at which ``remaining`` of what a linear model can reduce is
    left, by Equation 3, and ``steps_run``, the same by running it; ``deviation``, the largest difference of
    the two losses over ``steps`` steps, over ‖y‖².
    """
    phi, labels = circle(points, spread, seed)
    left, singular = spectrum(phi)
    rate = step_size / singular[0] ** 2
    rows = []
    for name, y in labels.items():
        # Ascending: 0, σ_2, σ_1.
        thresholds, alignment = alignment_curve(phi, y, bias=False)
        along = np.diff(alignment[:0:-1], prepend=0.0) / points
        projections = left.T @ y
        gains = np.square(projections)
        steps = int(first_steps(singular, gains, rate, [remaining * gains.sum()])[0])
        loss, distance = (values[:, 0] for values in descend(phi, y, [rate], steps + 1))
        predicted = reducible(singular, gains, rate, np.arange(steps + 2)) + points - gains.sum()
        rows.append(
            {
                "labelling": name,
                "sigma1": thresholds[-1],
                "sigma2": thresholds[-2],
                "along1": along[0],
                "along2": along[1],
                "wrong": float((left @ projections * y <= 0).mean()),
                "steps": steps,
                "steps_run": int(np.argmax(distance <= remaining * gains.sum())),
                "deviation": np.abs(loss - predicted).max() / points,
            }
        )
    return pd.DataFrame(rows)


def wide(table, parameters, points=None):
    """One row per seed with columns (quantity, labelling), of runs with ``points`` points or the figure's."""
    if table.empty or "labelling" not in table:
        return pd.DataFrame()
    rows = table[table["points"] == (parameters["points"] if points is None else points)]
    measured = ["sigma1", "sigma2", "along1", "along2", "wrong", "steps", "steps_run", "deviation"]
    return rows.pivot(index="seed", columns="labelling", values=measured).astype(float)


def claims(table, parameters):
    """What Section 4.1 says of the two labellings; alignments as shares of ‖y‖². Written before any run."""
    squares = sum(sigma**2 for sigma in PRINTED)
    rounding = sum(2 * sigma * 0.005 for sigma in PRINTED)
    about = {
        "higher": (
            "Between the two singular values the labelling along the first singular vector has the higher "
            "alignment (difference of shares).",
            "Figure 4, Section 4.1",
        ),
        "first": (
            "The first labelling lies mostly along the first singular vector (share).",
            "Figure 4, Section 4.1",
        ),
        "second": (
            "The second labelling lies mostly along the second singular vector (share).",
            "Figure 4, Section 4.1",
        ),
        "faster": (
            "Gradient descent learns the better aligned labelling in fewer steps (how many fewer).",
            "Sections 4 and 6.1",
        ),
        "below": (
            "Below the second singular value the first labelling's alignment is the higher one, too.",
            "Figure 3",
        ),
    }
    values = wide(table, parameters)
    made = []
    for id, (statement, source) in about.items():
        if values.empty:
            claim = Claim.missing(id, statement, source, "nothing was computed")
        else:
            measured, than = _measured(values)[id]
            claim = Claim.greater(id, statement, source, measured, than=than)
        made.append(claim.tagged(ours=id == "below"))
    trace = Claim.computed(
        "trace",
        f"The printed singular values are those of {PRINTED_POINTS} points of length one "
        "(mean squared length).",
        "Section 4.1",
        squares / PRINTED_POINTS,
        1.0,
        rounding / PRINTED_POINTS,
    )
    if trace.outcome == "contradicted":
        trace = trace.opposed(
            f"the squares of n unit vectors' singular values sum to n = {PRINTED_POINTS}, "
            f"the printed ones to {squares:.1f} ± {rounding:.1f}"
        )
    return [*made, *_separable_claims(values, parameters), trace]


def _separable_claims(values, parameters):
    """The worst draw's share of points on the wrong side of the line between the classes, per labelling."""
    group = (
        "Both labellings are separated perfectly by a line through the origin (share of points it misses)."
    )
    made = []
    for name, weights in SEPARATING.items():
        about = (f"separable-{name}", f"The {name} labelling, worst draw.", "Section 4.1")
        if values.empty:
            claim = Claim.missing(*about, "nothing was computed")
        else:
            missed = []
            for seed in values.index:
                phi, labels = circle(parameters["points"], parameters["spread"], int(seed))
                missed.append(float((labels[name] * (phi @ weights) <= 0).mean()))
            claim = Claim.computed(*about, max(missed), 0.0, 0.0)
            claim = replace(
                claim, test=f"{claim.test}, the worst of {len(missed)} draws; least squares may miss more"
            )
        made.append(claim.tagged(group=group))
    return made


def _measured(values):
    along1, along2 = values["along1"], values["along2"]
    return {
        "higher": (along1["first"] - along1["second"], 0.0),
        "first": (along1["first"], 0.5),
        "second": (along2["second"], 0.5),
        "faster": (values["steps"]["second"] - values["steps"]["first"], 0.0),
        "below": ((along1 + along2)["first"] - (along1 + along2)["second"], 0.0),
    }


def finding(table, parameters):
    """Shares along the singular vectors, and the steps."""
    values = wide(table, parameters)
    if values.empty:
        return "Nothing was computed."
    one, two, steps = (values[name] for name in ("along1", "along2", "steps"))
    first, second = (interval(steps[name], "{:.1f}") for name in LABELLINGS)
    return (
        f"The first labelling lies {one['first'].mean():.1%} along u_1, the second "
        f"{two['second'].mean():.1%} along u_2 and {one['second'].mean():.1%} along u_1. All but "
        f"{parameters['remaining']:.0%} of what a linear model can learn of them takes {first} and {second} "
        f"steps. The printed singular values are not those of {PRINTED_POINTS} points."
    )


def key_numbers(table, parameters):
    """Singular values, the sum of their squares, steps of the two labellings."""
    values = wide(table, parameters)
    if values.empty:
        return []
    sigma1, sigma2 = values["sigma1"]["first"], values["sigma2"]["first"]
    steps = [interval(values["steps"][name], "{:.1f}") for name in LABELLINGS]
    return [
        KeyNumber(
            "singular values σ_1, σ_2",
            f"{interval(sigma1)}, {interval(sigma2)}",
            ", ".join(f"{sigma:g}" for sigma in PRINTED),
        ),
        KeyNumber(
            "σ^2_1 + σ^2_2",
            f"{np.mean(sigma1**2 + sigma2**2):.1f}",
            f"{sum(sigma**2 for sigma in PRINTED):.1f}, from the printed",
        ),
        KeyNumber("steps, first / second labelling", " / ".join(steps)),
    ]
