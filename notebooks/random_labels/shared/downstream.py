"""From random labels to a second task: images, new head, learning curve (Maennel et al. 2020, A.1 to A.4)."""

from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from alignbook import data
from alignbook.seeding import torch_stream
from alignbook.training.nets import he_normal_layer_
from alignbook.training.train import accuracy, fit


@dataclass(frozen=True)
class Tasks:
    """Disjoint training images of both tasks (A.1), float32 in [-1, 1].

    upstream_x : (M, C, H, W), upstream_y : (M,) random labels; x : (N, C, H, W);
    y : {"real", "random": (N,)};
    test_x : (T, C, H, W) held-out images; classes : {"upstream", "real", "random": number of classes}.
    """

    upstream_x: torch.Tensor
    upstream_y: torch.Tensor
    x: torch.Tensor
    y: dict
    test_x: torch.Tensor
    classes: dict


def tasks(dataset, *, upstream, upstream_classes, downstream, classes, side, test=0, seed, device="cpu"):
    """:class:`Tasks` of ``upstream`` + ``downstream`` training images and ``test`` held-out ones.

    upstream_classes, classes : numbers of random classes of the two tasks. side : height and width that the
    images are shrunk to. ``seed`` chooses images and labels. Raises ValueError where images are too few.
    """
    train = data.load(dataset)
    first, second = data.disjoint_splits(
        len(train), [upstream, downstream], torch_stream(seed, "downstream", "split")
    )
    held_out = data.load(dataset, "test", n=test, seed=seed).x if test else train.x[:0]
    draw = torch_stream(seed, "downstream", "labels")
    return Tasks(
        shrunk(train.x[first], side).to(device),
        data.random_labels(upstream, upstream_classes, draw).to(device),
        shrunk(train.x[second], side).to(device),
        {
            "real": train.y[second].to(device),
            "random": data.random_labels(downstream, classes, draw).to(device),
        },
        shrunk(held_out, side).to(device),
        {"upstream": upstream_classes, "real": len(train.classes), "random": classes},
    )


def shrunk(x, side):
    """Images (n, C, H, W) as (n, C, side, side): means over blocks of pixels.

    Raises ValueError where ``side`` does not divide H and W.
    """
    height, width = x.shape[2:]
    if height % side or width % side:
        raise ValueError(f"images of {height}×{width} cannot be shrunk to {side}×{side} by whole blocks")
    return nn.functional.avg_pool2d(x, (height // side, width // side))


def fresh_head_(net, classes, scale, generator):
    """Put a new head on ``net``, He normal with ``scale``, zero biases (A.3, A.4); returns ``net``."""
    net.head = nn.Linear(net.head.in_features, classes)
    he_normal_layer_(net.head, scale, generator)
    return net


def learning_curve(
    net, x, y, *, epochs, record, batch_size, learning_rate, generator, report=None, extra=None
):
    """Train ``net`` (A.3) and take the accuracy on all of ``x`` after the epochs in ``record``.

    Rows ``epoch``, ``accuracy`` (0..1): before training, the epochs in ``record`` that are reached, and the
    last. extra : ``extra(net)`` gives further columns. Raises Diverged.
    """
    per_epoch = len(x) // batch_size
    at = {per_epoch * epoch: epoch for epoch in sorted({0, epochs, *record}) if epoch <= epochs}
    rows = []

    def on(step, net):
        rows.append({"epoch": at[step], "accuracy": accuracy(net, x, y)} | (extra(net) if extra else {}))

    fit(
        net, x, y, steps=per_epoch * epochs, batch_size=batch_size, learning_rate=learning_rate,
        generator=generator, at=list(at), on=on, report=report,
    )  # fmt: skip
    return pd.DataFrame(rows)
