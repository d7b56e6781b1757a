"""The source network of Figures 10 and 11: data, tasks and training, shared by both (Section 7.1)."""

import math
from dataclasses import dataclass

import torch

from alignbook.data import peaks
from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.seeding import torch_stream
from alignbook.training import loop


@dataclass(frozen=True)
class Source:
    """The tasks of one seed and the network trained on S.

    functions : {task: peaks.PeaksFunction}
    inputs : (n, 60) float64 on the CPU, rows of length one
    labels : {task: (n,) float64}, each of mean zero
    means : {task: float}, what was subtracted
    """

    functions: dict
    inputs: torch.Tensor
    labels: dict
    means: dict


def draw(seed, points):
    """The :class:`Source` of ``seed`` with ``points`` inputs."""
    functions = peaks.draw_tasks(torch_stream(seed, "peaks", "tasks"))
    variables = peaks.sample_variables(points, torch_stream(seed, "peaks", "inputs"))
    raw = {task: function(variables) for task, function in functions.items()}
    means = {task: float(y.mean()) for task, y in raw.items()}
    labels = {task: y - means[task] for task, y in raw.items()}
    return Source(functions, peaks.encode(variables), labels, means)


def initial_network(seed, width, device):
    """The untrained network of ``seed``."""
    generator = torch_stream(seed, "peaks", "network")
    return TwoLayer(60, width, generator, device=device)


def train(network, source, *, seed, batch_size, step_size, window, tolerance, max_epochs, report, on=None):
    """Train ``network`` on S in place until convergence. Returns (epochs, converged, training loss).

    The paper does not say what convergence is. Here: the mean training loss of the last ``window``
    epochs is less than ``tolerance`` (relative) below that of the ``window`` epochs before; asked
    every ``window`` epochs; ``max_epochs`` at most. The returned loss is the last window's mean.
    ``on(epoch)`` is called after every epoch. Raises Diverged when the loss is not finite.
    """
    device = network.flat.device
    x, y = source.inputs.to(device), source.labels["source"].to(device)
    per_epoch = math.ceil(len(y) / batch_size)
    losses = []

    def settled(now):
        losses.append(now.loss)
        if now.epochs % window or now.epochs < 2 * window:
            return False
        before = sum(losses[-2 * window : -window]) / window
        return sum(losses[-window:]) / window > (1 - tolerance) * before

    trained = loop.train(
        adam_step(network, x, y),
        len(y),
        batch_size=batch_size,
        epochs=max_epochs,
        rate=step_size,
        generator=torch_stream(seed, "peaks", "batches"),
        device=device,
        at=range(per_epoch, max_epochs * per_epoch + 1, per_epoch),
        on=None if on is None else lambda count: on(count // per_epoch),
        until=settled,
        report=report,
    )
    # The loop does not ask after the last epoch that it may take.
    converged = len(losses) == trained.epochs or settled(trained)
    return trained.epochs, converged, sum(losses[-window:]) / min(window, trained.epochs)


def extract(network, inputs):
    """The hidden representation of ``inputs`` (n, 60): (n, width) float64 on the CPU, not normalised."""
    with torch.no_grad():
        return network.hidden(inputs.to(network.flat)).cpu().double()
