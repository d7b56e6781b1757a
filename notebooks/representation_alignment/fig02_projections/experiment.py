"""Squared projections of labels on singular vectors, before and after training on shuffled labels (Figure 2).

Panels: (a) the inputs and their labels, (b) the inputs and shuffled labels, (c) the last hidden layer before
and (d) after training on the shuffled labels, with these.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.studies.representation_alignment import hidden_layers

HEADLINE = "aligned-after"
PANELS = {
    "a": "inputs, real labels",
    "b": "inputs, shuffled labels",
    "c": "before training, shuffled labels",
    "d": "after training, shuffled labels",
}
TOP = 10  # singular vectors; fixed before any run
TOPS = (1, TOP, 100)
SHOWN = 100  # indices of the figure
PERCENT = (0, 100)  # within which a share lies
MOSTLY = 0.5  # share of the labels: "mostly aligned" (Section 4.2)
CHANCE = 0.01  # share of the labels by which "more or less uniformly" (Section 4) may be missed


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(*, dataset, points, layers, epochs, batch_size, rate, checkpoints, seed, device, report):
    """Train on shuffled labels, hidden layers as wide as the input. Rows of the table, by ``kind``:

    ``spectrum`` : panel, index (from 1, to ``SHOWN``), sigma, share, (u_iᵀ y)² over ‖y‖²;
    ``share`` : panel, top, share of ‖y‖² along so many top singular vectors, and chance, the expectation of
        it over all orders of the labels (:func:`chance`);
    ``epoch`` : epoch, share of the ``TOP`` and accuracy of the network, both on the training data.
    """
    x, y = hidden_layers.two_classes(dataset, points, seed, halves=True)
    shuffled = y[torch.randperm(points, generator=torch_stream(seed, "fig02", "labels"))]
    sizes = [x.shape[1]] * (layers + 1) + [1]
    net = hidden_layers.network(sizes, torch_stream(seed, "fig02", "network"), device=device)
    rows = []

    def measure(epoch):
        hidden = hidden_layers.representations(net, x)[-1]
        _, gains = hidden_layers.spectrum(hidden, shuffled)
        with torch.no_grad():
            right = net(x.to(device)).squeeze(1).cpu() * shuffled > 0
        share, accuracy = gains[:TOP].sum() / points, right.double().mean().item()
        rows.append({"kind": "epoch", "epoch": epoch, "share": share, "accuracy": accuracy})
        return hidden

    features = {"a": x, "b": x, "c": measure(0)}
    trained = hidden_layers.fit(
        net,
        x,
        shuffled,
        loss=hidden_layers.logistic,
        batch_size=batch_size,
        rate=rate,
        remaining=0.0,
        max_epochs=epochs,
        generator=torch_stream(seed, "fig02", "batches"),
        at=[epoch for epoch in checkpoints if epoch < epochs],
        on=measure,
        report=report,
    )
    features["d"] = measure(trained.epochs)
    for panel, phi in features.items():
        labels = y if panel == "a" else shuffled
        singular, gains = hidden_layers.spectrum(phi, labels)
        expected = chance(phi)
        for index, (sigma, gain) in enumerate(zip(singular[:SHOWN], gains[:SHOWN], strict=True), start=1):
            about = {"kind": "spectrum", "panel": panel, "index": index}
            rows.append(about | {"sigma": sigma, "share": gain / points})
        for top in TOPS:
            about = {"kind": "share", "panel": panel, "top": top}
            rows.append(about | {"share": gains[:top].sum() / points, "chance": expected[:top].sum()})
    return pd.DataFrame(rows)


def chance(features):
    """Expected share of balanced labels along each singular vector when they are shuffled, (r,) float64.

    Over all orders of a vector y of ±1 that sums to zero, E[y yᵀ] = n/(n − 1) (I − 1 1ᵀ/n), so that

        E[(u_iᵀ y)²] / n = (1 − (1ᵀ u_i)²/n) / (n − 1)

    features (n, d), of which singular vectors are taken as in :func:`hidden_layers.spectrum`.
    """
    n = len(features)
    _, constant = hidden_layers.spectrum(features, np.ones(n))  # (1ᵀ u_i)²
    return (1 - constant / n) / (n - 1)


def shares(table, top=TOP, column="share"):
    """Shares along the top singular vectors, frame of (seeds × panels); empty without runs."""
    if table.empty or "kind" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == "share") & (table["top"] == top)]
    return rows.pivot(index="seed", columns="panel", values=column)


_STATEMENTS = {
    "aligned-after": (
        f"After training on shuffled labels they lie mostly along the top {TOP} singular vectors of the last "
        "hidden layer (share)",
        "Figure 2 (d), Section 4.2",
    ),
    "emerges": (
        f"Training raises the shuffled labels' share along the top {TOP} singular vectors (after less "
        "before)",
        "Figure 2 (c) and (d)",
    ),
    "real-labels": (
        f"The real labels lie mostly along the top {TOP} singular vectors of the inputs (share)",
        "Figure 2 (a), Section 4",
    ),
    "uniform-inputs": (
        f"Shuffled labels' share along the top {TOP} singular vectors of the inputs is that of chance "
        "(share less expectation)",
        "Figure 2 (b), Section 4",
    ),
    "uniform-before": (
        "The same of the last hidden layer before training (share less expectation)",
        "Figure 2 (c)",
    ),
}


def claims(table, parameters):
    """Rules written before quick ran."""
    found, expected = shares(table), shares(table, column="chance")
    made = []
    for id, (statement, source) in _STATEMENTS.items():
        about = (id, statement, source)
        if found.empty:
            made.append(Claim.missing(*about, "no finished run"))
        elif id in ("aligned-after", "real-labels"):
            made.append(Claim.greater(*about, found["d" if id == "aligned-after" else "a"], than=MOSTLY))
        elif id == "emerges":
            made.append(Claim.greater(*about, found["d"] - found["c"]))
        else:
            panel = "b" if id == "uniform-inputs" else "c"
            made.append(Claim.equals(*about, found[panel] - expected[panel], paper=0.0, tolerance=CHANCE))
    return made


def finding(table, parameters):
    """Shares of the shuffled labels before and after, and by chance."""
    found, expected = shares(table), shares(table, column="chance")
    if found.empty:
        return "Nothing was computed."
    before, after = (interval(100 * found[panel], "{:.1f}", PERCENT) for panel in ("c", "d"))
    said = (
        f"The top {TOP} singular vectors of the last hidden layer hold {after} % of the shuffled labels "
        f"after training on them, {before} % before; by chance {100 * expected['c'].mean():.2f} %."
    )
    epochs = table[table["kind"] == "epoch"]
    last = epochs[epochs["epoch"] == epochs["epoch"].max()]["accuracy"].mean()
    return f"{said} The network then has {100 * last:.1f} % of them right."


def key_numbers(table, parameters):
    """Shares in the top 10: after training, before, and of the real labels in the inputs."""
    found, expected = shares(table), shares(table, column="chance")
    if found.empty:
        return []
    whats = {"d": "after training", "c": "before training", "a": "real labels, inputs"}
    made = []
    for panel, what in whats.items():
        by_chance = f"; by chance {100 * expected[panel].mean():.2f} %"
        share = interval(100 * found[panel], "{:.1f}", PERCENT)
        made.append(KeyNumber(f"share along the top {TOP}, {what}", f"{share} %{by_chance}"))
    return made
