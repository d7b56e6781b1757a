"""Transfer functions of Gaussian inputs that only fall, rise and fall, only rise (Figure 20, Appendix E.1).

The network of the right panel is the one of Figure 4 (left): its jobs are Figure 4's, stored there.
"""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.data import random_labels
from alignbook.seeding import torch_stream
from companion.jobs import Job

from ..shared import gaussian_networks as fig04  # a name that the digest of what is stored has read
from .design import settings


def jobs(parameters):
    """Groups of networks for each panel; the right panel's are Figure 4's."""
    shared = {name: parameters[name] for name in ("networks", "rate", "goal", "max_steps", "hidden")}
    made = []
    for panel in ("left", "middle"):
        dimension, lowest, first, _, inputs = settings(parameters)[panel]
        for group in range(parameters["groups"]):
            own = {"dimension": dimension, "lowest": lowest, "first_hidden": first, "inputs": inputs}
            made.append(Job(f"{panel}-group{group}", compute, shared | own | {"seed": group}))
    dimension, *_, inputs = settings(parameters)["right"]
    for group in range(parameters["groups_right"]):
        arguments = shared | {"dimension": dimension, "inputs": inputs, "seed": group}
        made.append(Job(f"gaussian-{inputs}-group{group}", fig04.compute, arguments))
    return made


def compute(
    *,
    dimension,
    lowest,
    first_hidden,
    hidden,
    inputs,
    networks,
    rate,
    goal,
    max_steps,
    seed,
    device,
    report,
):
    """Train ``networks`` networks dimension-first_hidden-hidden-10 on Gaussian inputs, as Figure 4's.

    Covariance diag(lowest, lowest + 0.1, …); He normal weights, zero biases; every network has ``inputs``
    inputs and random labels of its own and descends their mean cross-entropy at ``rate``. Its first layer is
    taken when its loss, looked at every 10 steps, is first below ``goal`` (nats), else after ``max_steps``.
    Columns as in Figure 4's: one row per network and direction. Raises Diverged.
    """
    sigma = (lowest + 0.1 * torch.arange(dimension, dtype=torch.float64)).sqrt()
    generator = torch_stream(seed, "figure 20", dimension, inputs)
    x = torch.randn(networks, inputs, dimension, generator=generator) * sigma.float()
    labels = random_labels(networks * inputs, fig04.CLASSES, generator).reshape(networks, inputs)
    sizes = [dimension, first_hidden, hidden, fig04.CLASSES]
    weights = [
        (torch.randn(networks, before, after, generator=generator) * math.sqrt(2 / before)).to(device)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    biases = [torch.zeros(networks, 1, after, device=device) for after in sizes[1:]]
    x = x.to(device)
    targets = torch.nn.functional.one_hot(labels, fig04.CLASSES).float().to(device)
    start = weights[0].clone()
    taken = fig04.memorised(weights, biases, x, targets, rate, goal=goal, max_steps=max_steps, report=report)
    tables = []
    for k, (layer, count, loss) in enumerate(taken):
        found = {"steps": count, "loss": loss, "converged": int(loss < goal)}
        rows = _rows(sigma, start[k], layer)
        tables.append(rows.assign(kind="gaussian", network=seed * networks + k, **found))
    return pd.concat(tables, ignore_index=True)


def _rows(sigma, first, last):
    """One network's rows: ``first``, ``last`` (dimension, filters), its first layer before and after."""
    first, last = (layer.double().cpu().numpy() for layer in (first, last))
    return pd.DataFrame(
        {
            "index": range(len(sigma)),
            "sigma": sigma.numpy(),
            "tau": last.std(1),
            "mean": last.mean(1),
            "tau_start": first.std(1),
            "displacement": np.linalg.norm(last - first) / np.linalg.norm(first),
        }
    )
