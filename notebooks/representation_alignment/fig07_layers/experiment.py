"""Alignment of every hidden layer with the labels, before and after training (Figure 7)."""

import numpy as np
import pandas as pd
import torch

from alignbook.data.tables import TABLES, load_table
from alignbook.metrics.alignment_curve import alignment_curve
from alignbook.seeding import numpy_stream, torch_stream
from companion.jobs import jobs_over

from ..shared import hidden_layers
from ..shared.alignment_area import area

THRESHOLDS = 101  # from 0 to √n, which no singular value exceeds


def jobs(parameters):
    """One job per data set and seed."""
    shared = {name: value for name, value in parameters.items() if name not in ("datasets", "seeds")}
    if shared["darkest"] == 0:  # as jobs are stored under
        del shared["darkest"]
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, shared, dataset=datasets, seed=seeds)


def compute(
    *, dataset, points, width, layers, batch_size, rate, remaining, further, max_epochs, checkpoints, seed,
    device, report, darkest=0.0,
):  # fmt: skip
    """Train on labels ±1 (logistic loss) or numbers (squared loss); layer 0 are the inputs. Rows:

    ``curve`` : state (before, after, further), layer, threshold, alignment, Equation 2 over ‖y‖²;
    ``area`` : layer, epoch (0: before training), area, that of Figure 10's page;
    ``further`` : layer, area, after more training, until ``further`` of the loss is left;
    ``training`` : epoch (epochs trained), share, training loss of the last epoch over that of outputs of
        zero, more_epochs and further_share, the same of the further training, and examples, how many.
    """
    x, y = examples(dataset, points, seed, darkest)
    sizes = [x.shape[1], *[width] * layers, 1]
    net = hidden_layers.network(sizes, torch_stream(seed, "fig07", "network"), device=device)
    rows, inputs = [], area(x.double(), y.double())

    def measure(epoch, kind="area"):
        features = [x, *hidden_layers.representations(net, x)]
        found = [inputs, *(area(phi, y.double()) for phi in features[1:])]
        about = {"kind": kind, "epoch": epoch}
        rows.extend(about | {"layer": layer, "area": value} for layer, value in enumerate(found))
        return features

    features = {"before": measure(0)}
    loss = hidden_layers.squared if dataset in TABLES else hidden_layers.logistic
    start = float(loss(torch.zeros(len(y), 1), y))
    shared = {"loss": loss, "batch_size": batch_size, "rate": rate, "max_epochs": max_epochs}
    shared |= {"generator": torch_stream(seed, "fig07", "batches"), "report": report}
    trained = hidden_layers.fit(net, x, y, remaining=remaining, at=checkpoints, on=measure, **shared)
    rows = [row for row in rows if row["epoch"] != trained.epochs]
    features["after"] = measure(trained.epochs)
    # Adam begins anew; another question than the figure's, which ends above.
    more = hidden_layers.fit(net, x, y, remaining=further, **shared)
    features["further"] = measure(trained.epochs + more.epochs, kind="further")
    grid = np.linspace(0, np.sqrt(len(y)), THRESHOLDS)
    for state, representations in features.items():
        for layer, phi in enumerate(representations):
            _, alignment = alignment_curve(phi, y, grid)
            shares = alignment / float(y.double().square().sum())
            about = {"kind": "curve", "state": state, "layer": layer}
            rows += [about | {"threshold": t, "alignment": a} for t, a in zip(grid, shares, strict=True)]
    outcome = {"kind": "training", "epoch": trained.epochs, "share": trained.loss / start}
    outcome |= {"more_epochs": more.epochs, "further_share": more.loss / start, "examples": len(y)}
    rows.append(outcome)
    return pd.DataFrame(rows)


def examples(dataset, points, seed, darkest=0.0):
    """(x (n, d), y (n,)) float32: images of the first two classes, or rows of a table with labels in [−1, 1].

    Pixels go from ``darkest`` to 1; a table's numbers are as they are.

    ``points`` at random; of a table with fewer rows, all. Raises AlignbookError for too few images.
    """
    if dataset not in TABLES:
        x, y = hidden_layers.two_classes(dataset, points, seed, halves=False)
        return x * (1 - darkest) + darkest, y
    table = load_table(dataset)
    chosen = numpy_stream(seed, "fig07", dataset).permutation(len(table.y))[:points]
    low, high = table.y.min(), table.y.max()
    y = 2 * (table.y[chosen] - low) / (high - low) - 1
    return torch.from_numpy(table.x[chosen]).float(), torch.from_numpy(y).float()
