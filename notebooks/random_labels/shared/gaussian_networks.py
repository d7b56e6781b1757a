"""Fully connected networks that memorise random labels of Gaussian inputs (Figures 4 and 20, E.1)."""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.data import random_labels
from alignbook.kernels.many_mlps import step as descend
from alignbook.seeding import torch_stream
from alignbook.training.loop import train

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
    taken = memorised(weights, biases, x, targets, rate, goal=goal, max_steps=max_steps, report=report)
    rows = []
    for k, (layer, count, loss) in enumerate(taken):
        first = start[k].double().cpu().numpy()
        layer = layer.double().cpu().numpy()  # (dimension, hidden): columns are filters
        shared = {
            "kind": "gaussian",
            "network": seed * networks + k,
            "steps": count,
            "loss": loss,
            "converged": int(loss < goal),
            "displacement": np.linalg.norm(layer - first) / np.linalg.norm(first),
        }
        curve = zip(np.sqrt(variances(dimension)), layer.std(1), layer.mean(1), first.std(1), strict=True)
        rows += [
            {**shared, "index": i, "sigma": sigma, "tau": tau, "mean": mean, "tau_start": tau_start}
            for i, (sigma, tau, mean, tau_start) in enumerate(curve)
        ]
    return pd.DataFrame(rows)


def memorised(weights, biases, x, targets, rate, *, goal, max_steps, report):
    """[(first layer (in, out), steps, loss)] of each of K networks when its loss is first below ``goal``.

    weights, biases, x, targets : of :func:`alignbook.kernels.many_mlps.step`; they are trained in place until
    a network drops out. The loss is looked at every 10 steps, and after ``max_steps``, when all end.
    Raises Diverged.
    """
    left, taken = list(range(len(x))), {}

    def step(_, count):
        nonlocal weights, biases, x, targets, left
        look = count % CHECK_EVERY == 0 or count == max_steps
        before = weights[0].clone() if look else None
        losses = descend(weights, biases, x, targets, rate)
        if look:
            values = losses.tolist()
            kept = [k for k, loss in enumerate(values) if loss >= goal and count < max_steps]
            for k in set(range(len(left))).difference(kept):
                taken[left[k]] = (before[k].clone(), count, values[k])
            if len(kept) < len(left):
                left = [left[k] for k in kept]
                weights, biases = ([part[kept] for part in parts] for parts in (weights, biases))
                x, targets = x[kept], targets[kept]
        return losses.mean()

    # To the loop all inputs are one example, since every step sees them all; in place of a rate it passes on
    # how many steps were taken before.
    train(
        step, 1, batch_size=1, steps=max_steps + 1, rate=lambda count: count - 1,
        until=lambda now: not left, generator=torch.Generator(), report=report,
    )  # fmt: skip
    return [taken[k] for k in range(len(taken))]
