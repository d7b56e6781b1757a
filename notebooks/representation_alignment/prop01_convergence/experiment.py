"""Equation 3 beside gradient descent, Proposition 2's bound, two labels that cross (Section 6, Figure 9).

The representation is the hidden layer of a ReLU network on images of two classes, before (``init``) and after
training (``transfer``), with a constant and rows of length one; the labels are ±1. Step sizes are given as
multiples of σ_max⁻².
"""

import numpy as np
import pandas as pd
import torch

from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.loop import train
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.constant_feature import with_constant
from companion.studies.representation_alignment.shared.linear_descent import (
    descend,
    reducible,
    spectrum,
)

from .design import REPRESENTATIONS, TOLERANCE

LARGEST = 1e12  # a diverging run is compared until its loss is this many times ‖y‖²


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "step_size")}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


def compute(*, dataset, points, width, epochs, batch_size, rate, multiples, iterations, seed, device, report):
    """Train a network, then linear models on its hidden layer before and after. Rows, by ``kind``:

    ``spectrum`` : representation, index (from 1), sigma, gain, (u_iᵀ y)² over ‖y‖²;
    ``loss`` : representation, multiple, step, loss, ‖Φw_t − y‖² of gradient descent over ‖y‖², and
        equation, the same by Equation 3, at some steps;
    ``deviation`` : representation, multiple, deviation, largest difference over all steps of either line of
        Equation 3 (squared) over the larger of ‖y‖² and the loss; falls, whether no step raises the loss
        (beyond rounding).
    """
    x, y = images(dataset, points, seed)
    generator = torch_stream(seed, "prop01", "network")
    network = TwoLayer(x.shape[1], width, generator, device=device)
    features = {"init": network.hidden(x.to(device)).cpu()}
    train(
        adam_step(network, x.to(device), y.to(device)),
        len(y),
        batch_size=batch_size,
        epochs=epochs,
        rate=rate,
        generator=torch_stream(seed, "prop01", "batches"),
        device=device,
        report=lambda done, text: report(done / 2, text),
    )
    features["transfer"] = network.hidden(x.to(device)).cpu()
    tables = []
    for done, (name, hidden) in enumerate(features.items()):
        rows = linear_models(with_constant(hidden).numpy(), y.numpy(), multiples, iterations)
        tables.append(rows.assign(representation=name))
        report((2 + done + 1) / 4, REPRESENTATIONS[name])
    return pd.concat(tables, ignore_index=True)


def images(dataset, points, seed):
    """(x (n, pixels), rows of length one, y (n,) of ±1), float64: equally many of the first two classes."""
    data = load(dataset)
    order = numpy_stream(seed, "prop01", "images", dataset).permutation(len(data))
    picked = []
    for label in (0, 1):
        chosen = order[(data.y[order] == label).numpy()][: points // 2]
        if len(chosen) < points // 2:
            raise AlignbookError(f"{dataset} has {len(chosen)} images of class {label}, not {points // 2}")
        picked.append(chosen)
    picked = np.concatenate(picked)
    x = (data.x[picked].flatten(1).double() + 1) / 2
    y = torch.where(data.y[picked] == 1, 1.0, -1.0).double()
    return torch.nn.functional.normalize(x, dim=1), y


def linear_models(phi, y, multiples, iterations):
    """The rows of :func:`compute` for one Φ (n, d) and y (n,), float64."""
    left, singular = spectrum(phi)
    gains, size = np.square(left.T @ y), float(y @ y)
    rates = np.array(multiples) / singular[0] ** 2
    loss, distance = descend(phi, y, rates, iterations)
    every = np.arange(iterations + 1)
    stored = np.unique([0, *np.geomspace(1, iterations, 25).round().astype(int)])
    index = np.arange(1, len(singular) + 1)
    tables = [pd.DataFrame({"kind": "spectrum", "index": index, "sigma": singular, "gain": gains / size})]
    for n, (multiple, rate) in enumerate(zip(multiples, rates, strict=True)):
        exact = reducible(singular, gains, rate, every)
        total = exact + max(size - gains.sum(), 0.0)
        kept = total <= LARGEST * size
        scale = np.maximum(size, total[kept])
        found = np.maximum(
            np.abs(loss[kept, n] - total[kept]) / scale, np.abs(distance[kept, n] - exact[kept]) / scale
        )
        rises = np.diff(loss[kept, n]) / size
        row = {"kind": "deviation", "multiple": multiple, "deviation": found.max()}
        tables.append(pd.DataFrame([row | {"falls": float((rises <= TOLERANCE).all())}]))
        at = stored[kept[stored]]
        curve = {"multiple": multiple, "step": at, "loss": loss[at, n] / size, "equation": total[at] / size}
        tables.append(pd.DataFrame({"kind": "loss"} | curve))
    return pd.concat(tables, ignore_index=True)
