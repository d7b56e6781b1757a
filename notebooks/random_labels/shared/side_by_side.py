"""Networks of one architecture pre-trained, and trained on a second task, side by side as one network.

What :func:`alignbook.training.train.fit` and :func:`.vgg_transfer.first_epochs` do with one network after
another, with all of them at once: see :mod:`alignbook.kernels.many_convnets`. Every network sees its own
images in its own order, so that only rounding differs.
"""

import pandas as pd
import torch

from alignbook.kernels.many_convnets import stacked, step_of, unstack_
from alignbook.training.loop import train
from alignbook.training.train import accuracy

from .vgg_transfer import MOMENTUM


def fit_all_(
    nets, x, y, *, steps, batch_size, learning_rate, generators, ends=None, at=(), on=None, report=None
):
    """Train each of ``nets`` in place on its images ``x[k]`` (N, C, H, W) and labels ``y[k]`` (N,).

    ``generators[k]`` orders the images of network k. The rate is divided by 3 at thirds of ``steps``;
    training ends after ``ends`` of them (None: all). ``on(step)`` is called for every step count in ``at``,
    when ``nets`` are as they are then. Returns ``nets``; raises Diverged where any loss is not finite.
    """
    many = stacked(nets, x[0][:8])
    optimiser = torch.optim.SGD(many.parameters(), lr=learning_rate, momentum=MOMENTUM)

    def looked_at(step):
        unstack_(many, nets)
        on(step)

    train(
        step_of(many, x, y, optimiser, generators=generators),
        len(x[0]),
        batch_size=batch_size,
        steps=steps if ends is None else ends,
        rate=lambda count: learning_rate / 3 ** (3 * (count - 1) // steps),
        last_batch="drop",
        generator=torch.Generator(),  # of counts alone, see step_of
        device=x[0].device,
        at=at,
        on=None if on is None else looked_at,
        report=report,
    )
    return unstack_(many, nets)


def first_epochs_of_all(
    nets, x, y, *, epochs, stops, points, batch_size, learning_rate, generators, extras, report=None
):
    """Learning curves of the first ``stops`` of ``epochs`` epochs, a frame per network.

    Arguments and rows as in :func:`.vgg_transfer.first_epochs`, lists with an entry per network where they
    are a network's own; ``extras[k](net)``, where it is not None, gives further columns. Raises Diverged.
    """
    per_epoch = len(x[0]) // batch_size
    last = min(stops, epochs)
    record = {*range(0, last, max(1, last // points)), last}
    rows = [[] for _ in nets]

    def on(step):
        for net, images, labels, extra, own in zip(nets, x, y, extras, rows, strict=True):
            row = {"epoch": step // per_epoch, "accuracy": accuracy(net, images, labels)}
            own.append(row | (extra(net) if extra else {}))

    fit_all_(
        nets, x, y, steps=epochs * per_epoch, ends=last * per_epoch, batch_size=batch_size,
        learning_rate=learning_rate, generators=generators, at=[epoch * per_epoch for epoch in record], on=on,
        report=report,
    )  # fmt: skip
    return [pd.DataFrame(own) for own in rows]
