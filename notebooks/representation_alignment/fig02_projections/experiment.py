"""Squared projections of labels on singular vectors, before and after training on shuffled labels (Figure 2).

Panels: (a) the inputs and their labels, (b) the inputs and shuffled labels, (c) the last hidden layer before
and (d) after training on the shuffled labels, with these.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared import hidden_layers

from .design import TOP, TOPS

SHOWN = 100  # indices of the figure


def jobs(parameters):
    """One job per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("seed{seed}", compute, shared, seed=range(parameters["seeds"]))


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
