"""ReLU networks with several hidden layers, trained by Adam until they converge (Figures 2, 7 and 12)."""

import math

import numpy as np
import torch
from torch import nn

from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.metrics.alignment_curve import alignment_curve
from alignbook.seeding import numpy_stream
from alignbook.training.loop import module_step, train


def network(sizes, generator, *, device="cpu", dtype=torch.float32):
    """Linear layers of ``sizes`` [inputs, hidden, …, outputs] with biases, ReLU between them.

    Weights and biases are uniform on ± 1/√fan_in (the default of ``nn.Linear``), drawn from ``generator``, a
    CPU torch.Generator, in float64. Returns nn.Sequential on ``device`` in ``dtype``.
    """
    modules = []
    for fan_in, out in zip(sizes, sizes[1:], strict=False):
        linear = nn.Linear(fan_in, out, device="meta")
        for name, shape in (("weight", (out, fan_in)), ("bias", (out,))):
            draw = torch.rand(shape, generator=generator, dtype=torch.float64)
            draw = (2 * draw - 1) / math.sqrt(fan_in)
            setattr(linear, name, nn.Parameter(draw.to(device, dtype)))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@torch.no_grad()
def representations(net, x):
    """Output of every hidden layer after its ReLU, first layer first: list of (n, width) float64, CPU."""
    hidden, found = x.to(next(net.parameters())), []
    for module in net[:-1]:
        hidden = module(hidden)
        if isinstance(module, nn.ReLU):
            found.append(hidden.cpu().double())
    return found


def squared(outputs, y):
    """Mean squared error of outputs (b, 1) for y (b,)."""
    return nn.functional.mse_loss(outputs.squeeze(1), y)


def logistic(outputs, y):
    """Mean logistic loss in bits of outputs (b, 1) for y (b,) of ±1 (Section 2)."""
    return nn.functional.softplus(-outputs.squeeze(1) * y).mean() / math.log(2)


def fit(net, x, y, *, loss, batch_size, rate, remaining, max_epochs, generator, at=(), on=None, report):
    """Train ``net`` in place by Adam; returns :class:`alignbook.training.loop.Trained`.

    x (n, d), y (n,) : of any device and dtype; loss : :func:`squared` or :func:`logistic`
    remaining : training ends when an epoch's loss is at most this share of that of outputs of zero, the
        variance of centred labels or one bit; after ``max_epochs`` at the latest
    at, on : ``on(epoch)`` is called after each of the epochs ``at`` that is reached
    Raises Diverged.
    """
    first = next(net.parameters())
    x, y = x.to(first), y.to(first)
    start = float(loss(torch.zeros_like(y)[:, None], y))
    per_epoch = math.ceil(len(y) / batch_size)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, fused=True)
    return train(
        module_step(net, x, y, optimiser, loss=loss),
        len(y),
        batch_size=batch_size,
        epochs=max_epochs,
        rate=rate,
        generator=generator,
        device=first.device,
        at=[epoch * per_epoch for epoch in at],
        on=None if on is None else lambda count: on(count // per_epoch),
        until=lambda now: now.loss <= remaining * start,
        report=report,
    )


def two_classes(dataset, points, seed, *, halves):
    """Images of the first two classes: x (points, pixels) float32 in [0, 1] and y (points,) float32 of ±1.

    halves : as many images of each class (Figure 2), or as they come at random (Figure 7). In random order.
    Raises AlignbookError where there are too few images.
    """
    data = load(dataset)
    order = numpy_stream(seed, "two classes", dataset).permutation(len(data))
    classes = data.y.numpy()[order]
    if halves:
        chosen = np.concatenate([order[classes == label][: points // 2] for label in (0, 1)])
    else:
        chosen = order[classes < 2][:points]
    if len(chosen) < points:
        raise AlignbookError(f"{dataset} has {len(chosen)} images of its first two classes, not {points}")
    chosen = numpy_stream(seed, "order", dataset).permutation(chosen)
    x = (data.x[chosen].flatten(1) + 1) / 2
    return x, 1 - 2 * data.y[chosen].float()


def spectrum(features, labels):
    """Singular values and squared projections of labels: (σ_i (r,), (u_iᵀ y)² (r,)), largest σ_i first.

    features (n, d), labels (n,) : a constant is appended and rows scaled to length one, as
    :func:`alignbook.metrics.alignment_curve` does; r is the rank.
    """
    singular, alignment = alignment_curve(features, labels)
    gains = alignment[1:] - np.append(alignment[2:], 0.0)  # the first threshold is 0
    return singular[:0:-1], gains[::-1]
