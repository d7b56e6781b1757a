"""Theorems 2 and 3 of the ICLR 2020 submission: how far fine-tuning moves from the pre-trained weights.

Section 6.1's network is pre-trained on a source task, then fine-tuned by gradient descent on one target task
that stays the same while the source varies. Theorem 2 bounds the way, for m → ∞ and κ → 0:

    |W(Q) - W(P)|_F ≤ sqrt((y_Q - y_{P→Q})' (H_Q^∞)^{-1} (y_Q - y_{P→Q})),

and Equation 42, from which it follows, is an equality up to the same error terms. Theorem 3 bounds the
loss on the way, with λ_Q the smallest eigenvalue of H_Q^∞ and the base as its proof derives it:

    |u_Q(k) - y_Q|² ≤ (1 - η λ_Q / 2)^k |u_Q(P) - y_Q|².
"""

import itertools
import math

import numpy as np
import pandas as pd
import torch

from alignbook.metrics.relu_gram import deviation_bound, relu_gram, transformed_labels
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.transferability.shared.image_pairs import Pool, pool, related
from companion.studies.transferability.shared.two_layer import descend, draw, in_span, outputs


def jobs(parameters):
    """One job per data set and seed; it holds all widths and all sources. Where ``class_pairs`` asks for
    them, as many on the largest width with pairs of classes.
    """
    axes = {"dataset": parameters["datasets"], "seed": range(parameters["seeds"])}
    both = {name: parameters[name] for name in ("kappa", "examples", "step_size", "tolerance", "steps")}
    shared = both | {name: parameters[name] for name in ("widths", "angles", "shares", "test_images")}
    made = jobs_over("{dataset}-seed{seed}", compute, shared, **axes)
    if parameters["class_pairs"]:
        pairs = both | {"class_pairs": parameters["class_pairs"], "width": max(parameters["widths"])}
        made += jobs_over("{dataset}-pairs-seed{seed}", of_pairs, pairs, **axes)
    return made


def compute(
    *,
    dataset,
    kappa,
    widths,
    angles,
    shares,
    examples,
    test_images,
    step_size,
    tolerance,
    steps,
    seed,
    device,
    report,
):
    """The way that fine-tuning goes beside Theorem 2's bound, over sources and widths.

    dataset : str; kappa : float > 0; widths : list of int, m; angles : list of degrees; shares : list of
    float in [0, 1], of the source's labels; examples : int, n_P = n_Q; test_images : int, of the target's
    classes; step_size : η in units of 1/λ_max(H^∞) of the task in hand; tolerance, steps : training ends at
    |u - y| ≤ tolerance |y|, or after steps

    Rows by ``kind``:

    ``source`` (width, family, step): ``deviation``, |W(Q) - W(P)|_F; ``bound``; ``worst``, the largest over
        k ≥ 1 of log10 of the loss over Theorem 3's bound; ``test_loss``, mean of (f - y)² / 2, and
        ``test_error``, share with the wrong sign, on test images; ``residual``, the larger of the two
        trainings'. Family ``scratch`` starts from the random network, with bound sqrt(y_Q'(H_Q^∞)^{-1}y_Q).
    ``loss`` (width, k): ``value``, |u_Q(k) - y_Q|² over its start, for the first source; ``limit``: bound
    """
    images = pool(dataset, seed)
    target, y = images.pair(0, examples)
    test, y_test = images.pair(0, test_images)
    tasks = related(images, angles, shares, examples, seed)
    parts = [images.on_sphere(part) for part in (target, test, *(task[2] for task in tasks))]
    x_q, x_test, *x_p = in_span(torch.cat(parts)).split([examples, test_images] + [examples] * len(tasks))
    spectrum = torch.linalg.eigvalsh(relu_gram(x_q))
    eta, smallest = step_size / float(spectrum[-1]), float(spectrum[0])
    settings = {"tolerance": tolerance, "steps": steps}
    x, answer = x_q.to(device), y.to(device)
    carried = [
        transformed_labels(inside, labels, x_q) for inside, (_, _, _, labels) in zip(x_p, tasks, strict=True)
    ]

    rows, done, work = [], 0, (len(tasks) + 1) * sum(widths)
    for width in widths:
        generator = torch_stream(seed, "thm02", dataset, width, device=device)
        start, signs = draw(x_q.shape[1], width, kappa, generator)
        scratch = ("scratch", 0.0, None, torch.zeros(examples, dtype=torch.float64))
        for index, (family, step, _, labels) in enumerate([*tasks, scratch]):
            weights, residual = start, 0.0
            if family != "scratch":
                inside = x_p[index]
                rate = step_size / float(torch.linalg.eigvalsh(relu_gram(inside))[-1])
                weights, losses = descend(
                    start, signs, inside.to(device), labels.to(device), rate=rate, **settings
                )
                residual = math.sqrt(float(losses[-1]) / examples)
            tuned, losses = descend(weights, signs, x, answer, rate=eta, **settings)
            limit = losses[0] * (1 - eta * smallest / 2) ** torch.arange(len(losses), dtype=losses.dtype)
            found = outputs(tuned, signs, x_test.to(device)).cpu()
            rows.append(
                {
                    "kind": "source",
                    "width": width,
                    "family": family,
                    "step": float(step),
                    "deviation": float((tuned - weights).norm()),
                    "bound": deviation_bound(x_q, y - carried[index] if family != "scratch" else y),
                    "worst": float((losses[1:] / limit[1:]).log10().max()) if len(losses) > 1 else math.nan,
                    "test_loss": float((found - y_test).square().mean() / 2),
                    "test_error": float((found * y_test <= 0).double().mean()),
                    "residual": max(residual, math.sqrt(float(losses[-1]) / examples)),
                }
            )
            if index == 0:
                rows += [
                    {
                        "kind": "loss",
                        "width": width,
                        "k": int(k),
                        "value": float(losses[k] / losses[0]),
                        "limit": float(limit[k] / losses[0]),
                    }
                    for k in np.unique(np.linspace(0, len(losses) - 1, 40).round().astype(int))
                ]
            done += width
            report(done / work, f"m = {width}, {family} {step:g}")
    return pd.DataFrame(rows)


def of_pairs(
    *, dataset, kappa, class_pairs, examples, width, step_size, tolerance, steps, seed, device, report
):
    """How far fine-tuning moves on pairs of classes of one data set, from the most alike to the least.

    The source is other images of the same two classes. The other arguments are those of :func:`compute`.
    One row per pair, of ``kind`` "pair": ``classes``; ``distance``, between the means of its images on the
    sphere; ``smallest`` and ``largest``, eigenvalues of H_Q^∞; ``deviation``, ``bound``, ``residual`` as in
    :func:`compute`; ``scratch`` and ``scratch_bound``, the same two from the random network.
    """
    images = pool(dataset, seed)
    rows, ranked = [], _ranked(images)
    chosen = np.unique(np.linspace(0, len(ranked) - 1, class_pairs).round().astype(int))
    for done, place in enumerate(chosen):
        distance, pair = ranked[place]
        own = Pool(images.images, images.y, list(pair))
        (target, y), (source, labels) = own.pair(0, examples), own.pair(0, examples)
        x_q, x_p = in_span(torch.cat([own.on_sphere(target), own.on_sphere(source)])).split(examples)
        x, answer, spectrum = x_q.to(device), y.to(device), torch.linalg.eigvalsh(relu_gram(x_q))
        generator = torch_stream(seed, "thm02", "pairs", dataset, *map(str, pair), device=device)
        start, signs = draw(x_q.shape[1], width, kappa, generator)
        settings = {"tolerance": tolerance, "steps": steps}
        rate = step_size / float(torch.linalg.eigvalsh(relu_gram(x_p))[-1])
        weights, first = descend(start, signs, x_p.to(device), labels.to(device), rate=rate, **settings)
        eta = step_size / float(spectrum[-1])
        tuned, second = descend(weights, signs, x, answer, rate=eta, **settings)
        alone, third = descend(start, signs, x, answer, rate=eta, **settings)
        row = {"kind": "pair", "classes": "-".join(map(str, sorted(pair))), "distance": distance}
        row |= {"smallest": float(spectrum[0]), "largest": float(spectrum[-1])}
        row |= {"deviation": float((tuned - weights).norm()), "scratch": float((alone - start).norm())}
        row |= {"bound": deviation_bound(x_q, y - transformed_labels(x_p, labels, x_q))}
        row |= {"scratch_bound": deviation_bound(x_q, y)}
        losses = (float(part[-1]) for part in (first, second, third))
        rows.append(row | {"residual": math.sqrt(max(losses) / examples)})
        report((done + 1) / len(chosen), f"classes {row['classes']}")
    return pd.DataFrame(rows)


def _ranked(images):
    """[(distance of the mean images on the sphere, pair)] of all pairs of classes of a Pool, ascending."""
    means = {label: images.on_sphere(images.images[images.y == label]).mean(0) for label in images.order}
    pairs = itertools.combinations(images.order, 2)
    return sorted((float((means[a] - means[b]).norm()), (a, b)) for a, b in pairs)
