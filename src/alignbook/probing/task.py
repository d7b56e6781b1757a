"""What a network is asked: a class, a class for each position, or numbers; and whose loss it is."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch.nn import functional

from alignbook.seeding import torch_stream

from . import masks
from .budget import positions
from .data import IGNORED, leaves

MEAN = 1e-3  # relative difference that a mean over single examples may show
TENSORS = ("logits", "out", "last_hidden_state")  # of an object or dict that a network returns
TRIED = 8  # examples that show whether a loss is their mean


def function(value, name, of):
    """``value``, None or a function. Raises ValueError for anything else."""
    if value is not None and (not callable(value) or isinstance(value, type)):
        what = value.__name__ if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{name} must be a function of {of}, not {what}")
    return value


def outputs_of(returned):
    """The tensor of what a network returned: itself, ``.logits``, ``["out"]``, or the first of a tuple."""
    for name in TENSORS:
        outputs = returned.get(name) if isinstance(returned, dict) else getattr(returned, name, None)
        if isinstance(outputs, torch.Tensor):
            return outputs
    if isinstance(returned, dict):
        tensors = [v for v in returned.values() if isinstance(v, torch.Tensor)]
        if len(tensors) == 1:
            return tensors[0]
    if isinstance(returned, tuple | list) and returned:  # a loss may come before the outputs
        return outputs_of(next((part for part in returned if not _number(part)), returned[0]))
    if isinstance(returned, torch.Tensor):
        return returned
    kind = type(returned).__name__
    raise ValueError(
        f"the network returns a {kind} without a tensor of outputs: say what to take, by forward="
    )


def loss_in(returned):
    """The loss that a network returned beside its outputs, a tensor; None: it returned none."""
    if isinstance(returned, tuple | list):
        loss = next((part for part in returned if _number(part)), None)
    else:
        loss = returned.get("loss") if isinstance(returned, dict) else getattr(returned, "loss", None)
    return loss.reshape(()) if isinstance(loss, torch.Tensor) and loss.numel() == 1 else None


def _number(part):
    return isinstance(part, torch.Tensor) and part.ndim == 0


def misfit(outputs, targets):
    """A line on outputs and targets of these shapes, each after the examples' axis."""
    shapes = (", ".join(map(str, ("n", *shape))) + "," * (not shape) for shape in (outputs, targets))
    return "outputs ({}) do not fit targets ({})".format(*shapes) + (
        ": classes are integers from 0 on, one for each example or position, and numbers floats in the shape "
        "of the outputs; for one logit, or several labels, give floats and loss="
    )


@dataclass(frozen=True)
class Task:
    """What is asked of each example, at one position or many: a class, or numbers.

    targets : (n,) classes, (n, …) classes of positions, or numbers, of which nan stands for none.
    own : another loss, of the reader's, True for the network's, or None. last : of positions, whether an
    output's classes are its last dimension (else its second). seed : of the position that is drawn of each
    example, among those that are known. stated : whether ``own`` is the network's. whole : whether ``own`` is
    no mean over examples, so that it is taken of all at once. called : what a reader calls the loss.
    """

    targets: torch.Tensor
    own: object = None
    last: bool = True
    seed: int = 0
    stated: bool = False
    whole: bool = False
    called: str = ""

    @classmethod
    def of(cls, targets, outputs, own, seed):
        """The task of these targets for outputs of this shape. Raises ValueError where they do not fit."""
        task, shape, where = cls(targets, own, True, seed), tuple(outputs.shape), tuple(targets.shape[1:])
        called = "cross-entropy" if task.classes else "mean squared error"
        task = replace(task, called=called if own is None else "the loss that was given")
        if not (task.where and task.classes):
            classes = outputs.ndim == 2 and shape[1] > 1
            if own is None and not (classes if task.classes else outputs[0].numel() == targets[0].numel()):
                raise ValueError(misfit(shape[1:], where))
            return task
        fits = [shape[1:-1] == where, shape[2:] == where]
        if all(fits) and len(where) > 1:  # images: classes come second, as PyTorch's own losses want it
            fits[0] = False
        if not any(fits):
            raise ValueError(misfit(shape[1:], where))
        return replace(task, last=fits[0])

    @property
    def classes(self):
        return not self.targets.is_floating_point()

    @cached_property
    def partly(self):
        """Whether these are numbers some of which are not known, as in padded sequences."""
        return not self.classes and bool(self.targets.isnan().any())

    @property
    def where(self):
        """The shape of each example's positions: () of one class, or of numbers that are all known."""
        axes = self.targets.shape[1:]
        return tuple(axes if self.classes else axes[:1] if self.partly else ())

    def _by_position(self, targets):
        """(n, positions) classes, or (n, positions, k) numbers."""
        return targets.reshape(len(targets), math.prod(self.where), *[] if self.classes else [-1])

    def _outputs(self, outputs):
        """(n, positions, k) of the outputs."""
        if self.classes and self.where and not self.last:
            outputs = outputs.movedim(1, -1)
        return outputs.reshape(len(outputs), math.prod(self.where), -1)

    def loss(self, outputs, targets):
        """The mean loss of these examples; of positions, over all that are known."""
        if self.stated:
            return outputs.stated
        if self.partly:
            known = ~targets.isnan()
            outputs, targets = outputs.reshape(targets.shape)[known], targets[known]
        if self.own is not None:
            return self.own(outputs, targets)
        if not self.classes:
            return functional.mse_loss(outputs.reshape(targets.shape), targets)
        flat, classes = self._outputs(outputs).flatten(0, 1), targets.flatten()
        if int(classes.max()) >= flat.shape[1]:
            raise ValueError(f"there are {flat.shape[1]} outputs, and classes up to {int(classes.max())}")
        return functional.cross_entropy(flat, classes, ignore_index=IGNORED)

    @property
    def answers(self):
        """Whether the largest output is the class that is answered."""
        return self.classes and (self.own is None or self.stated)

    def correct(self, outputs, targets):
        """(how many classes come out right, of how many)."""
        targets = self._by_position(targets)
        known = targets != IGNORED
        return int((self._outputs(outputs).argmax(2) == targets)[known].sum()), int(known.sum())

    def weight(self, targets):
        """What the mean loss of these examples counts among others'."""
        if self.partly:
            return int((~targets.isnan()).sum())
        if not self.classes or (self.own is not None and not self.stated):
            return len(targets)
        return int((targets != IGNORED).sum())

    def _known(self):
        """(n, positions) which of them are known."""
        targets = self._by_position(self.targets)
        return targets != IGNORED if self.classes else ~targets.isnan().any(2)

    def labelled(self, rows):
        """Those of the examples ``rows`` that have a target."""
        known = self._known().any(1)
        return rows[known[rows.to(known.device)].to(rows.device)]

    def at(self, rows):
        """(n,) the flat position drawn of each example, always the same."""
        known = self._known()
        draw = torch.rand(known.shape, generator=torch_stream(self.seed, "probe", "positions"))
        return draw.to(known.device).masked_fill(~known, -1).argmax(1)[rows.to(known.device)]

    def _drawn(self, values, rows):
        """(n, …) of (n, positions, …): at the drawn positions."""
        return values[torch.arange(len(values), device=values.device), self.at(rows).to(values.device)]

    def wanted(self, rows):
        """(n,) classes, at the drawn positions; or numbers (n, k)."""
        return self._drawn(self._by_position(self.targets[rows.to(self.targets.device)]), rows)

    def signal(self, outputs, rows):
        """(n, k) of the outputs, at the drawn positions."""
        return self._drawn(self._outputs(outputs), rows)

    def there(self, values, rows):
        """(n, features) of what a layer reads (n, …): at the drawn positions, where it has such; else all."""
        where = self.where
        if where and values.shape[1:-1] == where:  # (n, positions…, features)
            return self._drawn(values.flatten(1, -2), rows)
        if where and values.ndim == len(where) + 2:  # (n, features, positions…), perhaps coarser
            place = torch.unravel_index(self.at(rows).to(values.device), where)
            sizes = zip(values.shape[2:], where, strict=True)
            place = [at * size // whole for at, (size, whole) in zip(place, sizes, strict=True)]
            return values[(torch.arange(len(values), device=values.device), slice(None), *place)]
        return values.reshape(len(values), -1)

    def spread(self, rows):
        """The variance of the numbers about the mean of each column."""
        numbers = self.targets[rows.to(self.targets.device)].double()
        numbers = numbers[~numbers.isnan()][:, None] if self.partly else numbers.reshape(len(numbers), -1)
        return float((numbers - numbers.mean(0)).square().mean())


@torch.no_grad()
def settled(network, loss, seed):
    """(:class:`Task`, lines to be said) of a :class:`.network.Network`, whose targets may be masked.

    Raises ValueError where it cannot be told, and for targets that do not fit the outputs.
    """
    lines = _without_padding(network)
    rows, targets = network.few, network.data.targets
    outputs = outputs_of(returned := network.answer(rows))
    if loss is None:
        _require_axis_of_classes(network, targets, outputs)
    task = Task.of(targets, outputs, loss, seed)
    if loss is None and network.key and loss_in(returned) is not None:
        task, line = _with_own_loss(task, network)
        lines += line
    if task.own is not None and not _is_mean(network, task):
        task = replace(task, whole=True)
        lines.append("the loss is no mean over examples: it is taken of all that an instrument sees at once")
    return task, lines


def _without_padding(network):
    """Take padding out of the network's targets, if it has one for each position; lines to be said."""
    mask, data = network.mask, network.data
    targets = data.targets
    if mask is None or targets.shape[1:2] != mask.shape[1:]:
        return []
    numbers = targets.is_floating_point()
    if targets.ndim > (3 if numbers else 2) or not _by_position(network, mask.shape[1]):
        return []
    nothing = ~mask.to(targets.device).view(*mask.shape, *[1] * (targets.ndim - 2)).expand_as(targets)
    hidden = targets.masked_fill(nothing, math.nan if numbers else IGNORED)
    known, before = (~v.isnan() if numbers else v != IGNORED for v in (hidden, targets))
    if not known.any() or known.equal(before):
        return []
    network.data = replace(data, targets=hidden)
    return ["targets at positions that the mask hides do not count"]


def _by_position(network, length):
    """Whether the network answers for each position of its inputs."""
    if getattr(getattr(network.model, "config", None), "is_encoder_decoder", False):
        return False  # its targets are those of other positions
    batch, shorter = network.data.rows(network.few), None
    now = outputs_of(network.returned(batch))
    try:
        shorter = outputs_of(network.returned(masks.cut(batch, length)))
    except (RuntimeError, ValueError):  # it takes one length alone
        pass
    return 1 in masks.places(now, shorter, length)


def _require_axis_of_classes(network, targets, outputs):
    """Raise ValueError for outputs (n, T, T) for classes (n, T), unless the T positions come in."""
    shape, where = tuple(outputs.shape[1:]), tuple(targets.shape[1:])
    if targets.is_floating_point() or len(where) != 1 or shape != 2 * where:
        return
    tokens = (v for v in leaves(network.data.inputs) if not v.is_floating_point())
    if network.key is None and not any(tuple(v.shape[1:2]) == where for v in tokens):
        raise ValueError(
            f"whether classes come second or last in outputs {tuple(outputs.shape)} cannot be told: "
            "give examples of another length"
        )


def _tried(task):
    """Examples that tell losses apart: of as many classes as there are, and spread over all."""
    rows = task.labelled(torch.arange(len(task.targets), device=task.targets.device))
    some = positions(len(rows), TRIED)
    if task.classes and not task.where:  # the first of each class
        firsts = np.unique(task.targets[rows].cpu(), return_index=True)[1]
        some = list(dict.fromkeys([*firsts[positions(len(firsts), TRIED)].tolist(), *some]))[:TRIED]
    return rows[sorted(some)]


def _is_mean(network, task):
    """Whether the task's own loss is a mean over its examples, as far as a few of them tell.

    By the gradients of their outputs, too, since all examples may have the same loss.
    """
    rows = _tried(task)
    targets = task.targets[rows]
    try:
        outputs = network(rows)
        if task.stated:
            parts = [
                (task.loss(network(part), None), task.weight(task.targets[part])) for part in rows.split(3)
            ]
            mean = sum(float(loss) * weight for loss, weight in parts) / sum(weight for _, weight in parts)
            return math.isclose(float(task.loss(outputs, None)), mean, rel_tol=1e-4)
        with torch.enable_grad():
            outputs = outputs.detach().requires_grad_(True)
            pairs = zip(outputs.split(1), targets.split(1), strict=True)
            whole, single = task.loss(outputs, targets), sum(task.loss(*pair) for pair in pairs) / len(rows)
            near = math.isclose(float(whole.detach()), float(single.detach()), rel_tol=MEAN, abs_tol=1e-9)
            if not whole.requires_grad:
                return near
            both = [torch.autograd.grad(loss, outputs, materialize_grads=True)[0] for loss in (whole, single)]
        return near and bool((both[0] - both[1]).norm() <= MEAN * both[0].norm())
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False  # a loss that wants several examples


def _with_own_loss(task, network):
    """(task, lines) where the network returns a loss of its own.

    Where it is that of the outputs shifted by one, as causal language models have it, so are the targets;
    where it is neither that nor the task's, the network's own loss is the task's.
    """
    rows, targets = _tried(task), task.targets
    outputs = outputs_of(returned := network.answer(rows))
    stated = float(loss_in(returned))
    mean = float(task.loss(outputs, targets[rows]))
    plain = _near(mean, stated)
    if task.classes and targets.ndim == 2:
        following = torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], IGNORED)], 1)
        if _near(task.loss(outputs, following[rows]), stated) and not (
            plain and _asks_for_the_first(network, targets[rows], rows)
        ):
            line = "each position is asked for the next token, as the network's own loss has it"
            return replace(task, targets=following, called="cross-entropy of the next token"), [line]
    if plain:
        return task, []
    line = (
        f"the loss is the network's own: {stated:.4g} for {len(rows)} examples, where the {task.called} "
        f"of its outputs is {mean:.4g} (loss= for another)"
    )
    return replace(task, own=True, stated=True, called="the network's own"), [line]


def _asks_for_the_first(network, targets, rows):
    """Whether the network has a loss where the first position alone has a class.

    An untrained network answers much the same everywhere, so that both losses fit: the first token is
    nobody's next one.
    """
    first = torch.full_like(targets, IGNORED)
    first[:, 0] = targets[:, 0].clamp_min(0)
    stated = loss_in(network.answer(rows, first))
    return stated is None or (math.isfinite(stated) and float(stated) > 0)


def _near(mine, stated):
    return math.isclose(float(mine), stated, rel_tol=1e-3, abs_tol=1e-6)
