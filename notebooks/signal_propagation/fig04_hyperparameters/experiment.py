"""Where the alignment peaks, by learning rate, batch and optimiser (Lou et al. 2022, Figures 4, 11 to 15).

A job is one network: family, learning rate, batch size, seed. Its table has one row per layer.
"""

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.data import load
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.metrics.tangent_spectrum import matrix_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from companion.jobs import Job, arguments_of
from companion.studies.signal_propagation.shared.dense import CLASSES, step_of
from companion.studies.signal_propagation.shared.small_deep import GOAL, evaluated, fit, images_of, network

from .design import FAMILIES, SECOND, conditions


def jobs(parameters):
    """One network per family, learning rate, batch size and seed."""
    p = parameters
    shared = arguments_of(p, "momentum weight_decay alignment_images test_images")
    names = "dataset depth width images epochs alignment_images".split()
    dense = arguments_of(p, "", **{name: f"dense_{name}" for name in names})
    deep = arguments_of(p, "width side images epochs")
    made = []
    for family, rate, batch in conditions(p):
        arguments = shared | {"family": family, "learning_rate": rate, "batch_size": batch}
        if family == "dense":
            arguments |= dense
        else:
            arguments |= deep | {"dataset": p["dataset"]}
            if family in SECOND:
                arguments |= {"dataset": p["second_dataset"]}
                arguments["alignment_images"] = p["second_alignment_images"]
            if family == "vgg19-second":
                arguments["epochs"] = p["second_epochs"]
            arguments |= dict(zip(("architecture", "optimiser"), FAMILIES[family][1:], strict=True))
        seeds = range(p["seeds"])
        if family == "dense":
            seeds = range(p["dense_first_seed"], p["dense_first_seed"] + p["dense_seeds"])
        for seed in seeds:
            name = f"{family}-rate{rate:g}-batch{batch}-seed{seed}"
            compute = compute_dense if family == "dense" else compute_deep
            made.append(Job(name, compute, arguments | {"seed": seed}))
    return made


def compute_dense(
    *,
    family,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    images,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """A fully connected network (Eq. 8), trained by SGD to a loss of 0.1 or for ``epochs``.

    ``family`` only names the condition. One row per layer: layer (from 1), alignment (on training images);
    and per network passes (epochs taken), train_loss (mean of the last epoch, nats), train_accuracy,
    test_accuracy (0 to 1), test_loss. Raises Diverged.
    """
    chosen, test = load(dataset, "train", n=images or None, seed=seed), load(dataset, "test")
    x, y = chosen.x.flatten(1).to(device), chosen.y.to(device)
    x_test, y_test = (part[: test_images or None].to(device) for part in (test.x.flatten(1), test.y))
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig04", "weights"), device=device)

    def accuracy_and_loss(inputs, labels):
        logits = mlp.logits(inputs)
        loss = functional.cross_entropy(logits, labels)
        return float((logits.argmax(1) == labels).double().mean()), float(loss)

    with float32_products():
        trained = train(
            step_of(mlp, x, y, momentum, weight_decay),
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig04", "order"),
            device=device,
            until=lambda now: now.loss <= GOAL,
            report=report,
        )
        measured = accuracy_and_loss(x, y)[0], *accuracy_and_loss(x_test, y_test)
    sample = _sample(len(x), alignment_images, seed).to(device)
    return _table(tangent_alignment(mlp.sequential(), x[sample], y[sample]), trained, *measured)


def compute_deep(
    *,
    family,
    dataset,
    architecture,
    optimiser,
    width,
    side,
    learning_rate,
    batch_size,
    images,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """VGG-19 or ResNet-18 with batch normalisation, as :func:`compute_dense`, whose columns it has."""
    x, y, x_test, y_test, classes = images_of(
        dataset, images=images, test_images=test_images, side=side, label_noise=0.0, seed=seed
    )
    x, y, x_test, y_test = (values.to(device) for values in (x, y, x_test, y_test))
    net = network(architecture, x.shape[1:], classes, width=width, seed=seed).to(device)
    trained = fit(
        net,
        x,
        y,
        optimiser=optimiser,
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        seed=seed,
        device=device,
        report=report,
    )
    sample = _sample(len(x), alignment_images, seed).to(device)
    measured = evaluated(net, x, y)[0], *evaluated(net, x_test, y_test)
    return _table(matrix_alignment(net, x[sample], y[sample]), trained, *measured)


def _sample(count, wanted, seed):
    return torch.randperm(count, generator=torch_stream(seed, "fig04", "alignment"))[:wanted]


def _table(alignment, trained, train_accuracy, test_accuracy, test_loss):
    return pd.DataFrame(
        {
            "layer": np.arange(1, len(alignment) + 1),
            "alignment": alignment,
            "passes": trained.epochs,
            "train_loss": trained.loss,
            "train_accuracy": train_accuracy,
            "test_accuracy": test_accuracy,
            "test_loss": test_loss,
        }
    )
