"""One training loop: mini-batches without replacement, a rate schedule, calls at given steps.

What a step does is the caller's: a plain module and an optimiser of torch (:func:`module_step`), or a step of
one of the kernels (:class:`alignbook.kernels.mlp_sgd.MLP`, :mod:`alignbook.kernels.two_layer_adam`).
"""

import math
import time
from dataclasses import dataclass

import torch
from torch import nn

from alignbook.errors import require_finite


@dataclass(frozen=True)
class Trained:
    """How far training went: ``steps`` and ``epochs`` taken, and the mean ``loss`` of the last epoch.

    The loss is a mean over examples, each measured before the step that it entered; of an epoch that
    ``steps`` cut short, over the examples seen.
    """

    steps: int
    epochs: int
    loss: float


def train(
    step,
    examples,
    *,
    batch_size,
    epochs=None,
    steps=None,
    rate,
    last_batch="keep",
    generator,
    device="cpu",
    at=(),
    on=None,
    until=None,
    report=None,
):
    """Call ``step(index, rate)`` on batch after batch; returns :class:`Trained`.

    step : trains on the examples ``index``, (b,) int64 on ``device``, and returns their mean loss before the
        step, a tensor without dimensions. Its rate is ``rate(count)`` with the number of the step from 1 on,
        or ``rate`` itself where that is a number.
    examples : how many there are. Each epoch visits them in a new order from ``generator`` (torch.Generator
        on any device). ``last_batch`` ``"keep"`` takes the incomplete batch at the end of an epoch,
        ``"drop"`` leaves it out.
    epochs, steps : when to end; whichever comes first. until : ``until(trained)`` is asked after every epoch
        and ends training when it is true, e.g. ``lambda now: now.loss <= 0.1``.
    at, on : ``on(count)`` is called for every step count in ``at`` (0: before training) that is reached.
    report : ``report(done, text)`` is called about once a second, ``done`` in 0..1.

    The loss is looked at once an epoch and before ``on``, since each look waits for the device: Diverged when
    it is not finite. Raises ValueError for a batch larger than the examples that is dropped, an unknown
    ``last_batch`` or training without an end.
    """
    if last_batch not in ("keep", "drop"):
        raise ValueError(f"last_batch is {last_batch!r}; known: keep, drop")
    if last_batch == "drop" and batch_size > examples:
        raise ValueError(f"a batch of {batch_size} cannot be drawn from {examples} examples")
    if epochs is None and steps is None:
        raise ValueError("epochs or steps must say when training ends")
    per_epoch = examples // batch_size if last_batch == "drop" else math.ceil(examples / batch_size)
    ends = min(math.inf if steps is None else steps, math.inf if epochs is None else epochs * per_epoch)
    rates = rate if callable(rate) else lambda count: rate
    wanted = set(at)
    if on is not None and 0 in wanted:
        on(0)
    now, count, told = Trained(0, 0, math.nan), 0, time.monotonic()
    while count < ends and not (until is not None and now.epochs and until(now)):
        order = torch.randperm(examples, generator=generator, device=generator.device).to(device)
        total, seen = torch.zeros((), device=device, dtype=torch.float64), 0
        for index in order.split(batch_size)[: min(per_epoch, ends - count)]:
            count += 1
            loss = step(index, rates(count))
            total.add_(loss, alpha=len(index))
            seen += len(index)
            if on is not None and count in wanted:
                require_finite(float(loss), count)
                on(count)
            if report is not None and time.monotonic() - told >= 1:
                told = time.monotonic()
                report(count / ends, f"step {count} of {ends}")
        now = Trained(count, now.epochs + 1, total.item() / seen)
        require_finite(now.loss, count)
    return now


def module_step(net, x, y, optimiser, *, loss=nn.functional.cross_entropy, transform=None):
    """A ``step`` for :func:`train` from a module and an optimiser of torch.

    net : nn.Module, put into training mode at every step. x : (N, …), y : (N,) or (N, k), on its device.
    loss : ``loss(net(x), y)``, a mean over the batch. transform : ``transform(batch)`` before ``net`` sees
    it, e.g. crops and flips. Images (N, C, H, W) go through channels last, as ``net`` should be.
    """

    def step(index, rate):
        net.train()
        for group in optimiser.param_groups:
            group["lr"] = rate
        inputs = x.index_select(0, index)
        if transform is not None:
            inputs = transform(inputs)
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        optimiser.zero_grad(set_to_none=True)
        value = loss(net(inputs), y.index_select(0, index))
        value.backward()
        optimiser.step()
        return value.detach()

    return step
