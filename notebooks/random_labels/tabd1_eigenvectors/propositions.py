"""Propositions 1 and 2 of Maennel et al. 2020, measured."""

import math

import numpy as np
import torch
from scipy import optimize
from scipy.stats import ortho_group
from torch import nn

from alignbook.metrics.misalignment import misalignment
from alignbook.seeding import numpy_stream, torch_stream

from .design import OPTIMISERS, PROPERTIES


def departures(dimension, width, inputs, steps, rate, seed, report):
    """Train a small network twice, the second time with inputs and first layer mapped by G ∈ 𝒢.

    𝒢 are the orthogonal maps that leave Σ_x as it is; G turns half of the axes of Σ_x around. Float64,
    batches of a quarter of the inputs, random labels. A list with a dict for each ``optimiser`` and position
    of Σ_x's axes (``axes``: "the coordinates'", "turned"): ``departure``, the distance of the second first
    layer from G applied to the first one, over how far training moved it.
    """
    stream = torch_stream(seed, "proposition 1")
    shapes = [(width, dimension), (width,), (8, width), (8,), (3, 8), (3,)]
    initial = [torch.randn(s, generator=stream, dtype=torch.float64) / s[-1] ** 0.5 for s in shapes]
    x = torch.randn(inputs, dimension, generator=stream, dtype=torch.float64)
    x *= torch.linspace(0.5, 2, dimension, dtype=torch.float64)
    y = torch.randint(3, (inputs,), generator=stream)
    order = torch.stack(
        [torch.randperm(inputs, generator=stream)[: max(1, inputs // 4)] for _ in range(steps)]
    )
    flips = torch.ones(dimension, dtype=torch.float64)
    flips[::2] = -1
    turn = ortho_group.rvs(dimension, random_state=numpy_stream(seed, "axes"))
    positions = {
        "the coordinates'": torch.eye(dimension, dtype=torch.float64),
        "turned": torch.from_numpy(turn),
    }
    rows = []
    for axes, basis in positions.items():
        g = basis @ (flips[:, None] * basis.T)
        data = x @ basis.T
        for name in OPTIMISERS:
            plain, mapped = (
                _first_layer(name, inputs_, y, [first, *initial[1:]], order, rate)
                for inputs_, first in ((data, initial[0]), (data @ g.T, initial[0] @ g.T))
            )
            departure = (mapped - plain @ g.T).norm() / (plain - initial[0]).norm()
            rows.append({"axes": axes, "optimiser": name, "departure": float(departure)})
            report(len(rows) / (2 * len(OPTIMISERS)), name)
    return rows


def _first_layer(optimiser, x, y, initial, order, rate):
    """First layer (width, d) after training from ``initial`` on the batches ``order``."""
    parameters = [value.clone().requires_grad_() for value in initial]
    if optimiser in ("AdaGrad", "Adam"):
        steps = getattr(torch.optim, "Adagrad" if optimiser == "AdaGrad" else "Adam")(parameters, lr=rate)
    else:
        steps = torch.optim.SGD(
            parameters,
            lr=rate,
            momentum=0.9 if optimiser in ("momentum", "Nesterov") else 0.0,
            nesterov=optimiser == "Nesterov",
            weight_decay=1e-3 if optimiser == "weight decay" else 0.0,
        )
    for batch in order:
        hidden = x[batch]
        for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            hidden = nn.functional.linear(hidden, weight, bias).relu()
        loss = nn.functional.cross_entropy(nn.functional.linear(hidden, *parameters[-2:]), y[batch])
        if optimiser == "L1 penalty":
            loss = loss + 1e-3 * parameters[0].abs().sum()
        steps.zero_grad()
        loss.backward()
        steps.step()
    return parameters[0].detach()


def properties(pairs, generator, report):
    """Proposition 2 on random pairs (A, B) of 5 × 5 matrices; A has one eigenspace of dimension 2.

    Returns {name: value} with the names of ``PROPERTIES``, which says what each value is.
    """
    spaces = [[0], [1], [2], [3, 4]]  # columns of V that share an eigenvalue of A
    found = {name: [] for name in PROPERTIES}

    def turned(vectors, values):
        return (vectors * np.asarray(values)) @ vectors.T

    def relative(value, reference):
        return abs(value - reference) / reference

    for pair in range(pairs):
        v, u = (ortho_group.rvs(5, random_state=generator) for _ in range(2))
        first, second = (np.cumsum(generator.uniform(0.3, 1.5, 4))[[0, 1, 2, 3, 3]] for _ in range(2))
        a = turned(v, first)
        b = turned(ortho_group.rvs(5, random_state=generator), generator.uniform(0.2, 5, 5))
        m, infimum = misalignment(a, b), _infimum(v, spaces, b)
        found["1"].append(max(0.0, -infimum))
        aligned = turned(v, second)
        found["2a"].append(misalignment(a, aligned))
        small = np.eye(5)
        small[:2, :2] = [[math.cos(0.01), -math.sin(0.01)], [math.sin(0.01), math.cos(0.01)]]
        found["2b"].append(float(misalignment(a, turned(v @ small, second)) > 1e-9))
        change = generator.standard_normal((5, 5))
        change = 1e-6 * (change + change.T) * np.abs(b).max()
        found["3"].append(abs(misalignment(a, b + change) - m))
        found["4"].append(relative(misalignment(u @ a @ u.T, u @ b @ u.T), m))
        found["5"].append(relative(misalignment(a, generator.uniform(1e-3, 1e3) * b), m))
        found["6"].append(relative(misalignment(aligned, b), m))
        found["7"].append(relative(m, infimum))
        report((pair + 1) / pairs, "pairs")
    last = np.diag([1.0, 2.0])
    found["A"].append(misalignment(np.eye(2), last) - misalignment(np.diag([1.0, 1 + 1e-6]), last))
    summary = {name: np.mean(values) if name == "2b" else max(values) for name, values in found.items()}
    return summary


def _infimum(vectors, spaces, b):
    """inf of tr(Σ⁻¹B + B⁻¹Σ)/2 - d over Σ with one eigenvalue on each of ``spaces``, by descent."""
    inverse = np.linalg.inv(b)

    def distance(logs):
        values = np.empty(len(b))
        for space, value in zip(spaces, np.exp(logs), strict=True):
            values[space] = value
        forward = np.trace((vectors / values) @ vectors.T @ b)
        return (forward + np.trace(inverse @ (vectors * values) @ vectors.T)) / 2 - len(b)

    return float(optimize.minimize(distance, np.zeros(len(spaces)), options={"gtol": 1e-8}).fun)
