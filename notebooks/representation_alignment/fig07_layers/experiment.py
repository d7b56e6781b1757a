"""Alignment of every hidden layer with the labels, before and after training (Figure 7)."""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.data.tables import ROWS, TABLES, load_table
from alignbook.experiments import Unit
from alignbook.metrics import alignment_curve
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.studies.representation_alignment import hidden_layers
from alignbook.studies.representation_alignment.alignment_area import area
from alignbook.studies.representation_alignment.fig12_specialisation.experiment import monotone, weakest_step

HEADLINE = "order"
THRESHOLDS = 101  # from 0 to √n, which no singular value exceeds
NAMES = {"mnist": "MNIST", "ct_slices": "CT Position", "cifar10": "CIFAR-10"}


def units(parameters):
    """One unit per data set and seed."""
    shared = {name: value for name, value in parameters.items() if name not in ("datasets", "seeds")}
    if shared["darkest"] == 0:  # as units are stored under
        del shared["darkest"]
    return [
        Unit(f"{dataset}-seed{seed}", compute, shared | {"dataset": dataset, "seed": seed})
        for dataset in parameters["datasets"]
        for seed in range(parameters["seeds"])
    ]


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


def areas(table, dataset, when="after"):
    """Areas under the alignment curves, frame of (seeds × layers), layer 0 the inputs; empty without runs.

    when : ``"after"``, at convergence, ``"further"``, after more training, or an epoch, of the runs that it
        was measured in
    """
    if table.empty or "area" not in table:
        return pd.DataFrame()
    kind = "further" if when == "further" else "area"
    rows = table[(table["kind"] == kind) & (table["dataset"] == dataset)]
    if when != "further":
        last = rows.groupby("seed")["epoch"].transform("max")
        rows = rows[rows["epoch"] == (last if when == "after" else when)]
    return rows.astype({"layer": int}).pivot(index="seed", columns="layer", values="area")


def measured(table, dataset):
    """{statement: (seeds,) Series}, above 0 where it is so; empty without runs."""
    after, before = areas(table, dataset), areas(table, dataset, 0)
    if after.empty:
        return {}
    found = {
        "rises": weakest_step(after),
        "falls": weakest_step(-before),
        "gains": weakest_step(after - before),
        "inputs-after": after[1] - after[0],
        "inputs-before": before[0] - before[1],
    }
    return {name: pd.Series(values, index=after.index) for name, values in found.items()}


_STATEMENTS = {
    "rises": (
        "After training, each hidden layer aligns better than the one before it",
        "weakest rise, in area",
    ),
    "falls": ("Before training the order is reversed: each aligns worse", "weakest fall, in area"),
    "gains": (
        "Training increases alignment more for layers closer to the output",
        "weakest rise of the gain in area",
    ),
    "inputs-after": (
        "After training, the first hidden layer aligns better than the inputs",
        "difference of areas",
    ),
    "inputs-before": (
        "Before training, the first hidden layer aligns worse than the inputs",
        "difference of areas",
    ),
}


def claims(table, parameters):
    """Rules written before quick ran: differences of areas in each run (Figure 12's ``weakest_step``)."""
    found = {dataset: measured(table, dataset) for dataset in parameters["datasets"]}
    about = (
        "order",
        "On every data set, alignment rises from one hidden layer to the next after training and falls "
        "before it (weakest step of all, in area)",
        "Figure 7, Section 5",
    )
    if all(found.values()):
        weakest = [values[name] for values in found.values() for name in ("rises", "falls")]
        made = [Claim.greater(*about, pd.concat(weakest, axis=1).min(axis=1), what="run")]
    else:
        made = [Claim.missing(*about, "no finished run of some data set")]
    for name, (statement, what) in _STATEMENTS.items():
        source = "Figure 7, caption" if name == "gains" else "Figure 7, Section 5"
        for dataset, values in found.items():
            about = (f"{name}-{dataset}", f"{statement}: {NAMES.get(dataset, dataset)} ({what})", source)
            if values:
                claim = Claim.greater(*about, values[name], what="run")
            else:
                claim = Claim.missing(*about, "no finished run")
            made.append(claim.tagged(f"{statement}."))
    return made


def finding(table, parameters):
    """Mean areas of the hidden layers after training, what is not as in the paper, and before training."""
    parts, falls, otherwise = [], [], []
    for dataset in parameters["datasets"]:
        after, before = areas(table, dataset), areas(table, dataset, 0)
        if not after.empty:
            name = NAMES.get(dataset, dataset)
            further = _unlike(areas(table, dataset, "further"))
            unlike = _unlike(after)
            unlike += f", trained on{further}" if unlike and further else ""
            parts.append(f"{name}{stand_in(table, dataset)} {arrows(after, 2)}{unlike}")
            (otherwise if _unlike(-before) else falls).append(name)
    if not parts:
        return "Nothing was computed."
    said = f"Area under the alignment curve, first to last hidden layer, after training: {'; '.join(parts)}."
    said += f" Before training it falls from each to the next on {' and '.join(falls)}." if falls else ""
    said += (
        f" Before training it does not fall at every step on {' and '.join(otherwise)}." if otherwise else ""
    )
    return said


def _unlike(values):
    """`` (last step undecided)``: the steps between hidden layers that are not found to rise, or nothing."""
    if values.empty:
        return ""
    hidden = values.drop(columns=0)
    last, parts = hidden.columns[-1], []
    for layer in hidden.columns[1:]:
        outcome = Claim.greater("step", "", "", hidden[layer] - hidden[layer - 1]).outcome
        if outcome != HOLDS:
            step = "last step" if layer == last else f"step to layer {layer}"
            parts.append(f"{step} {'falls' if outcome == CONTRADICTED else 'undecided'}")
    return f" ({', '.join(parts)})" if parts else ""


def arrows(values, digits=3):
    """``0.12 → 0.34``: mean areas of the hidden layers."""
    return " → ".join(f"{value:.{digits}f}" for value in values.drop(columns=0).mean())


def stand_in(table, dataset):
    """`` (682 of its 53,500 rows)`` where fewer than all could be had, else nothing."""
    if dataset != "ct_slices":
        return ""
    rows = table[(table["kind"] == "training") & (table["dataset"] == dataset)]
    points, had = int(rows["points"].max()), int(rows["examples"].max())
    return f" (a stand-in: {had} of its {ROWS:,} rows)" if had < points else ""


def key_numbers(table, parameters):
    """Last hidden layer less first, after and before; runs in which the order is the paper's."""
    made, ordered = [], []
    for dataset in parameters["datasets"]:
        after, before = areas(table, dataset), areas(table, dataset, 0)
        if not after.empty:
            name = NAMES.get(dataset, dataset)
            change = [interval(values.iloc[:, -1] - values[1], "{:+.3f}") for values in (before, after)]
            what = f"area, last hidden layer less first, before / after training, {name}"
            made.append(KeyNumber(what, " / ".join(change)))
            right = monotone(after) & monotone(-before)
            ordered.append(f"{name} {right.sum()} of {len(right)}")
    if made:
        made = made[:2]
        made.append(KeyNumber("runs whose order rises after and falls before", ", ".join(ordered)))
    return made
