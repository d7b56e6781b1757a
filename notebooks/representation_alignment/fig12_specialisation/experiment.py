"""Alignment of every hidden layer with the source and the related peaks function (Figure 12).

Tasks and inputs are those of Figure 10 (:mod:`.peaks_source`), the network has several hidden layers.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.metrics import alignment_curve
from alignbook.seeding import torch_stream
from alignbook.studies.representation_alignment import hidden_layers, peaks_source
from alignbook.studies.representation_alignment.alignment_area import area
from alignbook.studies.representation_alignment.peaks_design import NORMALISATIONS, TASKS

HEADLINE = "specialises"
THRESHOLDS = 101  # from 0 to √n: steps of 1 for n = 10000


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


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


def areas(table, task, when="trained", normalisation=NORMALISATIONS[0]):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"trained"``, the last epoch of every run, or an epoch, of the runs that it was measured in
    """
    if table.empty or "area" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == "area") & (table["task"] == task)]
    rows = rows[rows["normalisation"] == normalisation]
    last = rows.groupby("seed")["epoch"].transform("max")
    rows = rows[rows["epoch"] == (last if when == "trained" else when)]
    return rows.astype({"layer": int}).pivot(index="seed", columns="layer", values="area")


def weakest_step(values):
    """Per seed, the rise of the area between two hidden layers that are neighbours, (seeds,) array.

    values : frame of :func:`areas`. Between which two: where the other seeds' mean rises least, so that
    chance in a seed does not make its own smallest rise.
    """
    steps = values.drop(columns=0).diff(axis=1).iloc[:, 1:].to_numpy()
    if len(steps) < 2:
        return steps.min(1)
    others = (steps.sum(0) - steps) / (len(steps) - 1)
    return steps[np.arange(len(steps)), others.argmin(1)]


def specialisation(source, related):
    """Per seed, how far the areas rise at every step on the source task and fall at one on the related.

    The smaller of the two: above 0 where both is so. Frames of :func:`areas`; (seeds,) array.
    """
    return np.minimum(weakest_step(source), -weakest_step(related))


def claims(table, parameters):
    """Rules written before quick ran: differences of areas in each run, see :func:`weakest_step`."""
    source, related = areas(table, "source"), areas(table, "related")
    return compare(source, related, areas(table, "source", 0), areas(table, "related", 0))


_STATEMENTS = {
    "specialises": (
        "Layer by layer, alignment with the source task rises at every step, that with the related task does "
        "not: it falls at one (the smaller of weakest rise and strongest fall, in area)",
        "Figure 12, Section 7.1",
    ),
    "source-monotone": (
        "After training, each hidden layer aligns better with the source task than the one before it "
        "(weakest rise, in area)",
        "Figure 12, left",
    ),
    "related-not-monotone": (
        "With the related task some hidden layer aligns worse than the one before it (strongest fall, in "
        "area)",
        "Figure 12, right",
    ),
    "last-not-better": (
        "The last hidden layer aligns less with the related task than the first (difference of areas)",
        "Figure 12, caption",
    ),
    "from-training": (
        "Training, not the architecture, makes the order: with the source task the last hidden layer gains "
        "more than the first (difference of gains in area)",
        "Sections 5 and 7.1",
    ),
}


def compare(source, related, source_before, related_before):
    """The claims on frames of :func:`areas`, after and before training."""
    measured = {}
    if not source.empty:
        gain = source - source_before
        measured = {
            "specialises": specialisation(source, related),
            "source-monotone": weakest_step(source),
            "related-not-monotone": -weakest_step(related),
            "last-not-better": related[1] - related.iloc[:, -1],
            "from-training": gain.iloc[:, -1] - gain[1],
        }
    made = []
    for id, (statement, where) in _STATEMENTS.items():
        if id in measured:
            made.append(Claim.greater(id, statement, where, measured[id], what="run"))
        else:
            made.append(Claim.missing(id, statement, where, "no finished run"))
    return made


def finding(table, parameters):
    """Areas from the first to the last hidden layer, source and related task."""
    parts = []
    for task in ("source", "related"):
        values = areas(table, task)
        if values.empty:
            return "Nothing was computed."
        means = values.drop(columns=0).mean()
        steps = means.diff().iloc[1:]
        way = "rises at every step" if (steps > 0).all() else "falls at every step"
        if (steps > 0).any() and (steps <= 0).any():
            way = "rises and falls"
        found = " → ".join(f"{value:.3f}" for value in means)
        parts.append(f"with the {task} task it {way}, {found}")
    runs = len(areas(table, "source"))
    return (
        f"Area under the alignment curve from the first hidden layer to the last, mean of {runs} "
        f"run{'s' if runs > 1 else ''}: {'; '.join(parts)}."
    )


def key_numbers(table, parameters):
    """Last hidden layer less first, by task; runs in which each is as the paper has it."""
    made, rising = [], []
    for task in ("source", "related"):
        values = areas(table, task)
        if values.empty:
            return []
        rise = interval(values.iloc[:, -1] - values[1], "{:+.3f}")
        made.append(KeyNumber(f"area, last hidden layer less first, {task} task", rise))
        rising.append(f"{task} {monotone(values).sum()} of {len(values)}")
    said = ", ".join(rising)
    return [*made, KeyNumber("runs in which every step is a rise", said)]


def monotone(values):
    """Whether the areas of a seed rise from each hidden layer to the next, (seeds,) Series of bool."""
    return (values.drop(columns=0).diff(axis=1).iloc[:, 1:] > 0).all(axis=1)
