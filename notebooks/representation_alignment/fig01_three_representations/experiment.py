"""Linear models on three non-linear representations, and how these align (Figures 1 and 5).

All have the same number of features: the hidden layer of a ReLU network and that of a network of radial basis
functions whose centres are trained (both on the labels), and a sparse code over a learned dictionary (which
sees no label). Rows of the inputs and of every representation have length one.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.loop import module_step, train
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve
from companion.studies.representation_alignment.shared.constant_feature import with_constant
from companion.studies.representation_alignment.shared.hidden_layers import squared
from companion.studies.representation_alignment.shared.linear_descent import linear_model, spectrum
from companion.studies.representation_alignment.shared.two_classes import rows

from .design import OTHER

RATE = 0.001  # of Adam, as in Section 7.1
BATCH = 64  # as in Section 4.2
CURVE = 60  # steps of gradient descent that are stored, evenly spaced in the logarithm


class RadialBasis(nn.Module):
    """features(x)_j = exp(−‖x − c_j‖² / (2 bandwidth²)), and a linear output of them.

    centres : (units, d), trained; the output's weights start uniform on ± 1/√units.
    """

    def __init__(self, centres, bandwidth, generator):
        super().__init__()
        self.centres, self.bandwidth = nn.Parameter(centres.clone()), bandwidth
        self.output = _linear(len(centres), 1, generator)

    def features(self, x):
        """(n, units) of x (n, d)."""
        squares = x.square().sum(1, keepdim=True) + self.centres.square().sum(1) - 2 * x @ self.centres.T
        return torch.exp(squares.clamp(min=0) / (-2 * self.bandwidth**2))

    def forward(self, x):
        return self.output(self.features(x))


class Rectified(nn.Module):
    """features(x) = max(W x + b, 0), and a linear output of them; initial values as nn.Linear's."""

    def __init__(self, inputs, units, generator):
        super().__init__()
        self.hidden, self.output = _linear(inputs, units, generator), _linear(units, 1, generator)

    def features(self, x):
        """(n, units) of x (n, d)."""
        return self.hidden(x).relu()

    def forward(self, x):
        return self.output(self.features(x))


def _linear(fan_in, out, generator):
    linear = nn.Linear(fan_in, out, device="meta")
    for name, shape in (("weight", (out, fan_in)), ("bias", (out,))):
        draw = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(fan_in)
        setattr(linear, name, nn.Parameter(draw))
    return linear


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


def compute(
    *,
    dataset,
    points,
    width,
    training_steps,
    bandwidth,
    other_bandwidth,
    penalty,
    dictionary_epochs,
    step_sizes,
    iterations,
    early,
    seed,
    device,
    report,
):
    """Make the representations, align them, train linear models. Rows of the table, by ``kind``:

    ``area`` : representation, area (:func:`alignment_grid.curve`), largest (σ_1 over √n), unfitted (what
        least squares leaves, over the labels' mean square), points, square (the labels' mean square), nonzero
        (share of features that are not 0), and loss, the network's last;
    ``curve`` : representation, threshold (over √n), alignment over ‖y‖²;
    ``step`` : representation, step_size, step, train_error and test_error (mean squared), of step sizes
        that converge.
    """
    data = rows(dataset, points, seed)
    (x, y), (x_test, y_test) = ((nn.functional.normalize(x, dim=1), y) for x, y in data.values())
    made, losses = {}, {}
    draw = torch_stream(seed, "fig01", "centres")
    centres = x[torch.randint(len(x), (width,), generator=draw)].float()
    networks = {
        "relu": Rectified(x.shape[1], width, torch_stream(seed, "fig01", "relu")),
        "rbf": RadialBasis(centres, bandwidth, torch_stream(seed, "fig01", "rbf")),
        OTHER: RadialBasis(centres, other_bandwidth, torch_stream(seed, "fig01", "rbf")),
    }
    for name, net in networks.items():
        net.to(device)
        inputs, labels = x.to(device, torch.float32), y.to(device, torch.float32)
        optimiser = torch.optim.Adam(net.parameters(), lr=RATE, fused=True)
        losses[name] = train(
            module_step(net, inputs, labels, optimiser, loss=squared),
            len(y),
            batch_size=BATCH,
            steps=training_steps,
            rate=RATE,
            generator=torch_stream(seed, "fig01", "batches"),
            device=device,
        ).loss
        with torch.no_grad():
            made[name] = [net.features(part.to(inputs)).cpu().double() for part in (x, x_test)]
        report(len(made) / 5, name)
    made["dictionary"] = sparse_codes(x, x_test, width, penalty, dictionary_epochs, seed)
    report(4 / 5, "dictionary")
    tables = []
    for name, (hidden, hidden_test) in made.items():
        table = measured(hidden, y, hidden_test, y_test, step_sizes, iterations, early)
        about = table["kind"] == "area"
        table.loc[about, "loss"] = losses.get(name, math.nan)
        table.loc[about, "nonzero"] = float((hidden != 0).double().mean())
        tables.append(table.assign(representation=name))
    return pd.concat(tables, ignore_index=True)


def sparse_codes(x, x_test, atoms, penalty, epochs, seed):
    """[(n, atoms), (n_test, atoms)] float64: codes of least ‖x − D c‖²/2 + penalty ‖c‖₁.

    The dictionary D is learned from x by scikit-learn's online algorithm (Mairal et al. 2009), ``epochs``
    passes.
    """
    import warnings

    from sklearn.decomposition import MiniBatchDictionaryLearning

    learner = MiniBatchDictionaryLearning(
        atoms,
        alpha=penalty,
        max_iter=epochs,
        batch_size=min(BATCH, len(x)),
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        random_state=int(numpy_stream(seed, "fig01", "dictionary").integers(2**31)),
    )
    with warnings.catch_warnings(action="ignore"):  # codes that are not exact to its last digit
        learner.fit(x.numpy())
        return [torch.from_numpy(learner.transform(part.numpy())) for part in (x, x_test)]


def measured(hidden, labels, hidden_test, labels_test, step_sizes, iterations, early):
    """The rows of :func:`compute` for one representation, tensors (n, d) and (n_test, d), without a constant.

    Alignment and linear models see the same matrix: a constant is appended, then rows get length one.
    """
    phi, phi_test = with_constant(hidden).numpy(), with_constant(hidden_test).numpy()
    y, y_test = labels.numpy(), labels_test.numpy()
    left, singular = spectrum(phi)
    gains = left.T @ y
    n, square = len(y), float(np.mean(y**2))
    area, alignment = curve(hidden, labels)  # which appends the constant and scales rows itself
    unfitted = max(float(np.mean(np.square(y - left @ gains))), 0.0) / square
    whole = {"area": area, "largest": singular[0] / math.sqrt(n), "unfitted": unfitted}
    tables = [
        pd.DataFrame([{"kind": "area", "points": n, "square": square} | whole]),
        pd.DataFrame(
            {
                "kind": "curve",
                "threshold": np.linspace(0, 1, THRESHOLDS).round(DIGITS),
                "alignment": alignment.round(DIGITS),
            }
        ),
    ]
    steps = np.unique([0, *np.geomspace(1, iterations, CURVE).round().astype(int), min(early, iterations)])
    for size in step_sizes:
        if size * singular[0] ** 2 / n < 2:
            errors = linear_model(phi, y, phi_test, y_test, size, steps)
            tables.append(pd.DataFrame({"kind": "step", "step_size": size, "step": steps} | errors))
    return pd.concat(tables, ignore_index=True)
