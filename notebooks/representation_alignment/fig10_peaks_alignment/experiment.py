"""Alignment of original, initial and transferred representations with peaks functions (Figure 10)."""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.metrics import alignment_curve
from alignbook.studies.representation_alignment import peaks_source
from alignbook.studies.representation_alignment.peaks_source import REPRESENTATIONS, TASKS

THRESHOLDS = 101  # from 0 to √n/2: steps of 0.5 for n = 10000

# What is scaled to length one, and whether a constant feature stands for the bias unit.
NORMALISATIONS = ("constant, then length one", "length one, then constant", "no constant")


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(*, points, width, checkpoints, seed, device, report, **training):
    """Train on S (``training`` goes to peaks_source.train) and measure. Rows of the table, by ``kind``:

    ``curve`` : task, representation, threshold, alignment: Equation 2 with centred, unscaled labels;
    ``area`` : task, representation, normalisation, area: see :func:`area`, and ``function``, e.g. ABC;
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


def area(features, labels, normalisation=NORMALISATIONS[0]):
    """Area under the alignment curve over ‖y‖² √n, float in [0, 1]; features (n, d), labels (n,).

    The area is ∫ Alignment(Φ, y, τ) dτ = Σ σᵢ (uᵢᵀ y)². Divided by ‖y‖² √n, it is 1 when y lies on one
    direction that holds all of a representation with rows of length one, whose largest singular value is
    √n at most. One number for "higher alignment over a wide range of thresholds".
    """
    if normalisation == "length one, then constant":
        features = torch.nn.functional.normalize(features, dim=1)
    thresholds, alignment = alignment_curve(features, labels, bias=normalisation != "no constant")
    total = float((alignment[1:] * np.diff(thresholds)).sum())
    return total / (float(labels @ labels) * np.sqrt(len(labels)))


def _areas(labels, features, **about):
    normalisation = about.get("normalisation", NORMALISATIONS[0])
    return [about | {"task": task, "area": area(features, y, normalisation)} for task, y in labels.items()]


# (task, representation that the transferred one is compared with, sign, panel)
_CLAIMS = (
    ("source", "init", 1, "(a)"),
    ("source", "original", 1, "(a), Section 5"),
    ("related", "init", 1, "(b)"),
    ("related", "original", 1, "(b)"),
    ("unrelated", "init", -1, "(c)"),
    ("unrelated", "original", -1, "(c)"),
)
_NAMES = {"init": "the initial representation", "original": "the inputs"}


def claims(table, parameters):
    """The six comparisons of Figure 10, by the difference of areas in each run (see :func:`area`)."""
    return compare({task: final_areas(table, task) for task in TASKS})


HEADLINE = "related-above-original"


def finding(table, parameters):
    """What training on the source task does to alignment, by task, against the inputs."""
    parts = []
    for task in TASKS:
        areas = final_areas(table, task)
        if areas is not None:
            change = 100 * (areas["transfer"] / areas["original"] - 1)
            parts.append(f"{task} {change.mean():+.0f} %")
    return f"Area under the alignment curve, trained features against the inputs: {', '.join(parts)}."


def key_numbers(table, parameters):
    """Areas after training against those before it."""
    result = []
    for task in TASKS:
        areas = final_areas(table, task)
        if areas is not None:
            difference = interval(areas["transfer"] - areas["init"], "{:+.3f}")
            result.append(KeyNumber(f"area after training less before, {task} task", difference))
    return result


def compare(areas):
    """The claims on ``areas``: {task: areas after training, as of :func:`final_areas`}."""
    result = []
    for task, other, sign, panel in _CLAIMS:
        identity = f"{task}-{'above' if sign > 0 else 'below'}-{other}"
        more, where = "more" if sign > 0 else "less", f"Figure 10 {panel}"
        statement = (
            f"After training on S, the hidden representation aligns {more} with the {task} task's labels "
            f"than {_NAMES[other]} (difference of areas under the alignment curves)"
        )
        if areas[task] is None:
            claim = Claim.missing(identity, statement, where, "no finished run")
        else:
            values = sign * (areas[task]["transfer"] - areas[task][other])
            claim = Claim.greater(identity, statement, where, values)
        shared = f"Training on S aligns the hidden representation {more} with the {task} task"
        result.append(claim.tagged(f"{shared}: {more} than before, {more} than the inputs."))
    return result


def final_areas(table, task, normalisation=NORMALISATIONS[0]):
    """Areas after training, (seeds × representations) frame, or None when nothing is there."""
    if "area" not in table:
        return None
    rows = table[(table["task"] == task) & (table["normalisation"] == normalisation)]
    return None if rows.empty else rows.pivot(index="seed", columns="representation", values="area")
