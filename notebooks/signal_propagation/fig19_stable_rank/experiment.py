"""Spectra of layer kernels and of the Fisher information, VGG-19 (Lou et al. 2022, Figures 19 to 23).

A job is one network: learning rate, share of random labels, seed. Its table has one row per layer.
"""

import math

import pandas as pd
import torch

from alignbook.metrics.tangent_spectrum import tangent_spectra
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.signal_propagation.shared.small_deep import evaluated, fit, images_of, network

KEPT = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, 200)  # places of the eigenvalues that are stored
FIELDS = ("rank", "correlation", "alignment", "kernel_rank", "fisher_rank", "fisher_correlation")


def jobs(parameters):
    """One network per learning rate, share of random labels and seed."""
    names = "dataset images test_images side width batch_size epochs momentum weight_decay alignment_images"
    shared = {name: parameters[name] for name in names.split()}
    axes = {"learning_rate": parameters["rates"], "label_noise": parameters["label_noises"]}
    name = "rate{learning_rate:g}-noise{label_noise:g}-seed{seed}"
    return jobs_over(name, compute, shared, **axes, seed=range(parameters["seeds"]))


def compute(
    *,
    dataset,
    images,
    test_images,
    side,
    width,
    learning_rate,
    label_noise,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    seed,
    device,
    report,
):
    """Train VGG-19 with SGD to a loss of 0.1, or for ``epochs``, and take every layer's spectra.

    Spectra on ``alignment_images`` of the training images with the labels that were trained on.
    One row per layer: layer (from 1), the fields of :class:`alignbook.metrics.tangent_spectrum.Spectrum`,
    eigenvalue_001 … (of the largest; nan past the last); and per network passes (epochs taken), train_loss
    (mean of the last epoch, nats), train_accuracy (on these labels, on as many images as test_images),
    test_accuracy (0 to 1) and test_loss.
    """
    x, y, x_test, y_test, classes = images_of(
        dataset, images=images, test_images=test_images, side=side, label_noise=label_noise, seed=seed
    )
    x, y, x_test, y_test = (values.to(device) for values in (x, y, x_test, y_test))
    net = network("vgg19", x.shape[1:], classes, width=width, seed=seed).to(device)
    trained = fit(
        net,
        x,
        y,
        optimiser="sgd",
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        seed=seed,
        device=device,
        report=report,
    )
    test_accuracy, test_loss = evaluated(net, x_test, y_test)
    order = torch.randperm(len(x), generator=torch_stream(seed, "fig19", "alignment"))
    sample = order[:alignment_images].to(device)
    rows = []
    for layer, spectrum in enumerate(tangent_spectra(net, x[sample], y[sample]), start=1):
        values = spectrum.eigenvalues
        kept = {f"eigenvalue_{n:03d}": values[n - 1] if n <= len(values) else math.nan for n in KEPT}
        rows.append({"layer": layer, **{field: getattr(spectrum, field) for field in FIELDS}, **kept})
    return pd.DataFrame(rows).assign(
        passes=trained.epochs,
        train_loss=trained.loss,
        train_accuracy=evaluated(net, x[: len(x_test)], y[: len(x_test)])[0],
        test_accuracy=test_accuracy,
        test_loss=test_loss,
    )
