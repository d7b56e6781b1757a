"""Fully connected networks that memorise random labels of Gaussian inputs (Figures 4 and 20, E.1)."""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.data import random_labels
from alignbook.errors import require_finite
from alignbook.kernels.many_mlps import step as descend
from alignbook.seeding import torch_stream

STORED_AS = "random_labels/fig04_transfer_function"  # where the tables of these networks are kept
CLASSES = 10  # E.1
CHECK_EVERY = 10  # steps between looks at the losses


def variances(dimension):
    """Eigenvalues σ² of the input covariance, 0.1, 0.2, … (caption of Figure 4, E.1); (dimension,)."""
    return 0.1 * np.arange(1, dimension + 1)


def compute(*, inputs, networks, dimension, hidden, rate, goal, max_steps, seed, device, report):
    """Train ``networks`` networks to convergence on data of their own, all in one batched program.

    Network: dimension-hidden-hidden-10, ReLU, He normal weights, zero biases. Each sees ``inputs``
    Gaussian vectors with covariance diag(0.1, 0.2, …) and random labels, and descends the mean
    cross-entropy of all of them at ``rate``. Its first layer is taken when its loss, looked at every 10
    steps, is first below ``goal`` (nats), else after ``max_steps``.

    Returns one row per network and input direction, ``kind == "gaussian"``: ``network`` (0, 1, …),
    ``index``, ``sigma``, ``tau`` (standard deviation over the network's filters), ``mean`` (over them),
    ``tau_start`` (before training), ``steps``, ``loss``, ``converged`` (0 or 1), ``displacement``.
    Raises Diverged.
    """
    variance = torch.tensor(variances(dimension), dtype=torch.float32)
    generator = torch_stream(seed, "gaussian", inputs)
    x = torch.randn(networks, inputs, dimension, generator=generator) * variance.sqrt()
    labels = random_labels(networks * inputs, CLASSES, generator).reshape(networks, inputs)
    sizes = [dimension, hidden, hidden, CLASSES]
    weights = [
        (torch.randn(networks, before, after, generator=generator) * math.sqrt(2 / before)).to(device)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    biases = [torch.zeros(networks, 1, after, device=device) for after in sizes[1:]]
    x = x.to(device)
    targets = torch.nn.functional.one_hot(labels, CLASSES).float().to(device)
    start = weights[0].clone()
    taken = [None] * networks  # (first layer, steps, loss, converged) of each network
    for count in range(max_steps + 1):
        look = count % CHECK_EVERY == 0 or count == max_steps
        before = weights[0].clone() if look else None
        losses = descend(weights, biases, x, targets, rate)
        if look:
            values = losses.tolist()
            require_finite(sum(values), count)
            for k, loss in enumerate(values):
                if taken[k] is None and (loss < goal or count == max_steps):
                    taken[k] = (before[k].clone(), count, loss, int(loss < goal))
            if all(taken):
                break
            report(count / max_steps, f"step {count}, loss {max(values):.3f}")
    rows = []
    for k, (layer, count, loss, converged) in enumerate(taken):
        first = start[k].double().cpu().numpy()
        layer = layer.double().cpu().numpy()  # (dimension, hidden): columns are filters
        shared = {
            "kind": "gaussian",
            "network": seed * networks + k,
            "steps": count,
            "loss": loss,
            "converged": converged,
            "displacement": np.linalg.norm(layer - first) / np.linalg.norm(first),
        }
        curve = zip(np.sqrt(variances(dimension)), layer.std(1), layer.mean(1), first.std(1), strict=True)
        rows += [
            {**shared, "index": i, "sigma": sigma, "tau": tau, "mean": mean, "tau_start": tau_start}
            for i, (sigma, tau, mean, tau_start) in enumerate(curve)
        ]
    return pd.DataFrame(rows)
