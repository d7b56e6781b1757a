"""What the network is asked: a class, a class for each position, or numbers; and its loss."""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from alignbook.seeding import torch_stream

from .data import IGNORED

TENSORS = ("logits", "out", "last_hidden_state")  # of an object or dict that a network returns


def outputs_of(returned):
    """The tensor of what a network returned: itself, ``.logits``, ``["out"]``, or the first of a tuple."""
    for name in TENSORS:
        found = returned.get(name) if isinstance(returned, dict) else getattr(returned, name, None)
        if isinstance(found, torch.Tensor):
            return found
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
    """The loss that a network returned beside its outputs, a number; None: it returned none."""
    if isinstance(returned, tuple | list):
        found = next((part for part in returned if _number(part)), None)
    else:
        found = returned.get("loss") if isinstance(returned, dict) else getattr(returned, "loss", None)
    return float(found) if isinstance(found, torch.Tensor) and found.numel() == 1 else None


def _number(part):
    return isinstance(part, torch.Tensor) and part.ndim == 0


@dataclass(frozen=True)
class Task:
    """targets : (n,) classes, (n, …) classes of positions, or numbers. own : a loss of the reader's, or None.
    last : of positions, whether an output's classes are its last dimension (else its second).
    seed : of the position that is drawn of each example, among those with a class.
    """

    targets: torch.Tensor
    own: object = None
    last: bool = True
    seed: int = 0

    @classmethod
    def of(cls, targets, outputs, own, seed):
        """The task of these targets for outputs of this shape. Raises ValueError where they do not fit."""
        task, shape, where = cls(targets, own, True, seed), tuple(outputs.shape), tuple(targets.shape[1:])
        if not task.positions:
            if own is None and task.classes and outputs.ndim != 2:
                raise ValueError(f"for one class each the outputs must be (n, k), not {shape}")
            if own is None and not task.classes and outputs[0].numel() != targets[0].numel():
                raise ValueError(f"outputs {shape} do not fit targets {('n', *where)}".replace("'", ""))
            return task
        fits = [shape[1:-1] == where, shape[2:] == where]
        if all(fits) and len(where) > 1:  # images: classes come second, as PyTorch's own losses want it
            fits[0] = False
        if not any(fits):
            raise ValueError(f"outputs {shape} do not fit targets (n, {', '.join(map(str, where))})")
        if all(fits):
            raise ValueError(
                f"whether classes come second or last in outputs {shape} cannot be told: forward="
            )
        return cls(targets, own, fits[0], seed)

    @property
    def classes(self):
        return not self.targets.is_floating_point()

    @property
    def positions(self):
        """Whether each example has many classes, one at each position."""
        return self.classes and self.targets.ndim > 1

    def loss(self, outputs, targets):
        """The mean loss of these examples; of positions, over all that have a class."""
        if self.own is not None:
            return self.own(outputs, targets)
        if not self.classes:
            return functional.mse_loss(outputs.reshape(len(outputs), -1), targets.reshape(len(targets), -1))
        flat, classes = self._flat(outputs), targets.flatten()
        if int(classes.max()) >= flat.shape[1]:
            raise ValueError(f"there are {flat.shape[1]} outputs, and classes up to {int(classes.max())}")
        return functional.cross_entropy(flat, classes, ignore_index=IGNORED)

    def correct(self, outputs, targets):
        """(how many classes come out right, of how many)."""
        known = targets.flatten() != IGNORED
        return int((self._flat(outputs).argmax(1) == targets.flatten())[known].sum()), int(known.sum())

    def _flat(self, outputs):
        if not self.positions:
            return outputs
        last = outputs if self.last else outputs.movedim(1, -1)
        return last.reshape(-1, last.shape[-1])

    def weight(self, targets):
        """What the mean loss of these examples counts among others'."""
        if self.own is not None or not self.classes:
            return len(targets)
        return int((targets != IGNORED).sum())

    def labelled(self, rows):
        """Those of the examples ``rows`` that have a class."""
        if not self.classes:
            return rows
        known = (self.targets != IGNORED).reshape(len(self.targets), -1).any(1)
        return rows[known[rows.to(known.device)].to(rows.device)]

    def at(self, rows):
        """(n,) the flat position drawn of each example, always the same; None: there are no positions."""
        if not self.positions:
            return None
        flat = self.targets.flatten(1)
        draw = torch.rand(flat.shape, generator=torch_stream(self.seed, "probe", "positions")).to(flat.device)
        return draw.masked_fill(flat == IGNORED, -1).argmax(1)[rows.to(flat.device)]

    def wanted(self, rows):
        """(n,) classes, at the drawn positions; or numbers (n, k)."""
        chosen = self.targets[rows.to(self.targets.device)]
        if not self.classes:
            return chosen.reshape(len(chosen), -1)
        return chosen if not self.positions else chosen.flatten(1).gather(1, self.at(rows)[:, None])[:, 0]

    def signal(self, outputs, rows):
        """(n, k) of the outputs: at the drawn positions where there are any."""
        if not self.positions:
            return outputs.reshape(len(outputs), -1)
        last = outputs if self.last else outputs.movedim(1, -1)
        flat = last.reshape(len(last), -1, last.shape[-1])
        return flat[torch.arange(len(flat), device=flat.device), self.at(rows).to(flat.device)]

    def there(self, values, rows):
        """(n, features) of what a layer reads (n, …): at the drawn positions, where it has such; else all."""
        where = self.targets.shape[1:]
        if not self.positions or values.ndim < 3:
            return values.reshape(len(values), -1)
        every = torch.arange(len(values), device=values.device)
        at = self.at(rows).to(values.device)
        if values.shape[1:-1] == where:  # (n, positions…, features)
            return values.reshape(len(values), -1, values.shape[-1])[every, at]
        if values.ndim == len(where) + 2:  # (n, features, positions…), perhaps coarser
            place = torch.unravel_index(at, tuple(where))
            sizes = values.shape[2:]
            place = [p * size // whole for p, size, whole in zip(place, sizes, where, strict=True)]
            return values[(every, slice(None), *place)]
        return values.flatten(1)


def shifted(targets):
    """What a causal language model is asked at each position: the next token."""
    return torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], IGNORED)], 1)


def understood(targets, outputs, stated, rows, states):
    """(targets, a line to be said or None), where the network returned a loss of its own for a few examples.

    stated : that loss. Where it is that of the outputs shifted by one, as causal language models have it, so
    are the targets; where it is neither, the line says so.
    states : callable, targets of these examples → the network's own loss, or None. Asked where both fit, as
    with an untrained network, which answers much the same everywhere: the first token is nobody's next one.
    """
    task = Task.of(targets, outputs, None, 0)
    if not task.classes:
        return targets, None
    mean = float(task.loss(outputs, targets[rows]))
    plain = _near(mean, stated)
    if task.positions and targets.ndim == 2:
        following = shifted(targets)
        if _near(task.loss(outputs, following[rows]), stated) and not (
            plain and _first(targets[rows], states)
        ):
            return following, "each position is asked for the next token, as the network's own loss has it"
    if plain:
        return targets, None
    return targets, (
        f"the network's own loss of two examples is {stated:.4g}, the cross-entropy of its outputs "
        f"{mean:.4g}: give loss= if its own is meant"
    )


def _first(targets, states):
    """Whether the network has a loss where the first position alone has a class."""
    first = torch.full_like(targets, IGNORED)
    first[:, 0] = targets[:, 0].clamp_min(0)
    stated = states(first)
    return stated is None or (math.isfinite(stated) and stated > 0)


def _near(mine, stated):
    return math.isclose(float(mine), stated, rel_tol=1e-3, abs_tol=1e-6)
