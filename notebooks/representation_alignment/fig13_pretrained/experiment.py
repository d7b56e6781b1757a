"""Features of a network trained on ImageNet against inputs, initialisation and hand-made ones (Figure 13).

And Figures 19 and 20: the same on CIFAR-10. EfficientNet-Lite0 stands in for VGG16, ResNet-50 and ResNet-101.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import colour32
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.imagenet import imagenet_network
from alignbook.training.nets import he_normal_layer_
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared import image_features
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve
from companion.studies.representation_alignment.shared.constant_feature import with_constant
from companion.studies.representation_alignment.shared.linear_descent import linear_model
from companion.studies.representation_alignment.shared.two_classes import images

from .design import LEARNED, NAMES

CLASSES = {"cifar10": 10, "cifar100": 100, "photos": 10}
BATCH = 50  # images that go through a network at once
CURVE = 40  # steps that are stored, evenly spaced in the logarithm


def jobs(parameters):
    """One job per data set and seed; each seed has two classes of its own."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "datasets")}
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, shared, dataset=datasets, seed=seeds)


def compute(
    *,
    dataset,
    network,
    points,
    test_points,
    dictionary,
    bandwidth,
    step_sizes,
    iterations,
    early,
    seed,
    device,
    report,
):
    """Extract all representations of two classes, align them, train linear models. Rows, by ``kind``:

    ``area`` : representation, area (:func:`alignment_grid.curve`), features, first and second (the
        classes); unfitted and wrong of the LEARNED: share of ‖y‖² and of the training labels that the
        closed-form solution of least squares misses;
    ``curve`` : representation, threshold (over √n), alignment over ‖y‖²;
    ``step`` : representation, loss, step_size, step, train and test: mean squared error over that of zero
        weights, which is 1 for labels of ±1, or logistic loss in bits, also 1 there.
    """
    draw = numpy_stream(seed, "fig13", "classes", dataset)
    classes = tuple(int(label) for label in draw.choice(CLASSES[dataset], 2, replace=False))
    data = images(dataset, points, classes, seed)
    (x, y), (x_test, y_test) = data["train"], data["test"]
    kept = numpy_stream(seed, "fig13", "test", dataset).permutation(len(y_test))[:test_points]
    x_test, y_test = x_test[kept], y_test[kept]
    made = {"original": (x, x_test)}
    made |= network_features(network, x, x_test, seed, device, report)
    made |= hand_made(x, x_test, dictionary, bandwidth, seed)
    report(0.8, "hand-made features")
    tables = []
    for done, (name, parts) in enumerate(made.items()):
        area, alignment = curve(parts[0], y)
        row = {"kind": "area", "area": area, "features": parts[0].shape[1]}
        row |= dict(zip(("first", "second"), classes, strict=True))
        grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
        found = [pd.DataFrame({"kind": "curve", "threshold": grid, "alignment": alignment.round(DIGITS)})]
        if name in LEARNED:
            phi, phi_test = (with_constant(part).numpy() for part in parts)
            row |= closed_form(phi, y.numpy())
            found += learning_curves(
                phi, y.numpy(), phi_test, y_test.numpy(), step_sizes, iterations, min(early, iterations)
            )
        tables += [table.assign(representation=name) for table in [pd.DataFrame([row]), *found]]
        report(0.8 + 0.2 * (done + 1) / len(made), NAMES[name])
    return pd.concat(tables, ignore_index=True)


def network_features(network, x, x_test, seed, device, report):
    """{init, transfer: (train, test)}: the last hidden layer of a network before and after training.

    network : ``imagenet`` (EfficientNet-Lite0 and its weights) or ``random``, two small networks that have
    learned nothing, to try the code where the weights are not installed.
    """
    draw = torch_stream(seed, "fig13", "network")
    if network == "random":
        nets = {name: Untrained(draw) for name in ("init", "transfer")}
    else:
        nets = {"init": imagenet_network(pretrained=False, generator=draw), "transfer": imagenet_network()}
    made = {}
    for number, (name, net) in enumerate(nets.items()):
        net.eval().to(device, memory_format=torch.channels_last)
        made[name] = tuple(_through(net, part, device) for part in (x, x_test))
        report(0.3 * (number + 1), NAMES[name])
    return made


class Untrained(nn.Module):
    """Two convolutions drawn from ``generator``; ``features`` maps (n, 3, H, W) to (n, H·W)."""

    def __init__(self, generator):
        super().__init__()
        sizes = ((3, 8), (8, 16))
        self.layers = nn.ModuleList(nn.Conv2d(*size, 3, stride=2, padding=1, bias=False) for size in sizes)
        for layer in self.layers:
            he_normal_layer_(layer, 1, generator)

    def features(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x.flatten(1)


@torch.no_grad()
def _through(net, x, device):
    batches = colour32(_as_images(x).float()).split(BATCH)
    found = [net.features(batch.to(device, memory_format=torch.channels_last)).cpu() for batch in batches]
    return torch.cat(found).double()


def _as_images(x):
    """(n, 3, side, side) of rows (n, 3·side²)."""
    side = math.isqrt(x.shape[1] // 3)
    return x.unflatten(1, (3, side, side))


def hand_made(x, x_test, dictionary, bandwidth, seed):
    """{hog, sift, rbf: (train, test)}, float64 tensors. Words and centres come from the training images."""
    grey = [image_features.grey(_as_images(part).numpy()) for part in (x, x_test)]
    found = [image_features.descriptors(part) for part in grey]
    words = image_features.words(found[0], dictionary, numpy_stream(seed, "fig13", "words"))
    # Pixels in [0, 1], as images are read, flattened and of length one.
    flat = [nn.functional.normalize((part + 1) / 2, dim=1).numpy() for part in (x, x_test)]
    made = {
        "hog": [image_features.histograms_of_gradients(part) for part in grey],
        "sift": [image_features.bags(part, words) for part in found],
        "rbf": [image_features.radial_basis(part, flat[0], bandwidth) for part in flat],
    }
    return {name: tuple(map(torch.from_numpy, parts)) for name, parts in made.items()}


def closed_form(phi, y):
    """{unfitted, wrong}: what the least-squares weights of phi (n, d) leave of ‖y‖², and labels they miss."""
    fitted = phi @ np.linalg.lstsq(phi, y)[0]
    return {
        "unfitted": float(np.square(fitted - y).sum() / (y @ y)),
        "wrong": float((fitted * y <= 0).mean()),
    }


def learning_curves(phi, y, phi_test, y_test, step_sizes, iterations, early):
    """Frames of kind ``step`` of both losses; step sizes at which the squared error diverges are left out."""
    steps = np.unique([0, *np.geomspace(1, iterations, CURVE).round().astype(int), early])
    largest = np.linalg.norm(phi, 2)
    made = []
    for size in step_sizes:
        about = {"kind": "step", "loss": "squared", "step_size": size, "step": steps}
        if size * largest**2 / len(y) < 2:
            errors = linear_model(phi, y, phi_test, y_test, size, steps)
            found = {"train": errors["train_error"], "test": errors["test_error"]}
            made.append(pd.DataFrame(about | found))
    train, test = logistic_descent(phi, y, phi_test, y_test, step_sizes, steps)
    for number, size in enumerate(step_sizes):
        about = {"kind": "step", "loss": "logistic", "step_size": size, "step": steps}
        made.append(pd.DataFrame(about | {"train": train[:, number], "test": test[:, number]}))
    return made


def logistic_descent(phi, y, phi_test, y_test, step_sizes, steps):
    """Gradient descent on mean log₂(1 + exp(−y f)) from zero weights, once for every step size.

    The weights stay Φᵀα: one product with the Gram matrix is a step. Returns (train, test), each (T, K), at
    ``steps`` (T,), ascending, for ``step_sizes`` (K,).
    """
    gram, gram_test = phi @ phi.T, phi_test @ phi.T
    rates = np.asarray(step_sizes, float) / (len(y) * math.log(2))
    alpha = np.zeros((len(y), len(rates)))
    signs, signs_test = y[:, None], y_test[:, None]
    train, test = [], []
    wanted = set(steps.tolist())
    for step in range(int(steps[-1]) + 1):
        margin = signs * (gram @ alpha)
        if step in wanted:
            train.append(np.logaddexp(0, -margin).mean(0) / math.log(2))
            test.append(np.logaddexp(0, -signs_test * (gram_test @ alpha)).mean(0) / math.log(2))
        alpha += rates * signs / (1 + np.exp(np.minimum(margin, 700)))
    return np.array(train), np.array(test)
