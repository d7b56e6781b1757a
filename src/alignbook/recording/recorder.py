"""A recorder: the instruments on one network again and again while it trains."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import nn

from alignbook.errors import on_one_line
from alignbook.installed import extras
from alignbook.metrics.checks import integer
from alignbook.probing import budget, weights
from alignbook.probing.copies import copied, device_of, measurable, random_states_kept, unwrapped
from alignbook.probing.data import gathered
from alignbook.probing.errors import OutOfTime, why
from alignbook.probing.network import Network
from alignbook.probing.parameters import TRAINABLE, checked, chosen, lines, require
from alignbook.probing.task import function, settled

from .instruments import INSTRUMENTS, Subject, table_of
from .schedule import Budget, due

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ["step", "instrument", "layer", "parameter", "value"]
FREE = "loss"  # is recorded whatever the budget: one forward pass
DEFAULT = ("loss", "alignment", "tangent", "curvature", "deviation")


class Recorder:
    """Measures a network at chosen steps of its training, on the same examples each time.

    Parameters
    ----------
    data : (inputs, targets), dict, Dataset, DataLoader or other iterable of batches
        As :func:`alignbook.probe` takes them. Copies of ``examples`` are kept: evenly from first to last if
        the data have a length, otherwise the first ones.
    instruments : names, or callables
        Names from :data:`alignbook.recording.INSTRUMENTS`: ``loss``, ``alignment`` (of features with labels),
        ``tangent`` (alignment of layer tangent kernels with labels), ``curvature`` (largest Hessian
        eigenvalue), ``misalignment`` (of the first layer with its inputs) and ``deviation`` (of the weights
        from the start). A callable (model, inputs, targets) returns a number, or a dict of numbers by layer.
    at : int, iterable of int, or "logarithmic"
        When to record: every ``at`` steps, at the steps listed, or at eight steps per decade.
    share : float, optional
        The largest fraction of the training time that recording may take, or ten seconds if that is more. An
        instrument that would exceed it is skipped at that step, and named in ``left_out``; ``loss`` is never
        skipped. With None there is no limit.
    examples : int
        Number of examples that are kept and measured.
    loss, forward : callable, optional
        As :func:`alignbook.probe` takes them.
    parameters : str or list of str
        Of which parameters ``tangent``, ``curvature`` and ``deviation`` are: ``"trainable"``, those that
        require gradients at that step; ``"all"``; or names and patterns of parameters or modules.
    start : torch.nn.Module, state dict, checkpoint or path, optional
        The weights from which ``deviation`` is measured; by default those at the first step.
    seed : int
        Seed, from 0 on, of all random draws.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per step, instrument, layer (the module's name, empty for the whole network) and parameter
        (empty unless the value belongs to one), with its ``value``.
    left_out : dict of str to str
        The last reason why an instrument failed, did not apply, or was too slow. One that fails
        before it has worked once is not tried again.
    said : tuple of str
        How the network and the data were understood, one line per remark.

    Raises
    ------
    ValueError
        If an argument has none of the forms above. A measurement that fails never ends the training:
        ``left_out`` says why.
    AlignbookError
        If the file that ``start`` names cannot be read.

    Notes
    -----
    A copy of the network is measured, in evaluation mode, and all random states are restored, so training
    continues exactly as it would without a recorder. In distributed training only rank 0 records. ``tangent``
    uses at most 64 examples, ``curvature`` 128, and ``alignment`` at most 1,024 random coordinates of a
    layer's input. Cost: that of the instruments, see :func:`alignbook.probe`, within ``share``.

    Examples
    --------
    >>> import torch, alignbook
    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(60, 8), torch.randint(0, 3, (60,))
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    >>> optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
    >>> recorder = alignbook.Recorder((x, y), instruments=["loss", "deviation"], at=10)
    >>> for n in range(21):
    ...     recorder.step(net, n)
    ...     optimiser.zero_grad()
    ...     torch.nn.functional.cross_entropy(net(x), y).backward()
    ...     optimiser.step()
    >>> recorder.table.query("instrument == 'loss'")["step"].tolist()
    [0, 10, 20]
    """

    def __init__(
        self, data: Any, instruments: Iterable[str | Callable] = DEFAULT,
        at: str | int | Iterable[int] = "logarithmic", share: float | None = 0.05, examples: int = 256,
        loss: Callable | None = None,
        start: nn.Module | Mapping[str, Any] | str | Path | None = None,
        seed: int = 0, *, forward: Callable | None = None, parameters: str | Iterable[str] = TRAINABLE,
    ) -> None:  # fmt: skip
        integer(examples, "examples", 1)
        integer(seed, "seed", 0)
        checked(parameters)
        self._instruments = _named(instruments)
        self._due, self._budget = due(at), Budget(share)
        self._forward = function(forward, "forward", "model and inputs")
        self._loss = function(loss, "loss", "outputs and targets")
        if start is not None and not isinstance(start, nn.Module):
            start = weights.state_of(start, "start")
        with random_states_kept():  # a DataLoader that shuffles draws from the global generator
            read, _ = gathered(data, examples=examples, least=1, floats=None)
        self._data = read.each(lambda values: values.detach().clone())
        self._seed, self._parameters = seed, parameters
        self._start = None if start is None else _weights(start)
        self._known: tuple | None = None  # what the network is asked and how it is called
        self._rows: list[tuple[int, str, str, str, float]] = []  # the table's
        self._unfit: set[str] = set()  # instruments that failed and never worked before
        self._stopped: float | None = None  # when the last look ended
        self._last: int | None = None
        self._continued = False  # the run began earlier, with weights that are not known
        self.left_out: dict[str, str] = {}
        self.said: tuple[str, ...] = read.said

    def step(self, model: nn.Module, n: int) -> None:
        """Record step ``n`` if it is due; to be called at every step, once before the first one trains.

        Raises ValueError where ``n`` is not an integer from 0 on, or the model not an nn.Module.
        """
        integer(n, "n", 0)
        if not isinstance(model, nn.Module):
            raise ValueError(f"the network must be an nn.Module, not {type(model).__name__}")
        if self._stopped is not None:
            self._budget.trained += budget.clock() - self._stopped
        if _leads() and n != self._last:
            self._last = n
            try:
                if self._start is None and not self._continued:
                    self._start = _weights(unwrapped(model))
                if self._due(n):
                    self._record(model, n)
            except Exception as error:  # no fault of a look ends the training
                for name in self._instruments:
                    self.left_out[name] = f"step {n}: {why(error)}"
        self._stopped = budget.clock()

    @property
    def table(self) -> pd.DataFrame:
        """One row per step, instrument, layer (empty for the network) and parameter, with its ``value``."""
        return pd.DataFrame(sorted(self._rows, key=self._order), columns=COLUMNS)

    def goes_on(self) -> None:
        """Say that the run began earlier: the weights of the next step are not those at the start.

        Without ``start=`` or a state that holds them ``deviation`` is then left out.
        """
        self._continued = True

    def state_dict(self) -> dict:
        """All that a resumed run needs: plain numbers, and the weights at the start as tensors."""
        rows = [list(row) for row in self._rows]
        state = {"rows": rows, "start": self._start, "budget": self._budget.state()}
        return state | {"left_out": dict(self.left_out), "unfit": sorted(self._unfit)}

    def load_state_dict(self, state: Mapping) -> None:
        """Go on from :meth:`state_dict`. Raises ValueError for another thing, and then changes nothing."""
        try:
            rows = [(int(step), *map(str, whose), float(value)) for step, *whose, value in state["rows"]]
            spent = Budget(self._budget.share, **state["budget"])
            start = None if state["start"] is None else _weights(state["start"])
            left_out, unfit = dict(state["left_out"]), set(state["unfit"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"this is no recorder's state: {type(error).__name__}: {error}") from None
        self._rows, self._budget, self.left_out, self._unfit = rows, spent, left_out, unfit
        self._start = self._start if start is None else start
        self._continued = self._continued or bool(self._rows)
        self._stopped = self._last = None

    def plot(self) -> "Figure":
        """A figure with a panel per instrument and a line per layer, or one line for the whole network.

        An instrument that has a number for the whole network, as ``deviation`` has, gets that line alone.
        Raises ValueError where nothing is recorded yet. Needs matplotlib: ``alignbook[report]``.
        """
        with extras():
            from .drawing import drawn

            return drawn(self.table)

    def _order(self, row):
        """By step, then in the order in which the instruments were given."""
        step, name, *_ = row
        return step, [*self._instruments, name].index(name)

    def _record(self, model, n):
        model = copied(model)
        require(model, set(chosen(model, self._parameters)))
        self._say(lines(model, self._parameters))
        device = device_of(model)
        network = Network(model, self._data, self._forward)
        rows = torch.arange(len(self._data), device=device)
        subject = Subject(network, rows, self._settled, self._start, self._seed)
        with measurable(device):
            for name in self._instruments:
                if name in self._unfit:
                    continue
                if name == FREE or self._budget.allows(name):
                    self._look(name, subject, n)
                else:
                    takes = f"it takes about {self._budget.last[name]:.0f} s, and "
                    self._skip(name, n, takes)

    def _look(self, name, subject, n):
        """Record one instrument, or say in ``left_out`` why there is no number."""
        began, spent, error = budget.clock(), self._budget, None
        subject.network.until = float("inf") if name == FREE else began + spent.left
        try:
            table = self._instruments[name](subject)
        except Exception as failure:  # a reader's network, loss or instrument may fail in any way
            error = failure
        seconds = budget.clock() - began
        spent.seconds += seconds
        if isinstance(error, OutOfTime):
            spent.last[name] = 2 * seconds
            self._skip(name, n)
        elif error is not None:
            self.left_out[name] = f"step {n}: {why(error)}"
            if not any(seen == name for _, seen, *_ in self._rows):
                self._unfit.add(name)
        else:
            spent.last[name] = seconds
            others = [row for row in self._rows if row[:2] != (n, name)]  # of a run that was resumed here
            columns = (table[column].tolist() for column in COLUMNS[2:])
            self._rows = others + [(n, name, *row) for row in zip(*columns, strict=True)]
            if not any(line.startswith(f"{name}: ") for line in self.said):
                self._say(f"{name}: {line}" for line in table.attrs.get("said", ()))
            left = table.attrs.get("left_out", {})
            self.left_out |= {f"{name} of {layer}": f"step {n}: {reason}" for layer, reason in left.items()}

    def _skip(self, name, n, takes=""):
        may = max(self._budget.left, 0.0)
        self.left_out[name] = f"step {n}: {takes}recording may take {may:.0f} s (share=)"

    def _say(self, remarks):
        self.said = tuple(dict.fromkeys([*self.said, *remarks]))

    def _settled(self, network):
        """The task, settled when it is first asked for, from what the network returns for two examples."""
        if self._known is None:
            _, remarks = network.prepared(network.few)
            before = network.data.targets
            task, more = settled(network, self._loss, self._seed)
            if network.data.targets is not before:  # some are padding
                self._data = replace(self._data, targets=network.data.targets.cpu())
            self._say([*remarks, *more])
            self._known = replace(task, targets=task.targets.cpu()), network.key, network.batch
        task, network.key, network.batch = self._known
        return replace(task, targets=task.targets.to(network.data.targets))


def _named(instruments):
    """{name: callable (Subject) → table} from names and callables."""
    measures = {}
    if not callable(instruments) and not isinstance(instruments, Iterable):
        raise ValueError(f"instruments must be names or functions, not {instruments!r}")
    for one in [instruments] if isinstance(instruments, str) or callable(instruments) else instruments:
        if callable(one):
            name, measure = getattr(one, "__name__", type(one).__name__), _own(one)
        elif isinstance(one, str) and one in INSTRUMENTS:
            name, measure = one, INSTRUMENTS[one]
        else:
            raise ValueError(f"there is no instrument {on_one_line(repr(one))}: {', '.join(INSTRUMENTS)}")
        if measures.get(name, measure) is not measure:  # a name that is one twice counts once
            raise ValueError(f"two instruments are called {name!r}: give each a __name__ of its own")
        measures[name] = measure
    if not measures:
        raise ValueError("there are no instruments")
    return measures


def _own(function):
    def measure(subject):
        data = subject.network.data
        value = function(subject.network.model, data.inputs, data.targets)
        return table_of(value if isinstance(value, Mapping) else {"": value})

    return measure


def _weights(network):
    """Detached copies, on the CPU, of the weights that :func:`alignbook.weight_deviation` compares."""
    state = network.state_dict() if isinstance(network, nn.Module) else network
    return {
        name: value.detach().cpu().clone() for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim >= 2
    }  # fmt: skip


def _leads():
    """Whether this process records: the only one, or rank 0."""
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0


Recorder.__module__ = "alignbook.recording"
