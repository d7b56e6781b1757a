"""Every layer's alignment while a network trains, and at the end (Lou et al. 2022, Figures 1, 2, 7, 9, 10).

A job is one network: data set, depth, learning rate, seed. Its table has one row per record and layer.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.data import load
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import CLASSES, step_of


def jobs(parameters):
    """One network per data set, depth, learning rate and seed."""
    p = parameters
    wanted = [(dataset, p["depth"], p["learning_rate"]) for dataset in p["datasets"]]
    wanted += [(dataset, p["deep"], p["learning_rate"]) for dataset in p["deep_datasets"]]
    wanted += [(dataset, p["depth"], rate) for dataset in p["rate_datasets"] for rate in p["rates"]]
    names = "width batch_size epochs record momentum weight_decay train_images alignment_images test_images"
    shared = {name: p[name] for name in names.split()}
    return [
        Job(
            f"{dataset}-depth{depth:03d}-rate{rate:g}-seed{seed}",
            compute,
            {"dataset": dataset, "depth": depth, "learning_rate": rate, "seed": seed, **shared},
        )
        for dataset, depth, rate in dict.fromkeys(wanted)
        for seed in range(p["seeds"])
    ]


def compute(
    *,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    epochs,
    record,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """Train one network of Eq. 8 by SGD at a constant rate and measure A_l (Eq. 7) on the way.

    train_images : drawn by the seed, 0 for all; A_l and the training loss are taken on ``alignment_images``
    of them. test_images : the first ones, 0 for all. record : epochs, which may be fractions; before
    training and the end are added, and epochs past the end left out.

    One row per record and layer: step, epoch, layer (1 to depth), alignment; and per record train_loss,
    test_loss (nats) and test_accuracy (0 to 1). Raises Diverged when a loss is not finite.
    """
    images = load(dataset, "train", n=train_images or None, seed=seed)
    test = load(dataset, "test")
    x, y = images.x.flatten(1).to(device), images.y.to(device)
    x_test, y_test = (values[: test_images or None].to(device) for values in (test.x.flatten(1), test.y))
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig02", "weights", depth), device=device)
    sample = torch.randperm(len(x), generator=torch_stream(seed, "fig02", "alignment"))[:alignment_images]
    x_sample, y_sample = x[sample.to(device)], y[sample.to(device)]
    per_epoch = math.ceil(len(x) / batch_size)
    last = epochs * per_epoch
    tables = []

    def measure(step):
        logits = mlp.logits(x_test)
        tables.append(
            pd.DataFrame(
                {
                    "step": step,
                    "epoch": step / per_epoch,
                    "layer": np.arange(1, depth + 1),
                    "alignment": tangent_alignment(mlp.sequential(), x_sample, y_sample),
                    "train_loss": float(functional.cross_entropy(mlp.logits(x_sample), y_sample)),
                    "test_loss": float(functional.cross_entropy(logits, y_test)),
                    "test_accuracy": float((logits.argmax(1) == y_test).double().mean()),
                }
            )
        )

    with float32_products():
        train(
            step_of(mlp, x, y, momentum, weight_decay),
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig02", "order", depth),
            device=device,
            at={0, last, *(round(epoch * per_epoch) for epoch in record)},
            on=measure,
            report=report,
        )
    return pd.concat(tables, ignore_index=True)
