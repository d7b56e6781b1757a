"""The source network of Figures 10 and 11: data, tasks and training, shared by both (Section 7.1)."""

import time
from dataclasses import dataclass

import torch

from alignbook.data import peaks
from alignbook.errors import require_finite
from alignbook.kernels.two_layer_adam import TwoLayer, adam_epochs
from alignbook.seeding import torch_stream

TASKS = ("source", "related", "unrelated")
REPRESENTATIONS = ("original", "init", "transfer")


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
    generator = torch_stream(seed, "peaks", "batches")
    losses = []
    told = time.monotonic()
    steps = adam_epochs(network, x, y, batch_size=batch_size, step_size=step_size, generator=generator)
    for epoch, loss in enumerate(steps, start=1):
        require_finite(loss, epoch * -(-len(y) // batch_size))
        losses.append(loss)
        if on is not None:
            on(epoch)
        recent = sum(losses[-window:]) / min(window, epoch)
        if epoch % window == 0 and epoch >= 2 * window:
            before = sum(losses[-2 * window : -window]) / window
            if recent > (1 - tolerance) * before:
                return epoch, True, recent
        if epoch == max_epochs:
            return epoch, False, recent
        if time.monotonic() - told > 1:
            told = time.monotonic()
            report(epoch / max_epochs, f"epoch {epoch}, training loss {loss:.2g}")


def extract(network, inputs):
    """The hidden representation of ``inputs`` (n, 60): (n, width) float64 on the CPU, not normalised."""
    with torch.no_grad():
        return network.hidden(inputs.to(network.flat)).cpu().double()
