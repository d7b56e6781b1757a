"""One network under all four papers' instruments while it trains: what changes when. No paper has this.

A job is one network from its initial weights: trained on real labels (``real``), the same with the first
layer left as it is (``frozen``), or on random labels (``random``) and then, with a new head, on the real
labels of other images (``fine-tuned``). Its table has one row per task and recorded step.
"""

import itertools
import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.data import load, random_labels
from alignbook.errors import AlignbookError
from alignbook.metrics.alignment_curve import alignment_curve
from alignbook.metrics.hessian_eigenvalues import hessian_eigenvalues
from alignbook.metrics.misalignment import misalignment, misalignment_basis
from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.loop import module_step, train
from alignbook.training.nets import SimpleCNN, he_normal_, he_normal_layer_
from companion.jobs import Job
from companion.studies.random_labels.shared.random_bases import random_bases

CLASSES = 10
MOMENTUM = 0.9
PATCH = 3  # pixels: the filters' side
BASES = 20  # random orthonormal bases, in place of the data's eigenvectors
TOLERANCE = 0.1  # of the curvature's residual over the eigenvalue, whose own error is about the square
PRODUCTS = 60  # Hessian-vector products at most


def jobs(parameters):
    """Three networks per kind and seed: real labels; these above a frozen layer; random, then fine-tuned."""
    p = parameters
    entries = 3 * PATCH**2
    if "convolutional" in p["networks"] and p["filters"][0] <= entries:
        raise AlignbookError(
            f"filters must begin with more than {entries}, not {p['filters'][0]}: else the covariance of the "
            "first layer's weights has no inverse"
        )
    names = "dataset side images init_scale learning_rate batch_size steps"
    names += " feature_images tangent_images curvature_images"
    shared = {name: p[name] for name in names.split()}
    sizes = {"convolutional": [*p["filters"], p["units"]], "dense": [p["width"]] * p["hidden"]}
    return [
        Job(
            f"{network}-{labels}-seed{seed}",
            compute,
            {"network": network, "labels": labels, "sizes": sizes[network], "seed": seed, **shared},
        )
        for network in p["networks"]
        for labels in ("real", "frozen", "random")
        for seed in range(p["seeds"])
    ]


def compute(
    *,
    dataset,
    network,
    labels,
    sizes,
    side,
    images,
    init_scale,
    learning_rate,
    batch_size,
    steps,
    feature_images,
    tangent_images,
    curvature_images,
    seed,
    device,
    report,
):
    """Train one network at a constant rate and measure it at :func:`recorded` steps of each task.

    labels : ``real``, ``frozen`` or ``random``, see above. sizes : widths of the hidden layers, of
    ``convolutional`` those of its convolutions and of the dense layer after them. images : training images of
    a task; random labels are drawn for as many others. side : their side in pixels, which must divide the
    data's. feature_images, tangent_images, curvature_images : how many of the task's images the three
    instruments see.

    One row per task and recorded step: task, step; loss (nats) and accuracy (0 to 1) on ``feature_images``;
    misalignment of the first layer's weights with the data, random_bases (its mean with those in place of the
    data's eigenvectors), features (:func:`share_on_top`), tangent1, tangent2, … (A_l of each layer),
    curvature (the Hessian's eigenvalue of largest magnitude) and converged. Raises Diverged.
    """
    x, tasks = tasks_of(dataset, images, side, labels, seed)
    counts = feature_images, tangent_images, curvature_images
    net = network_of(network, x.shape[1:], sizes)
    he_normal_(net, init_scale, torch_stream(seed, "one network", network, "weights"))
    net = net.to(device, memory_format=torch.channels_last)
    bases = random_bases(x.shape[1] * PATCH**2, BASES, numpy_stream(seed, "one network", "bases"))
    filters = *axes(network, x), bases
    rows = []
    for number, (task, inputs, targets) in enumerate(tasks):
        if task == "fine-tuned":
            he_normal_layer_(head_of(net), init_scale, torch_stream(seed, "one network", network, "head"))
        inputs, targets = inputs.to(device), targets.to(device)
        inputs = inputs if network == "convolutional" else inputs.flatten(1)
        train(
            module_step(net, inputs, targets, torch.optim.SGD(trained(net, task), learning_rate, MOMENTUM)),
            len(inputs),
            batch_size=batch_size,
            steps=steps,
            rate=learning_rate,
            # All networks that learn the real labels see them in the same order.
            generator=torch_stream(seed, "one network", "order", task == "random"),
            device=device,
            at=recorded(steps),
            on=lambda step, task=task, x=inputs, y=targets: rows.append(
                {"task": task, "step": step, **measured(net, x, y, filters, counts)}
            ),
            report=lambda done, text, n=number: report((n + done) / len(tasks), text),
        )
    return pd.DataFrame(rows)


def recorded(steps):
    """Octaves of steps up to 8 and half-octaves from there: 0, 1, 2, 4, 8, 11, 16, 23, … and ``steps``."""
    wanted = {0, 1, 2, 4, steps, *(round(2 ** (half / 2)) for half in range(6, 2 * steps.bit_length()))}
    return sorted(step for step in wanted if step <= steps)


def tasks_of(dataset, images, side, labels, seed):
    """(2 · images, averaged to ``side`` pixels; the tasks in their order: (name, inputs, targets))."""
    whole = load(dataset, n=2 * images, seed=seed)
    x = functional.avg_pool2d(whole.x, whole.x.shape[-1] // side)
    if labels != "random":
        return x, [(labels, x[images:], whole.y[images:])]
    random = random_labels(images, CLASSES, torch_stream(seed, "one network", "labels"))
    return x, [("random", x[:images], random), ("fine-tuned", x[images:], whole.y[images:])]


def measured(net, x, y, filters, counts):
    """What the four instruments find, a row; the last three on the first so many images, ``counts``."""
    return {
        **filter_scores(net, *filters),
        **learned(net, *(tensor[: counts[0]] for tensor in (x, y))),
        **tangent(net, *(tensor[: counts[1]] for tensor in (x, y))),
        **curvature(net, *(tensor[: counts[2]] for tensor in (x, y))),
    }


def tangent(net, x, y):
    """A_l of each layer from the first (Lou et al., Definition 1)."""
    return {f"tangent{layer}": value for layer, value in enumerate(tangent_alignment(net, x, y), 1)}


def network_of(network, in_shape, sizes):
    """The untrained network, with biases: :class:`SimpleCNN`, max pooling by 2, or linear layers and ReLU."""
    if network == "convolutional":
        return SimpleCNN(tuple(in_shape), sizes[:-1], sizes[-1], CLASSES, pool=(2, 2, "valid"))
    widths = [math.prod(in_shape), *sizes]
    hidden = [(nn.Linear(*pair), nn.ReLU()) for pair in itertools.pairwise(widths)]
    return nn.Sequential(*itertools.chain(*hidden), nn.Linear(sizes[-1], CLASSES))


def trained(net, task):
    """The parameters that a task trains: all, or without the first layer's."""
    if task != "frozen":
        return list(net.parameters())
    frozen = {id(parameter) for parameter in first_of(net).parameters()}
    return [parameter for parameter in net.parameters() if id(parameter) not in frozen]


def first_of(net):
    """The first layer, whose weights are the filters."""
    return net.convs[0] if isinstance(net, SimpleCNN) else net[0]


def head_of(net):
    """The last layer, whose outputs are the logits."""
    return net.head if isinstance(net, SimpleCNN) else net[-1]


def axes(network, x):
    """What the first layer's weights are held against: (covariance (d, d), axes (inputs, d)), float64.

    Of the convolutional network the covariance of the patches, whose axes are the pixels: the identity. A
    fully connected layer has more inputs than units, so that the covariance of its weights has no inverse: of
    this the images' d leading principal axes, with d the number of entries of a patch.
    """
    dimension = x.shape[1] * PATCH**2
    if network == "convolutional":
        return np.asarray(patch_covariance(x, PATCH).cov), np.eye(dimension)
    flat = x.flatten(1).double().numpy()
    values, vectors = np.linalg.eigh(np.cov(flat, rowvar=False))
    return np.diag(values[-dimension:]), vectors[:, -dimension:]


def filter_scores(net, cov_x, directions, orthonormal):
    """Misalignment of the first layer's weights with the data (Maennel et al., 2.2) and with random bases."""
    weights = first_of(net).weight.detach().flatten(1).double().cpu().numpy() @ directions
    cov_w = np.cov(weights, rowvar=False)
    return {
        "misalignment": misalignment(cov_x, cov_w),
        "random_bases": np.mean([misalignment_basis(basis, cov_w) for basis in orthonormal]),
    }


@torch.no_grad()
def learned(net, x, y):
    """Loss, accuracy and the alignment of the last hidden layer's features with the labels."""
    features = []
    handle = head_of(net).register_forward_pre_hook(lambda module, inputs: features.append(inputs[0]))
    try:
        logits = net(x)
    finally:
        handle.remove()
    return {
        "loss": float(functional.cross_entropy(logits, y)),
        "accuracy": float((logits.argmax(1) == y).double().mean()),
        "features": share_on_top(features[0], y),
    }


def share_on_top(features, y):
    """Share of ‖Ỹ‖² on the ten top left singular vectors of ``features`` (n, d) (Imani et al., Equation 2).

    Ỹ : one-hot labels less the mean of each column, since the constant feature would catch this; ten as there
    are classes. With labels that have nothing to do with the features about 10 / n.
    """
    centred = functional.one_hot(y, CLASSES).double()
    centred = (centred - centred.mean(0)).cpu().numpy()
    total = 0.0
    for column in centred.T:
        _, along = alignment_curve(features.cpu(), column)  # thresholds ascend
        total += along[max(0, len(along) - CLASSES)]
    return total / np.square(centred).sum()


def curvature(net, x, y):
    """The eigenvalue of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a)."""
    largest = hessian_eigenvalues(
        net, functional.cross_entropy, x, y, k=1, tol=TOLERANCE, batch_size=len(x), max_products=PRODUCTS
    )
    return {"curvature": largest.eigenvalues[0], "converged": largest.converged}
