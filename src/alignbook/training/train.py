"""The training protocol of Maennel et al. 2020 (A.3): SGD with momentum, rate divided by 3 twice."""

import time

import torch
from torch import nn

from alignbook.errors import require_finite

CHECK_EVERY = 50  # steps between looks at the loss: each look waits for the device


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

    Raises Diverged when the loss stops being finite (found within 50 steps), ValueError for an
    unknown schedule or precision or a batch larger than the data.
    """
    if schedule not in ("thirds", "constant"):
        raise ValueError(f"schedule is {schedule!r}; known: thirds, constant")
    if batch_size > len(x):
        raise ValueError(f"a batch of {batch_size} cannot be drawn from {len(x)} examples")
    images = x.ndim == 4
    if images:
        net.to(memory_format=torch.channels_last)
    net.train()
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=momentum)
    wanted = set(at)
    if on is not None and 0 in wanted:
        on(0, net)
    batches = _batches(len(x), batch_size, generator, x.device)
    told = time.monotonic()
    for step in range(1, steps + 1):
        if schedule == "thirds":
            optimiser.param_groups[0]["lr"] = learning_rate / 3 ** (3 * (step - 1) // steps)
        index = next(batches)
        inputs = x.index_select(0, index)
        if images:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        optimiser.zero_grad(set_to_none=True)
        with _products(x.device, precision):
            logits = net(inputs)
        loss = nn.functional.cross_entropy(logits.float(), y.index_select(0, index))
        loss.backward()
        optimiser.step()
        if step % CHECK_EVERY == 0 or step == steps or step in wanted:
            require_finite(loss.item(), step)
        if on is not None and step in wanted:
            on(step, net)
            net.train()
        if report is not None and time.monotonic() - told >= 1:
            told = time.monotonic()
            report(step / steps, f"step {step} of {steps}")
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


def _batches(count, size, generator, device):
    """Endless int64 index tensors (size,) on ``device``, without replacement within each epoch."""
    while True:
        order = torch.randperm(count, generator=generator, device=generator.device).to(device)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def _products(device, precision):
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision is {precision!r}; known: float32, bfloat16")
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
