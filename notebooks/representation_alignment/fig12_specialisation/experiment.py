"""Alignment of every hidden layer with the source and the related peaks function (Figure 12).

Tasks and inputs are those of Figure 10 (:mod:`.peaks_source`), the network has several hidden layers.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.metrics.alignment_curve import alignment_curve
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over

from ..shared import hidden_layers, peaks_source
from ..shared.alignment_area import area
from ..shared.peaks_design import NORMALISATIONS, TASKS

THRESHOLDS = 101  # from 0 to √n: steps of 1 for n = 10000


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


def compute(
    *, points, width, layers, batch_size, rate, remaining, max_epochs, checkpoints, seed, device, report
):
    """Train on the source task and measure every layer; layer 0 are the inputs. Rows, by ``kind``:

    ``curve`` : task, layer, threshold, alignment, Equation 2, after training;
    ``area`` : task, layer, epoch (0: before training), normalisation, area: that of Figure 10's page;
    ``training`` : epoch (epochs trained), training_loss, of the last epoch, and share, the same over the
        labels' variance.
    """
    source = peaks_source.draw(seed, points)
    sizes = [source.inputs.shape[1], *[width] * layers, 1]
    # float64 for the reason that kernels.two_layer_adam gives.
    generator = torch_stream(seed, "fig12", "network")
    net = hidden_layers.network(sizes, generator, device=device, dtype=torch.float64)
    rows = []

    def measure(epoch, normalisations=NORMALISATIONS[:1]):
        features = [source.inputs, *hidden_layers.representations(net, source.inputs)]
        for layer, phi in enumerate(features):
            for normalisation in normalisations:
                about = {"kind": "area", "layer": layer, "epoch": epoch, "normalisation": normalisation}
                rows.extend(about | {"task": task, "area": area(phi, source.labels[task], normalisation)}
                            for task in TASKS)  # fmt: skip
        return features

    measure(0, NORMALISATIONS)
    trained = hidden_layers.fit(
        net,
        source.inputs,
        source.labels["source"],
        loss=hidden_layers.squared,
        batch_size=batch_size,
        rate=rate,
        remaining=remaining,
        max_epochs=max_epochs,
        generator=torch_stream(seed, "fig12", "batches"),
        at=checkpoints,
        on=measure,
        report=report,
    )
    rows = [row for row in rows if row["epoch"] != trained.epochs]
    features = measure(trained.epochs, NORMALISATIONS)
    grid = np.linspace(0, np.sqrt(points), THRESHOLDS)
    for layer, phi in enumerate(features):
        for task in TASKS:
            _, alignment = alignment_curve(phi, source.labels[task], grid)
            about = {"kind": "curve", "task": task, "layer": layer}
            rows += [about | {"threshold": t, "alignment": a} for t, a in zip(grid, alignment, strict=True)]
    share = trained.loss / float(source.labels["source"].square().mean())
    rows.append({"kind": "training", "epoch": trained.epochs, "training_loss": trained.loss, "share": share})
    table = pd.DataFrame(rows)
    table["same_decider"] = float(source.functions["source"].x == source.functions["related"].x)
    return table
