"""A recorder: the instruments on one network again and again while it trains."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from alignbook.errors import on_one_line

from .examples import Reading, collected, loss_of, untouched, unwrapped
from .instruments import INSTRUMENTS, Subject
from .schedule import Budget, due

COLUMNS = ["step", "instrument", "layer", "value"]
DEFAULT = ("loss", "alignment", "tangent", "curvature", "deviation")
clock = time.perf_counter


class Recorder:
    """Measures a network at chosen steps of its training, on the same examples each time.

    Parameters
    ----------
    data : (inputs, targets), or a DataLoader or other iterable of batches
        A batch is (inputs, targets), or a dict with the targets as ``labels``; inputs that are a dict are
        handed to the network by name. The first ``examples`` are kept. Held-out data measure what was
        learned, training data what was memorised.
    instruments : names, or callables
        Of :data:`alignbook.recording.INSTRUMENTS`: ``loss``, ``alignment`` (features with labels),
        ``tangent`` (layer tangent kernels with labels), ``curvature`` (largest Hessian eigenvalue),
        ``misalignment`` (first layer with its inputs) and ``deviation`` (of the weights from the start). A
        callable (model, inputs, targets) returns a number, or a dict of them by layer.
    at : int, iterable of int, or "logarithmic"
        Every so many steps, at these steps, or at eight steps to a decade.
    share : float, optional
        Recording may take this share of the time of training, after ten seconds that are free; an
        instrument that would take more is skipped at that step. None: no bound.
    examples : int
        How many are kept and measured.
    loss : callable (outputs, targets) → scalar, optional
        A mean over examples; by default cross-entropy of classes, mean squared error of numbers.
    start : torch.nn.Module or state dict, optional
        Where ``deviation`` counts from; by default the network at the first step.
    seed : int
        Of the coordinates of wide features, and of the curvature's start.

    Attributes
    ----------
    table : pandas.DataFrame
        A row per step, instrument and layer (empty for the whole network), with its ``value``.
    costs : pandas.DataFrame
        Per instrument how often it was recorded and skipped, its seconds and their share of training.
    left_out : dict of str to str
        Why an instrument has no number at a step, or does not apply at all.

    Raises
    ------
    ValueError
        For data, instruments or steps of another form.

    Notes
    -----
    The network is measured in evaluation mode and left as it was: modes, buffers, gradients and all random
    states, so that training goes on exactly as it would without a recorder. What DistributedDataParallel
    and torch.compile put around it is taken off, and only rank 0 records. An instrument that does not apply
    is left out; ``left_out`` says why.

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
        self, data, instruments: Iterable[str | Callable] = DEFAULT, at="logarithmic",
        share: float | None = 0.05, examples: int = 256, loss: Callable | None = None,
        start: nn.Module | Mapping | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self._instruments = _named(instruments)
        self._due, self._budget = due(at), Budget(share)
        with untouched(nn.Module()):  # a DataLoader that shuffles draws from the global generator
            self._inputs, self._targets = collected(data, examples)
        self._loss, self._seed = loss or loss_of, seed
        self._start = None if start is None else _weights(start)
        self._rows: dict[tuple[int, str], dict[str, float]] = {}
        self._sinks: list[Callable] = []
        self._stopped: float | None = None  # when the last look ended
        self._last: int | None = None
        self._continued = False  # from a file, which does not hold the weights at the start
        self.left_out: dict[str, str] = {}

    def step(self, model: nn.Module, n: int) -> None:
        """Record step ``n`` if it is due; to be called at every step, once before the first one trains."""
        if self._stopped is not None:
            self._budget.trained += clock() - self._stopped
        if _leads() and n != self._last:
            self._last = n
            model = unwrapped(model)
            if self._start is None and not self._continued:
                self._start = _weights(model)
            if self._due(n):
                self._record(model, n)
        self._stopped = clock()

    @property
    def table(self) -> pd.DataFrame:
        """One row per step, instrument and layer (empty for the whole network), with its ``value``."""
        rows = [
            (step, name, layer, value)
            for (step, name), found in sorted(self._rows.items(), key=self._order)
            for layer, value in found.items()
        ]
        return pd.DataFrame(rows, columns=COLUMNS)

    @property
    def costs(self) -> pd.DataFrame:
        """How often each instrument was recorded and skipped, its seconds, and their share of training."""
        b = self._budget
        rows = [
            (name, b.records.get(name, 0), b.skipped.get(name, 0), b.seconds.get(name, 0.0))
            for name in self._instruments
        ]
        table = pd.DataFrame(rows, columns=["instrument", "recorded", "skipped", "seconds"])
        return table.assign(share=table["seconds"] / b.trained if b.trained else float("nan"))

    def to_csv(self, path: str | Path) -> None:
        """Write :attr:`table`; :meth:`read_csv` of a new recorder takes it up again."""
        text = self.table.to_csv(index=False, na_rep="nan")  # an empty field would be no number
        part = Path(f"{path}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    def read_csv(self, path: str | Path) -> None:
        """Take up the rows of a run that goes on; ``deviation`` then needs ``start=``.

        Raises ValueError where the file is no such table.
        """
        rows: dict[tuple[int, str], dict[str, float]] = {}
        try:
            table = pd.read_csv(path, keep_default_na=False)
            if list(table.columns) != COLUMNS:
                raise ValueError(f"its columns are {', '.join(table.columns)}")
            for row in table.itertuples():
                rows.setdefault((int(row.step), row.instrument), {})[str(row.layer)] = float(row.value)
        except ValueError as error:
            raise ValueError(f"{path} is no recorder's table: {on_one_line(error)}") from None
        self._rows |= rows
        self._continued = True

    def state_dict(self) -> dict:
        """All that a resumed run needs: plain numbers, and the weights at the start as tensors."""
        rows = [[step, name, found] for (step, name), found in self._rows.items()]
        budget = self._budget.state_dict()
        return {"rows": rows, "start": self._start, "budget": budget, "left_out": self.left_out}

    def load_state_dict(self, state: Mapping) -> None:
        """Go on from :meth:`state_dict`."""
        self._rows = {(step, name): dict(found) for step, name, found in state["rows"]}
        self._start, self.left_out = state["start"], dict(state["left_out"])
        vars(self._budget).update(state["budget"])
        self._stopped = self._last = None

    def plot(self):
        """A figure with a panel per instrument, a line per layer. Raises ImportError without matplotlib."""
        from .drawing import drawn

        return drawn(self.table)

    def log_to(self, tracker) -> None:
        """Send all rows, past and future, to a tracker of yours.

        Parameters
        ----------
        tracker : object
            One with ``add_scalar(name, value, step)`` (TensorBoard's SummaryWriter),
            ``log_metrics(values, step=)`` (the module ``mlflow``, Lightning's loggers) or
            ``log(values, step=)`` (the module ``wandb``, or one of its runs).

        Raises
        ------
        ValueError
            If the tracker has none of these.
        """
        send = _sender(tracker)
        for (step, name), found in sorted(self._rows.items(), key=self._order):
            send(step, _flat(name, found))
        self._sinks.append(send)

    def _order(self, item):
        """By step, then in the order in which the instruments were given."""
        (step, name), _ = item
        return step, [*self._instruments, name].index(name)

    def _record(self, model, n):
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        subject = self._subject(model, device)
        with untouched(model), torch.autocast(device.type, enabled=False):
            for name, measure in self._instruments.items():
                if self._hopeless(name) or not self._budget.allows(name):
                    continue
                began = clock()
                try:
                    found = measure(subject)
                except (ValueError, RuntimeError, TypeError, IndexError, AttributeError) as error:
                    self.left_out[name] = f"step {n}: {type(error).__name__}: {on_one_line(error)}"
                    continue
                self._budget.spend(name, clock() - began)
                self._rows[n, name] = found
                for send in self._sinks:
                    send(n, _flat(name, found))

    def _hopeless(self, name):
        """Whether the instrument failed and never worked before: it does not apply to this network."""
        return name in self.left_out and not any(seen == name for _, seen in self._rows)

    def _subject(self, model, device):
        inputs, fields = self._inputs, None
        if isinstance(inputs, Mapping):
            fields = {name: values.to(device) for name, values in inputs.items()}
            inputs = torch.arange(len(self._targets))
        targets = self._targets.to(device)
        reading = Reading(model, fields)
        return Subject(reading, inputs.to(device), targets, self._loss, self._start, self._seed)


def _named(instruments):
    """{name: callable (Subject) → {layer: number}} from names and callables."""
    found = {}
    for given in [instruments] if isinstance(instruments, str) or callable(instruments) else instruments:
        if callable(given):
            name = getattr(given, "__name__", type(given).__name__)
            if name in found:
                raise ValueError(f"two instruments are called {name!r}: give each a __name__ of its own")
            found[name] = _own(given)
        elif given in INSTRUMENTS:
            found[given] = INSTRUMENTS[given]
        else:
            raise ValueError(f"there is no instrument {given!r}: {', '.join(INSTRUMENTS)}")
    if not found:
        raise ValueError("there are no instruments")
    return found


def _own(function):
    def measure(subject):
        inputs = subject.model.fields or subject.inputs
        value = function(subject.model.model, inputs, subject.targets)
        if not isinstance(value, Mapping):
            value = {"": value}
        return {str(layer): float(number) for layer, number in value.items()}

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


def _flat(name, found):
    return {"/".join(filter(None, ("alignbook", name, layer))): value for layer, value in found.items()}


def _sender(tracker):
    if callable(getattr(tracker, "add_scalar", None)):

        def send(step, values):
            for name, value in values.items():
                tracker.add_scalar(name, value, step)

        return send
    for method in ("log_metrics", "log"):
        if callable(getattr(tracker, method, None)):
            return lambda step, values: getattr(tracker, method)(values, step=step)
    raise ValueError(f"a {type(tracker).__name__} has no add_scalar, log_metrics or log")
