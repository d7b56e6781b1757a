"""Two labellings of points on a circle, their alignment and how fast each is learned (Figures 3 and 4).

Two clouds of points around the angles π/4 and −3π/4. The ``first`` labelling has a class for each cloud, so
that v_1 separates them; the ``second`` has a class for each side of the clouds, so that v_2 does.
"""

import numpy as np
import pandas as pd

from alignbook.metrics.alignment_curve import alignment_curve
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.linear_descent import (
    descend,
    first_steps,
    reducible,
    spectrum,
)

from .design import circle


def jobs(parameters):
    """One job per number of points and seed."""
    shared = {name: parameters[name] for name in ("spread", "step_size", "remaining")}
    points = dict.fromkeys((parameters["points"], parameters["fewer"]))
    return jobs_over("{points}-seed{seed}", compute, shared, points=points, seed=range(parameters["seeds"]))


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
