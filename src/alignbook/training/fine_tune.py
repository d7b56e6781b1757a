"""Fine-tuning (ICLR 2020 submission on transferability, Section 3 and Appendix A).

SGD with momentum 0.9, batches of 32, rate 0.01, divided by ten at given steps; the last layer alone on
the features of the pre-trained network, or the whole network.
"""

import torch
from torch import nn

from alignbook.metrics.evaluation import evaluation_mode

from .loop import module_step, train

PAD = 4  # pixels on each side before a crop


def fine_tune(
    net,
    x,
    y,
    *,
    steps,
    batch_size=32,
    learning_rate=0.01,
    momentum=0.9,
    weight_decay=0.0,
    decay_at=(),
    augment=False,
    fixed=False,
    stop_at_loss=None,
    generator,
    at=(),
    on=None,
    report=None,
):
    """Train ``net`` in place on images ``x`` (N, C, H, W) float32, labels ``y`` (N,) int64.

    The loss is the mean cross-entropy. All lie on one device. Every epoch visits the images in a new order
    from ``generator`` (CPU torch.Generator); the incomplete batch at its end is dropped.
    decay_at : step counts after which the rate is divided by ten (Appendix A; when is left open).
    augment : random crops and flips, see :func:`crops_and_flips`.
    fixed : True trains ``net.head`` alone, on ``net.features`` in evaluation mode (batch norm keeps its
    running statistics); without ``augment`` the features are computed once. False trains all parameters,
    in training mode.
    stop_at_loss : stop after the first epoch whose mean loss over its batches is at or below it.
    on, at : ``on(step, net)`` is called for every step count in ``at`` (0: before training) that is
    reached. report : ``report(done, text)`` is called about once a second, ``done`` in 0..1.

    Returns how many steps were taken. Raises Diverged when the loss stops being finite (see
    :func:`alignbook.training.loop.train`), ValueError for a batch larger than the data.
    """
    net.to(memory_format=torch.channels_last)
    net.eval() if fixed else net.train()
    trained = net.head if fixed else net
    inputs = features_of(net, x) if fixed and not augment else x
    optimiser = torch.optim.SGD(
        trained.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay
    )

    def augmented(batch):
        batch = crops_and_flips(batch, generator)
        return features_of(net, batch) if fixed else batch

    def rate(count):
        value = learning_rate
        for step in set(decay_at):
            value = value / 10 if step < count else value
        return value

    return train(
        module_step(trained, inputs, y, optimiser, transform=augmented if augment else None),
        len(x),
        batch_size=batch_size,
        steps=steps,
        rate=rate,
        last_batch="drop",
        generator=generator,
        device=x.device,
        at=at,
        on=None if on is None else lambda count: _show(on, count, net),
        until=None if stop_at_loss is None else lambda now: now.loss <= stop_at_loss,
        report=report,
    ).steps


@torch.no_grad()
def features_of(net, x, batch_size=250):
    """``net.features`` of images ``x`` (N, C, H, W) in evaluation mode: (N, features), without gradients."""
    with evaluation_mode(net):
        parts = [part.contiguous(memory_format=torch.channels_last) for part in x.split(batch_size)]
        return torch.cat([net.features(part) for part in parts])


@torch.no_grad()
def accuracy_and_loss(net, x, y, batch_size=250):
    """(share of the images ``x`` whose largest logit is at ``y``, mean cross-entropy), floats.

    In evaluation mode; afterwards every module is in the mode it was in.
    """
    right, total = 0, 0.0
    with evaluation_mode(net):
        for inputs, labels in zip(x.split(batch_size), y.split(batch_size), strict=True):
            logits = net(inputs.contiguous(memory_format=torch.channels_last))
            right += (logits.argmax(1) == labels).sum()
            total += nn.functional.cross_entropy(logits, labels, reduction="sum").double()
    return float(right) / len(x), float(total) / len(x)


def crops_and_flips(x, generator):
    """Each image of ``x`` (n, C, H, W) moved by up to 4 pixels either way and flipped with probability ½.

    What comes in from outside is 0, mid grey. ``generator`` is a CPU torch.Generator. Channels last.
    """
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (PAD, PAD, PAD, PAD))
    top, left = torch.randint(2 * PAD + 1, (2, n, 1), generator=generator)
    flipped = torch.rand(n, 1, generator=generator) < 0.5
    rows = top + torch.arange(height)  # (n, H)
    columns = torch.arange(width)
    columns = left + torch.where(flipped, width - 1 - columns, columns)  # (n, W)
    rows, columns = rows.to(x.device), columns.to(x.device)
    images = torch.arange(n, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[images, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _show(on, step, net):
    modes = [(module, module.training) for module in net.modules()]
    on(step, net)
    for module, training in modes:
        module.training = training
