"""Filters with the learned spectrum in the data's basis and in a random one (Figure 5, Section 2.4).

Drawing filters from the covariance Σ of pre-trained ones keeps its spectrum, too, and a spectrum that is not
flat could by itself be what helps. So the same spectrum is put into a random basis, and into the basis of the
data alone: V diag(VᵀΣV) Vᵀ, with V the eigenvectors of the covariance of image patches.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from companion.jobs import Job
from companion.studies.random_labels.shared.downstream import fresh_head_, learning_curve, tasks
from companion.studies.random_labels.shared.random_bases import random_bases

from .design import COVARIANCE, DIAGONAL, FILTERS, ROTATED, SCRATCH, STARTS


def jobs(parameters):
    """One job per group of runs, whose filters together give the covariance."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "group")}
    made = []
    for first in range(0, parameters["seeds"], parameters["group"]):
        runs = list(range(first, min(first + parameters["group"], parameters["seeds"])))
        made.append(Job(f"runs{runs[0]}-{runs[-1]}", compute, shared | {"runs": runs}))
    return made


def compute(
    *, dataset, filters, units, side, images, upstream_epochs, epochs, record, batch_size, learning_rate,
    runs, device, report,
):  # fmt: skip
    """Pre-train on random labels until they are learned; learn real labels from each of ``STARTS``.

    images : of either task, with 10 random classes upstream; runs : seeds. All starts of a seed have the same
    head, dense layer, images and order of images; biases of the convolution start at 0, and its weights have
    the norm that He's initialisation gave them. Columns ``seed``, ``start``, ``epoch``, ``accuracy`` on all
    training images, and ``fitted``, the share of the random labels that pre-training has learned.
    """
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    count = len(runs) * (1 + len(STARTS))

    def part(number):
        return lambda done, text: report((number + done) / count, text)

    def images_of(seed):
        return tasks(
            dataset, upstream=images, upstream_classes=10, downstream=images, classes=10, side=side,
            seed=seed, device=device,
        )  # fmt: skip

    def network(split, seed, name):
        net = SimpleCNN(split.x.shape[1:], [filters], units, 10)
        return he_normal_(net, 1.0, torch_stream(seed, "second moments", name)).to(device)

    learned, fitted, data = {}, {}, 0.0
    for number, seed in enumerate(runs):
        split = images_of(seed)
        source = network(split, seed, "upstream")
        fit(
            source, split.upstream_x, split.upstream_y, steps=upstream_epochs * (images // batch_size),
            generator=torch_stream(seed, "second moments", "upstream batches"), report=part(number),
            **training,
        )  # fmt: skip
        fitted[seed] = accuracy(source, split.upstream_x, split.upstream_y)
        learned[seed] = source.convs[0].weight.detach().flatten(1).cpu().double().numpy()
        data = data + patch_covariance(split.upstream_x).cov / len(runs)
    sigma = np.cov(np.concatenate(list(learned.values())).T, bias=True)
    basis = np.linalg.eigh(data)[1]
    tables = []
    for number, seed in enumerate(runs):
        split, draw = images_of(seed), numpy_stream(seed, "second moments", "filters")
        started = starts(sigma, basis, draw, filters) | {FILTERS: learned[seed]}
        for place, start in enumerate(STARTS):
            net = network(split, seed, "downstream")
            if start != SCRATCH:
                replace_(net.convs[0].weight, started[start])
            fresh_head_(net, len(split.y["real"].unique()), 1.0, torch_stream(seed, "second moments", "head"))
            curve = learning_curve(
                net.to(device), split.x, split.y["real"], epochs=epochs, record=record,
                generator=torch_stream(seed, "second moments", "batches"),
                report=part(len(runs) + number * len(STARTS) + place), **training,
            )  # fmt: skip
            tables.append(curve.assign(seed=seed, start=start, fitted=fitted[seed]))
    return pd.concat(tables, ignore_index=True)


def starts(sigma, basis, draw, count):
    """{start: filters (count, d)} drawn from the covariance ``sigma`` (d, d) and from two made of it.

    basis : (d, d), eigenvectors of the data as columns; draw : NumPy generator. All are made of the same
    normal numbers.
    """
    rotation = random_bases(len(sigma), 1, draw)[0]
    spectra = {
        COVARIANCE: sigma,
        DIAGONAL: basis * np.diag(basis.T @ sigma @ basis) @ basis.T,
        ROTATED: rotation @ sigma @ rotation.T,
    }
    normal = draw.standard_normal((count, len(sigma)))
    return {name: normal @ root(matrix) for name, matrix in spectra.items()}


def root(matrix):
    """The symmetric square root of a symmetric positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


@torch.no_grad()
def replace_(weight, filters):
    """Give ``weight`` these filters (rows), scaled to the norm that it has."""
    new = torch.from_numpy(filters).to(weight).view_as(weight)
    weight.copy_(new * (weight.norm() / new.norm()))
