"""Which neurons fire, on how many examples, layer by layer (Maennel et al. 2020, Figure 7, F)."""

import numpy as np
import pandas as pd
import torch

from alignbook.training.train import accuracy
from alignbook.training.transfer import layers_of

BINS = 10  # of a histogram over [0, 1]
AFTER = (1, 2, 4, 8, 16, 32, 64)  # steps after the switch at which activations are taken in any case


@torch.no_grad()
def active_shares(net, x, batch_size=250):
    """[(neurons, examples)] of every hidden layer, in order: two arrays in [0, 1].

    neurons : (m,) share of the images ``x`` (n, C, H, W) that activate each neuron, that is every place of
    every channel; examples : (n,) share of the neurons that each image activates. A neuron is active where
    what enters its ReLU is positive: ``net``, left in evaluation mode, has one ReLU right after each layer
    but its head.
    """
    net.eval()
    hidden = layers_of(net)[:-1]
    counts, shares = [0] * len(hidden), [[] for _ in hidden]

    def keep(place):
        def hook(_, inputs, output):
            active = (output > 0).flatten(1)  # (n, m)
            counts[place] = counts[place] + active.sum(0, dtype=torch.float64)
            shares[place].append(active.double().mean(1))

        return hook

    handles = [layer.register_forward_hook(keep(place)) for place, layer in enumerate(hidden)]
    try:
        for images in x.split(batch_size):
            net(images)
    finally:
        for handle in handles:
            handle.remove()
    return [
        ((count / len(x)).cpu().numpy(), torch.cat(share).cpu().numpy())
        for count, share in zip(counts, shares, strict=True)
    ]


def summary(net, x):
    """Rows ``layer`` (from 1), ``activation`` (share of all pairs of neuron and image), ``dead``.

    That is a share of the neurons; one is dead where none of the images ``x`` activates it.
    """
    return [
        {"layer": layer, "activation": neurons.mean(), "dead": (neurons == 0).mean()}
        for layer, (neurons, _) in enumerate(active_shares(net, x), start=1)
    ]


def histograms(net, x):
    """Rows ``layer``, ``of``, ``bin``, ``share``: how the active shares are distributed, in ``BINS`` bins.

    of : "neurons", over the share of images that activate them; "examples", over the share of neurons that
    they activate (left and right columns of Figures 10 and 11). Shares of a layer add up to 1.
    """
    rows = []
    for layer, both in enumerate(active_shares(net, x), start=1):
        for of, shares in zip(("neurons", "examples"), both, strict=True):
            found = np.histogram(shares, bins=BINS, range=(0, 1))[0] / len(shares)
            rows += [{"layer": layer, "of": of, "bin": n, "share": value} for n, value in enumerate(found)]
    return pd.DataFrame(rows)


def moments(steps, points):
    """Steps at which activations are taken: first and last, ``points`` between, and those of ``AFTER``."""
    even = {round(steps * k / (points + 1)) for k in range(points + 2)}
    return sorted(even | {step for step in AFTER if step < steps})


class Looks:
    """Rows of activations on images ``x``, and of training accuracy, taken while a network trains."""

    def __init__(self, x):
        self.x, self.rows = x, []

    def on(self, labels, x, y):
        """An ``on`` for training on images ``x`` with ``y``, the task called ``labels``."""

        def take(step, net):
            shared = {"of": "curve", "labels": labels, "step": step, "accuracy": accuracy(net, x, y)}
            self.rows += [shared | row for row in summary(net, self.x)]

        return take

    def table(self):
        return pd.DataFrame(self.rows)
