"""The network as the instruments see it: a function of examples' numbers that never changes anything."""

from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import nn

from alignbook.errors import on_one_line
from alignbook.seeding import torch_stream

from . import budget, masks
from .copies import copied, device_of, placed, require_own
from .data import IGNORED, names_of, taken
from .errors import DoesNotApply, OutOfTime
from .parameters import some
from .task import loss_in, outputs_of

BATCH = 100  # examples at once
HELD = 4e9  # bytes of outputs, and of what leads to them, at once
LABELS = "labels"  # what Hugging Face's networks call targets
AGAIN = 8  # calls that have to give the same
RANDOM = "the network answers differently to the same examples: its forward is random, or counts its calls"


class Called(nn.Module):
    """A network and how it is called; whatever a reader's code raises is a RuntimeError, one line."""

    def __init__(self, model, own):
        super().__init__()
        self.model, self.own = model, own

    def forward(self, given, named):
        try:
            return self.own(self.model, *given) if self.own else self.model(*given, **named)
        except (RuntimeError, ValueError, DoesNotApply):
            raise
        except (Exception, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__}: {on_one_line(error)}") from error


class Network(nn.Module):
    """A network's copy, called with numbers of examples ``rows`` (n,) int64 in place of the examples.

    The examples lie where the network does, in its precision. Each call hands it copies of them and of its
    buffers, and returns the tensor of outputs. From ``until`` on calls raise :class:`OutOfTime`.
    """

    def __init__(self, model, data, forward=None):
        super().__init__()
        self.called, self.data = Called(model, forward), data.each(lambda values: placed(values, model))
        self.until, self.dropped, self.batch = float("inf"), [], BATCH
        # A network of Hugging Face's that is given the targets says what its own loss is.
        names = names_of(model.forward)[0] if forward is None else []
        self.key = next((k for k in (data.key, LABELS) if k in names), None)

    @property
    def model(self):
        """The network itself."""
        return self.called.model

    @property
    def mask(self):
        """(n, T) bool of all examples, where their sequences hold something, or None."""
        return masks.mask_of(self.data.inputs, self.model.forward)

    @property
    def few(self):
        """(2,) two examples to try it on, or as many as there are: those with the most classes."""
        targets = self.data.targets
        known = torch.ones(len(targets)) if targets.is_floating_point() else (targets != IGNORED)
        counts = known.reshape(len(targets), -1).sum(1)
        return counts.argsort(descending=True, stable=True)[:2].to(targets.device)

    def forward(self, rows):
        outputs = outputs_of(returned := self.answer(rows))
        if self.key is not None:
            outputs.stated = loss_in(returned)
        return outputs

    def answer(self, rows, targets=None):
        """What the network itself returns for these examples; it may be given other targets of theirs."""
        if targets is None:
            targets = self.data.targets[rows.to(self.data.targets.device)]
        return self.returned(self.data.rows(rows), {} if self.key is None else {self.key: targets})

    def returned(self, batch, named=None):
        """What it returns for inputs of its own kind, and others by name."""
        if budget.clock() > self.until:
            raise OutOfTime("the time is over (--minutes)")
        given, named = (batch,), named or {}
        if self.called.own is None and isinstance(batch, tuple):
            given = batch
        elif self.called.own is None and isinstance(batch, Mapping):
            known, self.dropped = taken(self.model.forward, batch)
            given, named = (), {**known, **named}
        buffers = {name: value.clone() for name, value in self.called.named_buffers()}
        return torch.func.functional_call(self.called, buffers, (given, named))

    @torch.no_grad()
    def prepared(self, rows):
        """The outputs of a few examples, which set how many it takes at once, and lines to be said.

        The targets are kept from it from here on, where it does not take them.
        """
        try:
            outputs = self(rows)
        except (RuntimeError, ValueError):
            if self.key is None:
                raise
            self.key = None
            outputs = self(rows)
        with torch.enable_grad(), suppress(RuntimeError):  # of one that fails there, the instruments tell
            require_own(self.model, self(rows))
        self.batch = max(1, min(self.batch, int(HELD / (64 * outputs[0].numel()))))
        dropped = f"the network's forward does not take {some(self.dropped)}: left out"
        return outputs, [dropped] if self.dropped else []

    @torch.no_grad()
    def tried(self, rows):
        """What :meth:`prepared` returns. Raises DoesNotApply where the network is random."""
        first, lines = self.prepared(rows)
        if not first.isfinite().all():
            state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
            odd = [n for n, v in state.items() if v.is_floating_point() and not v.isfinite().all()]
            where = f", as are entries of {some(odd)}" if odd else ""
            raise DoesNotApply(f"the network's outputs are infinite or no numbers{where}")
        if not all(_alike(first, self(rows)) for _ in range(AGAIN)):
            raise DoesNotApply(RANDOM)
        try:
            apart = len(rows) == 1 or _alike(first[:1], self(rows[:1]))
        except (RuntimeError, ValueError):  # as with a batch normalisation without running statistics
            apart = False
            lines.append("the network does not take one example alone")
        if not apart:
            lines.append("outputs depend on the other examples of a batch: numbers hold for batches as here")
        return first, lines

    def names(self):
        """{module: its name in the reader's network}."""
        return {module: name or "(network)" for name, module in self.model.named_modules()}


class Direct(nn.Module):
    """A tensor of inputs → (n, k): for what differentiates by the inputs."""

    def __init__(self, network, outputs):
        super().__init__()
        self.network, self.outputs = network, outputs

    def forward(self, inputs):
        outputs = outputs_of(self.network.returned(inputs))
        return outputs[:, self.outputs.to(outputs.device)]


@torch.no_grad()
def initialised(network, seed):
    """(a copy of the network with random weights, names of those that no module initialises).

    Each module's own initialisation where it has one; the weights that are named keep their entries, in
    random order.
    """
    fresh = copied(network).cpu()  # where its draws are the same on every device
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
    return fresh.to(device_of(network)), list(left)


def _varies(weight):
    """Whether it has entries that differ; a scale of ones may be both initialised and as it was."""
    return weight.is_floating_point() and weight.numel() > 1 and bool((weight != weight.flatten()[0]).any())


def _alike(one, other):
    """Whether two outputs differ by no more than rounding."""
    if one.shape != other.shape:
        return False
    return bool((one - other).norm() <= torch.finfo(one.dtype).eps ** 0.5 * one.norm())
