"""Fully connected networks of Lou et al. 2022 (Equation 8) on images, for the figures that train them."""

import torch
from torch.nn import functional

from alignbook.data import load
from alignbook.kernels.products import float32_products
from companion.studies.signal_propagation.shared.names import NAMES as NAMES  # for those that compute

CLASSES = 10
EVALUATION_BATCH = 2000


def images(dataset, split, count, seed, device):
    """Pixels in [-1, 1], (n, d) float32, and labels (n,) int64 on ``device``; ``count`` 0: all of them."""
    part = load(dataset, split, n=count or None, seed=seed)
    return part.x.flatten(1).to(device), part.y.to(device)


def step_of(mlp, x, y, momentum, weight_decay):
    """A step for :func:`alignbook.training.loop.train` of a :class:`alignbook.kernels.mlp_sgd.MLP`."""

    def step(index, rate):
        with float32_products():
            return mlp.step(x.index_select(0, index), y.index_select(0, index), rate, momentum, weight_decay)

    return step


def centred_labels(y, classes=CLASSES):
    """Ỹ = CY (Section 2.1), (n, k) float32: one-hot labels less 1/k, the mean of their entries."""
    return functional.one_hot(y, classes).float() - 1 / classes


def error_signal(logits, y):
    """w = ∇_F L (Appendix B.4), (n, k): gradient of the mean cross-entropy, (softmax(F) - Y)/n."""
    return (logits.softmax(1) - functional.one_hot(y, logits.shape[1])) / len(y)


@torch.no_grad()
def accuracy(outputs, x, y):
    """Share of the examples, 0 to 1, whose largest output is the label's; ``outputs``: x (n, …) → (n, k)."""
    pieces = zip(x.split(EVALUATION_BATCH), y.split(EVALUATION_BATCH), strict=True)
    hits = [(outputs(inputs).argmax(1) == labels).sum() for inputs, labels in pieces]
    return float(torch.stack(hits).sum() / len(y))
