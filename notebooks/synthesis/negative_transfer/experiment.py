"""Negative transfer on peaks functions, with an intervention on each of its explanations.

A network with one hidden layer learns a source task; linear models on its features learn another one from few
points (Imani et al. 2022, Section 7.1). Where they do worse than on untrained features, silent units (Maennel
et al. 2020, Section 3), lost alignment (Imani et al.) or lost information could be why: each is mended alone.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.data import peaks
from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.metrics.alignment_curve import alignment_curve
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training import loop
from companion.jobs import Job

from .arms import ADDED, DOUBLED, REALIGNED, REVIVED, SHUFFLED, TASKS, TRANSFERRED, UNTRAINED

STEP_COUNTS = 200  # at which the test error is looked at, log-spaced


def jobs(parameters):
    """One job per step size and seed."""
    shared = {name: value for name, value in parameters.items() if name not in ("step_sizes", "seeds")}
    return [
        Job(f"rate{size:g}-seed{seed}", compute, shared | {"step_size": size, "seed": seed})
        for size in parameters["step_sizes"]
        for seed in range(parameters["seeds"])
    ]


def compute(
    *,
    points,
    width,
    batch_size,
    step_size,
    epochs,
    few,
    test_points,
    iterations,
    silent,
    seed,
    device,
    report,
):
    """Train on the source, then compare every arm of :mod:`.arms` on both tasks: a row each.

    Columns: ``task``, ``arm``, ``best`` and ``last`` (mean squared test error of a linear model trained on
    ``few`` points, at its best step and after ``iterations``), ``area`` (under the alignment curve) and
    ``span`` (share of the labels that a linear model could fit), both on all ``points``, ``silent`` (units
    active on less than the share ``silent`` of the points) and ``loss`` (of the source task, last epoch).
    """
    functions = peaks.draw_tasks(torch_stream(seed, "negative", "tasks"))
    variables = peaks.sample_variables(points + test_points, torch_stream(seed, "negative", "inputs"))
    inputs = peaks.encode(variables)
    y = {task: function(variables) for task, function in functions.items()}
    y = {task: labels - labels[:points].mean() for task, labels in y.items()}

    network = TwoLayer(60, width, torch_stream(seed, "negative", "network"), device=device)
    other = TwoLayer(60, width, torch_stream(seed, "negative", "other network"), device=device)
    untrained, more = hidden(network, inputs), hidden(other, inputs)
    trained = loop.train(
        adam_step(network, inputs[:points].to(device), y["source"][:points].to(device)), points,
        batch_size=batch_size, epochs=epochs, rate=step_size, device=device, report=report,
        generator=torch_stream(seed, "negative", "batches"),
    )  # fmt: skip
    transferred = hidden(network, inputs)
    activity = (transferred[:points] > 0).mean(0)

    rows = []
    for task in TASKS:
        labels = y[task].numpy()
        features = arms(untrained, transferred, more, activity < silent, labels, points, seed)
        for arm, phi in features.items():
            errors = test_errors(phi[:few], labels[:few], phi[points:], labels[points:], iterations)
            thresholds, alignment = alignment_curve(phi[:points], labels[:points], bias=False)
            energy = np.square(labels[:points]).sum()
            rows.append(
                {
                    "task": task,
                    "arm": arm,
                    "best": errors.min(),
                    "last": errors[-1],
                    "area": np.trapezoid(alignment, thresholds) / (energy * thresholds[-1]),
                    "span": alignment[0] / energy,
                }
            )
    return pd.DataFrame(rows).assign(silent=int((activity < silent).sum()), loss=trained.loss)


def hidden(network, inputs):
    """Hidden activations (n, width) of ``inputs`` (n, 60): float64 on the CPU."""
    with torch.no_grad():
        return network.hidden(inputs.to(network.flat)).cpu().numpy()


def arms(untrained, transferred, more, is_silent, labels, points, seed):
    """{arm: features (n, d) of rows at most one long}; ``labels`` (n,), of the first ``points`` are used.

    ``untrained``, ``transferred`` and ``more`` are activations (n, width), ``is_silent`` (width,) is boolean.
    """
    own = with_constant(transferred)
    left, singular, right = np.linalg.svd(own[:points], full_matrices=False)
    along = np.square(left.T @ labels[:points])
    best = np.empty(len(singular), int)
    best[np.argsort(-along)] = np.arange(len(singular))  # most of the labels: the largest value
    return {
        UNTRAINED: with_constant(untrained),
        TRANSFERRED: own,
        REVIVED: with_constant(np.where(is_silent, untrained, transferred)),
        REALIGNED: reordered(own, singular, right, best),
        SHUFFLED: reordered(
            own, singular, right, numpy_stream(seed, "negative", "order").permutation(len(singular))
        ),
        ADDED: with_constant(np.hstack([transferred, untrained])),
        DOUBLED: with_constant(np.hstack([untrained, more])),
    }


def with_constant(features):
    """Append a constant 1 for the bias, then scale rows to length one, as ``alignment_curve`` does."""
    rows = np.column_stack([features, np.ones(len(features))])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def reordered(phi, singular, right, order):
    """``phi`` with ``singular[order]`` in place of ``singular`` along the rows of ``right``.

    Singular values that are zero to rounding stay where they are. The longest row has length one.
    """
    kept = singular > len(phi) * np.finfo(float).eps * singular[0]
    wanted = singular.copy()
    wanted[kept] = singular[kept][np.argsort(np.argsort(order[kept]))]
    mapped = phi @ (right.T * np.where(kept, wanted / np.where(kept, singular, 1), 1)) @ right
    return mapped / np.linalg.norm(mapped, axis=1).max()


def test_errors(phi, y, phi_test, y_test, iterations):
    """Mean squared test error along gradient descent w ← w − (1/n) Φᵀ(Φw − y) from zero, at log-spaced steps.

    Along a right singular vector vᵢ the weights are (1 − (1 − σᵢ²/n)ᵗ) uᵢᵀy / σᵢ after t steps (Imani et al.,
    Appendix B); rows of length one at most keep σᵢ² ≤ n.
    """
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    kept = singular > len(phi) * np.finfo(float).eps * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    steps = np.unique(np.geomspace(1, iterations, STEP_COUNTS).round())
    rates = np.minimum(np.square(singular) / len(y), 1 - 1e-16)
    done = -np.expm1(steps[:, None] * np.log1p(-rates))
    weights = (done * (left.T @ y / singular)) @ right
    return np.square(weights @ phi_test.T - y_test).mean(1)
