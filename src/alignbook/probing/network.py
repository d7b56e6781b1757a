"""The network as the instruments see it: a function of examples' numbers that never changes anything."""

import inspect
from collections.abc import Mapping

import torch
from torch import nn

from alignbook.errors import AlignbookError, on_one_line
from alignbook.seeding import torch_stream

from . import budget
from .data import IGNORED, taken
from .errors import DoesNotApply, OutOfTime
from .task import loss_in, outputs_of
from .untouched import copy_of, same_bits

WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}
BATCH = 100  # examples at once
LABELS = "labels"  # what Hugging Face's networks call targets
AGAIN = 8  # calls that have to give the same
RANDOM = "the network answers differently to the same examples: its forward is random, or counts its calls"


def device_of(network):
    """Where the parameters lie, or else the buffers; the CPU for a network without either."""
    return next((v.device for v in [*network.parameters(), *network.buffers()]), torch.device("cpu"))


class Network(nn.Module):
    """A network's copy, called with numbers of examples ``rows`` (n,) int64 in place of the examples.

    Each call hands it copies of these inputs, and buffers that it changes are as they were afterwards. It
    returns the tensor of outputs. ``until`` is when calls are refused with :class:`OutOfTime`.
    """

    def __init__(self, model, data, forward=None):
        super().__init__()
        self.model, self.data, self.own = model, data, forward
        self.until, self.changes, self.dropped, self.batch = float("inf"), False, [], BATCH
        # A network of Hugging Face's that is given the targets says what its own loss is.
        self.key = next((k for k in (data.key, LABELS) if k and forward is None and _takes(model, k)), None)

    def forward(self, rows):
        if budget.clock() > self.until:
            raise OutOfTime("the time is over (--minutes)")
        outputs = outputs_of(returned := self.answer(rows))
        if self.key is not None:
            outputs.stated = loss_in(returned)
        return outputs

    def answer(self, rows, targets=None):
        """What the network itself returns for these examples; it may be given other targets of theirs."""
        if targets is None:
            targets = self.data.targets[rows.to(self.data.targets.device)]
        return self.returned(self.data.rows(rows), {} if self.key is None else {self.key: targets})

    @property
    def few(self):
        """(2,) two examples to try it on, or as many as there are: those with the most classes."""
        targets = self.data.targets
        known = torch.ones(len(targets)) if targets.is_floating_point() else (targets != IGNORED)
        counts = known.reshape(len(targets), -1).sum(1)
        return counts.argsort(descending=True, stable=True)[:2].to(targets.device)

    def returned(self, batch, named=None):
        """What it returns for inputs of its own kind, and others by name."""
        if self.own is not None:
            return self._kept(lambda: self.own(self.model, batch))
        given = batch if isinstance(batch, tuple) else (batch,)
        if isinstance(batch, Mapping):
            known, self.dropped = taken(self.model.forward, batch)
            given, named = (), {**known, **(named or {})}
        return self._kept(lambda: self._called(given, named or {}))

    def _called(self, given, named):
        if not self.changes:
            return self.model(*given, **named)
        buffers = {name: value.clone() for name, value in self.model.named_buffers()}
        return torch.func.functional_call(self.model, buffers, given, named)

    def _kept(self, call):
        """``call()``, its buffers put back; whatever a reader's code raises is a RuntimeError, one line."""
        buffers = self._snapshot() if self.changes and self.own else {}
        try:
            return call()
        except (RuntimeError, ValueError, DoesNotApply):
            raise
        except (Exception, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__}: {on_one_line(error)}") from error
        finally:
            if buffers:
                self._put_back(buffers)

    def _snapshot(self):
        return {name: value.clone() for name, value in self.model.named_buffers()}

    @torch.no_grad()
    def _put_back(self, buffers):
        for name, value in self.model.named_buffers():
            if name in buffers:
                value.copy_(buffers[name])

    @torch.no_grad()
    def prepared(self, rows):
        """Lines on how it takes a few examples: what it is called with, and buffers that a call changes.

        These are put back, from here on after every call.
        """
        buffers, lines = self._snapshot(), []
        weights = {name: value.clone() for name, value in self.model.named_parameters()}
        self._first(rows)
        now = dict(self.model.named_buffers())
        moved = [n for n, v in buffers.items() if n in now and not same_bits(v, now[n])]
        self._put_back(buffers)
        now = dict(self.model.named_parameters())
        if odd := [n for n, v in weights.items() if n in now and not same_bits(v, now[n])]:
            lines.append(f"a call changes the weights {some(odd)}: they are measured as a call leaves them")
        if moved:
            self.changes = True
            lines.append(f"a call changes {some(moved)}: put back after each")
        if self.dropped:
            lines.append(f"the network's forward does not take {some(self.dropped)}: left out")
        return lines

    @torch.no_grad()
    def tried(self, rows):
        """The lines of :meth:`prepared` and others. Raises DoesNotApply where the network is random."""
        lines = self.prepared(rows)
        first = self(rows)
        if not first.isfinite().all():
            raise DoesNotApply(f"the network's outputs are infinite or no numbers{self._where()}")
        if not all(alike(first, self(rows)) for _ in range(AGAIN)):
            raise DoesNotApply(RANDOM)
        try:
            apart = len(rows) == 1 or alike(first[:1], self(rows[:1]))
        except (RuntimeError, ValueError):  # as with a batch normalisation without running statistics
            apart = False
            lines.append("the network does not take one example alone")
        if not apart:
            lines.append("outputs depend on the other examples of a batch: numbers hold for batches as here")
        return lines

    def _first(self, rows):
        """The outputs; without the targets from here on, where the network does not take them."""
        try:
            return self(rows)
        except (RuntimeError, ValueError):
            if self.key is None:
                raise
            key, self.key = self.key, None
            try:
                return self(rows)
            except (RuntimeError, ValueError):
                self.key = key
            raise

    def _where(self):
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        odd = [name for name, v in state.items() if v.is_floating_point() and not v.isfinite().all()]
        return f", as are entries of {some(odd)}" if odd else ""

    def fit(self, outputs, memory):
        """Take no more examples at once than such outputs of theirs leave room for in so many bytes."""
        self.batch = max(1, min(self.batch, int(memory / (64 * outputs[0].numel()))))

    def names(self):
        """{module: its name in the reader's network}."""
        return {module: name or "(network)" for name, module in self.model.named_modules()}


class Signal(nn.Module):
    """rows → (n, k): some of the outputs, at the drawn positions where there are positions."""

    def __init__(self, network, task, outputs=None):
        super().__init__()
        self.network, self.task, self.outputs = network, task, outputs

    def forward(self, rows):
        found = self.task.signal(self.network(rows), rows)
        return found if self.outputs is None else found[:, self.outputs.to(found.device)]


class Direct(nn.Module):
    """A tensor of inputs → (n, k): for what differentiates by the inputs."""

    def __init__(self, network, outputs):
        super().__init__()
        self.network, self.outputs = network, outputs

    def forward(self, inputs):
        found = outputs_of(self.network.returned(inputs))
        return found[:, self.outputs.to(found.device)]


def unwrapped(model):
    """The network inside of wrappers for several devices or compilation; TorchScript is refused."""
    while inner := _inner(model):
        model = inner
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("TorchScript hides its layers: give the nn.Module that it was made of")
    return model


def _inner(model):
    for kind in type(model).__mro__:
        inner = getattr(model, WRAPPERS.get(kind.__name__, ""), None)
        if isinstance(inner, nn.Module):
            return inner
    return None


def copied(model, device):
    """A copy of the network in float32 on ``device``. Raises ValueError or AlignbookError, one line."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"the network must be an nn.Module, not {type(model).__name__}")
    model = unwrapped(model)
    try:
        return copy_of(model).float().to(device)
    except Exception as error:  # a reader's own class may refuse in any way
        raise AlignbookError(
            f"the network cannot be copied: {type(error).__name__}: {on_one_line(error)}; a Recorder "
            "measures it in place: alignbook.Recorder((inputs, targets), share=None).step(network, 0)"
        ) from None


@torch.no_grad()
def initialised(network, seed):
    """(a copy of the network with random weights, names of those that no module initialises).

    Each module's own initialisation where it has one; the weights that are named keep their entries, in
    random order. Raises DoesNotApply where there is nothing to initialise.
    """
    device = next((p.device for p in network.parameters()), None)
    fresh = copy_of(network).cpu()  # where its draws are the same on every device
    start = {name: weight.clone() for name, weight in fresh.named_parameters()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(
            int(torch.randint(2**31, (), generator=torch_stream(seed, "probe", "initialisation")))
        )
        for module in fresh.modules():
            own = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
            if callable(own):
                own()
            if hasattr(fresh, "_init_weights"):  # of a family of networks, which may scale otherwise
                fresh._init_weights(module)
        left = {n: w for n, w in fresh.named_parameters() if torch.equal(w, start[n]) and _varies(w)}
        for weight in left.values():
            weight.copy_(weight.flatten()[torch.randperm(weight.numel())].view_as(weight))
    return fresh.to(device), list(left)


def _varies(weight):
    """Whether it has entries that differ; a scale of ones may be both initialised and as it was."""
    return weight.is_floating_point() and weight.numel() > 1 and bool((weight != weight.flatten()[0]).any())


def _takes(model, key):
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return False
    return key in parameters


def alike(one, other):
    """Whether two outputs differ by no more than rounding."""
    if one.shape != other.shape:
        return False
    return bool((one - other).norm() <= torch.finfo(one.dtype).eps ** 0.5 * one.norm())


def some(names):
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
