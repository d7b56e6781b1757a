"""Alignment of original, initial and transferred representations with peaks functions (Figure 10)."""

import numpy as np
import pandas as pd

from alignbook.metrics.alignment_curve import alignment_curve
from companion.jobs import jobs_over

from ..shared import peaks_source
from ..shared.alignment_area import area
from ..shared.peaks_design import NORMALISATIONS, REPRESENTATIONS, TASKS

THRESHOLDS = 101  # from 0 to √n/2: steps of 0.5 for n = 10000


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


def compute(*, points, width, checkpoints, seed, device, report, **training):
    """Train on S (``training`` goes to peaks_source.train) and measure. Rows of the table, by ``kind``:

    ``curve`` : task, representation, threshold, alignment: Equation 2 with centred, unscaled labels;
    ``area`` : task, representation, normalisation, area (alignment_area.py), and ``function``, e.g. ABC;
    ``checkpoint`` : task, epoch, area: of the hidden representation in training, epoch 0 included;
    ``training`` : epoch (epochs trained), converged (0 or 1), training_loss.
    """
    source = peaks_source.draw(seed, points)
    network = peaks_source.initial_network(seed, width, device)
    features = {"original": source.inputs, "init": peaks_source.extract(network, source.inputs)}
    rows = _areas(source.labels, features["init"], kind="checkpoint", epoch=0)

    def on(epoch):
        if epoch in checkpoints:
            hidden = peaks_source.extract(network, source.inputs)
            rows.extend(_areas(source.labels, hidden, kind="checkpoint", epoch=epoch))

    epochs, converged, loss = peaks_source.train(network, source, seed=seed, report=report, on=on, **training)
    outcome = {"epoch": epochs, "converged": int(converged), "training_loss": loss}
    rows.append({"kind": "training"} | outcome)
    features["transfer"] = peaks_source.extract(network, source.inputs)

    grid = np.linspace(0, np.sqrt(points) / 2, THRESHOLDS)
    for task in TASKS:
        for representation in REPRESENTATIONS:
            _, alignment = alignment_curve(features[representation], source.labels[task], grid)
            about = {"kind": "curve", "task": task, "representation": representation}
            rows += [about | {"threshold": t, "alignment": a} for t, a in zip(grid, alignment, strict=True)]
    for normalisation in NORMALISATIONS:
        for name in REPRESENTATIONS:
            about = {"kind": "area", "representation": name, "normalisation": normalisation}
            rows += _areas(source.labels, features[name], **about)
    table = pd.DataFrame(rows)
    table["function"] = [
        str(source.functions[task]) if kind == "area" else None
        for kind, task in zip(table["kind"], table["task"], strict=True)
    ]
    return table


def _areas(labels, features, **about):
    normalisation = about.get("normalisation", NORMALISATIONS[0])
    return [about | {"task": task, "area": area(features, y, normalisation)} for task, y in labels.items()]
