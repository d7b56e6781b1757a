"""Linear models on few points of a related and an unrelated task, three representations (Figure 11)."""

import numpy as np
import pandas as pd
import torch

from alignbook.data import peaks
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over

from ..shared import peaks_source
from ..shared.constant_feature import with_constant
from ..shared.peaks_design import REPRESENTATIONS
from .design import REDUCTIONS, TASKS

POINTS_PER_CURVE = 60  # step counts at which a learning curve is stored, log-spaced


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


def compute(
    *,
    points,
    width,
    few,
    test_points,
    linear_step_sizes,
    iterations,
    fast_phase,
    seed,
    device,
    report,
    **training,
):
    """Train on S as Figure 10 does (``training`` goes to peaks_source.train), then linear models on ``few``
    of its points. Rows of the table, by ``kind``:

    ``step`` : task, representation, linear_step_size, step, train_error and test_error (mean squared),
        weight_norm;
    ``reduction`` : task, representation, linear_step_size, reduction (percent), step and weight_norm: the
        first step that lowers the training loss by so much; no row where ``iterations`` steps do not.
    """
    source = peaks_source.draw(seed, points)
    picked = torch.randperm(points, generator=torch_stream(seed, "peaks", "few"))[:few]
    variables = peaks.sample_variables(test_points, torch_stream(seed, "peaks", "test"))
    inputs = torch.cat([source.inputs[picked], peaks.encode(variables)])  # the few, then the test points
    network = peaks_source.initial_network(seed, width, device)
    features = {"original": inputs, "init": peaks_source.extract(network, inputs)}
    peaks_source.train(network, source, seed=seed, report=report, **training)
    features["transfer"] = peaks_source.extract(network, inputs)

    tables = []
    for task in TASKS:
        y_train = source.labels[task][picked]
        y_test = source.functions[task](variables) - source.means[task]
        for representation in REPRESENTATIONS:
            phi = with_constant(features[representation]).numpy()
            for size in linear_step_sizes:
                path = descend(phi[:few], y_train.numpy(), size, iterations)
                curves = learning_curves(path, phi[few:], y_test.numpy(), fast_phase)
                about = {"task": task, "representation": representation, "linear_step_size": size}
                tables.append(pd.concat([curves, norms_at_reductions(path)]).assign(**about))
    return pd.concat(tables, ignore_index=True)


def descend(phi, y, step_size, iterations):
    """Gradient descent from zero weights, w ← w − (η/n) Φᵀ(Φw − y), all of its iterates.

    phi : (n, d) float64, rows of length one at most; y : (n,) float64; step_size : η in (0, 1], for
    which the descent converges whatever Φ is (σ_max² ≤ n). In the right singular vectors v_i of Φ the
    descent is solved (Appendix B, proof of Proposition 1):

        v_iᵀ w_t = (1 − (1 − η σ_i²/n)ᵗ) (u_iᵀ y) / σ_i

    Returns a dict: ``coordinates`` (iterations + 1, rank), ``basis`` (d, rank) with
    w_t = basis @ coordinates[t], ``train_error`` (iterations + 1,) mean squared, ``norm`` likewise.
    """
    n = len(y)
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    kept = singular > max(phi.shape) * np.finfo(float).eps * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    projected = left.T @ y
    # log1p keeps the slow directions exact; a rate of 1 (above it only by rounding) is gone after one step.
    rates = np.minimum(step_size * singular**2 / n, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.arange(iterations + 1)[:, None] * np.log1p(-rates)
    remaining = np.exp(np.nan_to_num(exponents, nan=0.0))  # (T, rank): (1 − ησ²/n)ᵗ
    coordinates = (1 - remaining) * (projected / singular)
    outside = float(y @ y - projected @ projected)  # what no weights can reduce
    train_error = (np.square(remaining * projected).sum(1) + max(outside, 0.0)) / n
    return {
        "coordinates": coordinates,
        "basis": right.T,
        "train_error": train_error,
        "norm": np.linalg.norm(coordinates, axis=1),
    }


def stored_steps(iterations, fast_phase):
    """The step counts of a learning curve: 0, log-spaced, ``fast_phase`` and the last; ascending."""
    steps = np.geomspace(1, iterations, POINTS_PER_CURVE).round().astype(int)
    return np.unique([0, *steps, min(fast_phase, iterations), iterations])


def learning_curves(path, phi_test, y_test, fast_phase):
    """Errors and norms of ``path`` (of :func:`descend`) at :func:`stored_steps`, a frame."""
    steps = stored_steps(len(path["norm"]) - 1, fast_phase)
    predictions = phi_test @ (path["basis"] @ path["coordinates"][steps].T)  # (n_test, T)
    return pd.DataFrame(
        {
            "kind": "step",
            "step": steps,
            "train_error": path["train_error"][steps],
            "test_error": np.square(predictions - y_test[:, None]).mean(0),
            "weight_norm": path["norm"][steps],
        }
    )


def norms_at_reductions(path):
    """Weight norm at the first step that lowers the training loss by each of ``REDUCTIONS``, a frame."""
    reduction = 100 * (1 - path["train_error"] / path["train_error"][0])  # does not decrease for η ≤ 1
    first = np.searchsorted(reduction, REDUCTIONS)
    reached = first < len(reduction)
    first = first[reached]
    return pd.DataFrame(
        {
            "kind": "reduction",
            "reduction": np.array(REDUCTIONS)[reached],
            "step": first,
            "weight_norm": path["norm"][first],
        }
    )
