"""Theorems 1 and 2 of the ICLR 2020 submission, in networks whose random outputs are zero.

Both theorems hold for a width m → ∞ and a scale κ → 0 of the random weights. At a fixed width the two limits
are at odds: a small κ keeps the random outputs small, and lets units switch early. Here half of the units are
drawn and each gets a copy of opposite sign, so that all outputs are exactly zero at every κ. For zero random
outputs the proofs give

    |W(Q) - W(P)|_F² = r' (H_Q^∞)^{-1} r,   r = y_Q - y_{P→Q}          (Equation 42)
    |u_Q(P) - y_Q|² - |u_Q(0) - y_Q|² = |r|² - |y_Q|²                  (Theorem 1)

up to an error that falls with the width alone.
"""

import math

import pandas as pd
import torch

from alignbook.metrics.relu_gram import deviation_bound, gradient_term, relu_gram, transformed_labels
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.transferability.shared.image_pairs import pool, related
from companion.studies.transferability.shared.two_layer import descend, draw, in_span, outputs

from .design import STARTS


def jobs(parameters):
    """One job per data set and seed; it holds all starts, widths and sources."""
    names = "widths angles shares examples step_size tolerance steps"
    shared = {name: parameters[name] for name in names.split()}
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, shared, dataset=datasets, seed=seeds)


def compute(*, dataset, widths, angles, shares, examples, step_size, tolerance, steps, seed, device, report):
    """Pre-train on every source, then fine-tune on the one target, over ``STARTS`` and widths.

    Sources are :func:`related` to the target: ``angles`` in degrees, ``shares`` of flipped labels, two other
    classes. step_size : η in units of 1/λ_max(H^∞) of the task in hand; training ends at
    |u - y| ≤ tolerance |y|, or after ``steps``. Widths are even.

    One row per start, width and source: ``family`` and ``step`` name the source, ``scratch`` is none at all;
    ``deviation``, |W(Q) - W(P)|_F, and its ``bound``; ``change`` of the squared gradient by pre-training and
    Theorem 1's ``term``, both over |y_Q|²; ``residual``, the larger of the two trainings'.
    """
    images = pool(dataset, seed)
    target, y = images.pair(0, examples)
    tasks = related(images, angles, shares, examples, seed)
    parts = [images.on_sphere(part) for part in (target, *(task[2] for task in tasks))]
    x_q, *x_p = (part.to(device) for part in in_span(torch.cat(parts)).split(examples))
    y = y.to(device)
    size, settings = float(y.square().sum()), {"tolerance": tolerance, "steps": steps}
    tasks = [(*task[:2], inside, task[3].to(device)) for task, inside in zip(tasks, x_p, strict=True)]

    rows, done = [], 0
    work = len(STARTS) * len(tasks) * sum(widths)
    for width in widths:
        for name, (doubled, kappa) in STARTS.items():
            generator = torch_stream(seed, "thm02-doubled", dataset, width, device=device)
            start, signs = draw(x_q.shape[1], width // (1 + doubled), kappa, generator)
            if doubled:
                start, signs = torch.cat([start, start]), torch.cat([signs, -signs])
            before = outputs(start, signs, x_q) - y
            for family, step, inside, labels in [*tasks, ("scratch", 0.0, None, None)]:
                weights, carried, residual = start, torch.zeros_like(y), 0.0
                if family != "scratch":
                    carried = transformed_labels(inside, labels, x_q)
                    weights, losses = descend(
                        start, signs, inside, labels, rate=_rate(step_size, inside), **settings
                    )
                    residual = math.sqrt(float(losses[-1]) / examples)
                    done += width
                after = outputs(weights, signs, x_q) - y
                tuned, losses = descend(weights, signs, x_q, y, rate=_rate(step_size, x_q), **settings)
                rows.append(
                    {
                        "start": name,
                        "width": width,
                        "family": family,
                        "step": float(step),
                        "deviation": float((tuned - weights).norm()),
                        "bound": deviation_bound(x_q, y - carried),
                        "change": float(after.square().sum() - before.square().sum()) / size,
                        "term": gradient_term(y, carried) / size,
                        "residual": max(residual, math.sqrt(float(losses[-1]) / examples)),
                    }
                )
                report(done / work, f"m = {width}, {name}, {family} {step:g}")
    return pd.DataFrame(rows)


def _rate(step_size, x):
    return step_size / float(torch.linalg.eigvalsh(relu_gram(x))[-1])
