"""The recorder as :mod:`alignbook` hands it out.

Studies use that of :mod:`.recorder`, whose code counts for their stored results. Here, around it, data are
read as the probe reads them: a spread of examples, in more forms, and more kinds of targets.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alignbook.installed import extras
from alignbook.metrics.checks import integer
from alignbook.probing import given, settling, weights
from alignbook.probing.gathering import gathered, random_states_kept
from alignbook.probing.twice import twice_differentiable

from . import recorder, wandb

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Recorder(recorder.Recorder):
    __doc__ = recorder.Recorder.__doc__

    def __init__(
        self, data: Any, instruments: Iterable[str | Callable] = recorder.DEFAULT,
        at: str | int | Iterable[int] = "logarithmic", share: float | None = 0.05, examples: int = 256,
        loss: Callable | None = None,
        start: nn.Module | Mapping[str, Any] | str | Path | None = None,
        seed: int = 0, *, forward: Callable | None = None,
    ) -> None:  # fmt: skip
        integer(examples, "examples", 1)
        integer(seed, "seed", 0)
        if isinstance(share, bool) or not isinstance(share, Real | None):
            raise ValueError(f"share must be a number above 0, or None for no bound, not {share!r}")
        if not callable(instruments) and not isinstance(instruments, Iterable):
            raise ValueError(f"instruments must be names or functions, not {instruments!r}")
        loss, forward, start = given.loss(loss), given.forward(forward), _start(start)
        with random_states_kept():
            found, _ = gathered(data, examples=examples, least=1, floats=None)
        inputs, targets = found.inputs, found.targets
        whole = (inputs, targets) if found.key is None else {**inputs, found.key: targets}
        super().__init__(whole, instruments, at, share, examples, loss, start, seed, forward=forward)
        self.said = (*found.said, *self.said)

    def _record(self, model, n):
        with twice_differentiable():
            super()._record(model, n)

    def _network(self, model):
        network = super()._network(model)
        network.task = functools.partial(settling.task, network)
        return network

    def plot(self) -> "Figure":
        """A figure with a panel per instrument and a line per layer, or one line for the whole network.

        An instrument that has a number for the whole network, as ``deviation`` has, gets that line alone.
        Raises ValueError where nothing is recorded yet. Needs matplotlib: ``alignbook[report]``.
        """
        with extras():
            return super().plot()

    def log_to(self, tracker: Any) -> None:  # its docstring is inherited
        if not callable(getattr(tracker, "define_metric", None)):
            return super().log_to(tracker)
        rows = wandb.Rows(tracker)
        super().log_to(rows)
        rows.past = False
        if rows.late:
            self.left_out["log_to"] = f"{rows.late} rows of steps that the run has passed are not sent to it"


def _start(given):
    """The weights at the start in one of the forms that the recorder takes them in, or None."""
    if given is None or isinstance(given, nn.Module):
        return given
    state = weights.read(given) if isinstance(given, str | Path) else weights.unpacked(given)
    if isinstance(state, Mapping) and any(isinstance(value, torch.Tensor) for value in state.values()):
        return state
    what = "a dict without tensors" if isinstance(state, Mapping) else type(state).__name__
    raise ValueError(f"start must be an nn.Module, a state dict, a checkpoint or its path, not {what}")


Recorder.__module__ = "alignbook.recording"
