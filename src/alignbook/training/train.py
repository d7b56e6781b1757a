"""The training protocol of Maennel et al. 2020 (A.3): SGD with momentum, rate divided by 3 twice."""

import torch
from torch import nn

from .loop import train


def fit(
    net,
    x,
    y,
    *,
    steps,
    batch_size,
    learning_rate,
    momentum=0.9,
    schedule="thirds",
    generator,
    precision="float32",
    at=(),
    on=None,
    report=None,
):
    """Train ``net`` in place on inputs ``x`` (N, …) float32, labels ``y`` (N,) int64; returns ``net``.

    Everything lies on one device. Each epoch visits the images in a new order from ``generator``
    (a torch.Generator on any device), without replacement; the incomplete batch at the end of an
    epoch is dropped. ``schedule`` ``"thirds"`` divides the rate by 3 after one and after two thirds
    of ``steps`` (A.3), ``"constant"`` does not. ``precision`` ``"bfloat16"`` computes products in
    bfloat16; weights, their gradients and the optimiser's state stay float32.

    ``on(step, net)`` is called for every step count in ``at`` (0: before training).
    ``report(done, text)`` is called about once a second, ``done`` in 0..1.

    Raises Diverged when the loss stops being finite (see :func:`alignbook.training.loop.train`),
    ValueError for an unknown schedule or precision or a batch larger than the data.
    """
    if schedule not in ("thirds", "constant"):
        raise ValueError(f"schedule is {schedule!r}; known: thirds, constant")
    images = x.ndim == 4
    if images:
        net.to(memory_format=torch.channels_last)
    net.train()
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=momentum)

    def step(index, rate):
        net.train()
        optimiser.param_groups[0]["lr"] = rate
        inputs = x.index_select(0, index)
        if images:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        optimiser.zero_grad(set_to_none=True)
        with _products(x.device, precision):
            logits = net(inputs)
        loss = nn.functional.cross_entropy(logits.float(), y.index_select(0, index))
        loss.backward()
        optimiser.step()
        return loss.detach()

    def thirds(count):
        return learning_rate / 3 ** (3 * (count - 1) // steps)

    train(
        step,
        len(x),
        batch_size=batch_size,
        steps=steps,
        rate=thirds if schedule == "thirds" else learning_rate,
        last_batch="drop",
        generator=generator,
        device=x.device,
        at=at,
        on=None if on is None else lambda count: on(count, net),
        report=report,
    )
    return net


@torch.no_grad()
def accuracy(net, x, y, batch_size=250, precision="float32"):
    """Share of the examples ``x`` (N, …) whose largest logit is at ``y`` (N,); float in 0..1."""
    net.eval()
    right = 0
    for inputs, labels in zip(x.split(batch_size), y.split(batch_size), strict=True):
        if x.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with _products(x.device, precision):
            logits = net(inputs)
        right += (logits.float().argmax(1) == labels).sum()
    return float(right) / len(x)


def _products(device, precision):
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision is {precision!r}; known: float32, bfloat16")
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
