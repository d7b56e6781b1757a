"""One probe under way: what was measured, what failed, and how much time is left."""

import math
from functools import partial

import pandas as pd
import torch

from . import budget
from .curvature import curvature
from .data import leaves
from .errors import DoesNotApply, why
from .features import features
from .instruments import PATCH_IMAGES, deviation, filters, mean_loss, slice_
from .parameters import described
from .result import Probe
from .tangents import tangent
from .task import Task, settled

# name -> (function, how many examples it takes at most), what mostly takes little time first: each has its
# share of what the others have left.
MEASURES = {
    "filters": (filters, PATCH_IMAGES),
    "slice": (slice_, 256),
    "features": (features, 1000),
    "tangent": (tangent, 100),
    "curvature": (curvature, 128),
}
FACTS = 1000  # examples that loss and accuracy are of at most, in a tenth of the time


class Session:
    """Measures instrument by instrument: ``begin``, ``measure`` for each, ``deviation``, ``result``.

    A failure of one instrument on one network goes to ``left_out``, and the others go on.

    Parameters
    ----------
    networks : dict of Network
        ``network`` first, on whose time the number of examples is planned.
    total : int, optional
        How many examples there are, of which the networks hold some.
    end : float
        When the time is over, on :data:`.budget.clock`.
    """

    def __init__(self, networks, total, *, minutes, examples, layers, parameters, seed, end, report):
        self.networks, self.data, self.total = networks, networks["network"].data, total
        self.minutes, self.examples, self.end = minutes, examples, end
        self.layers, self.parameters, self.seed, self.report = layers, parameters, seed, report
        self.left_out, self.said, self.facts, self.tables, self.taken, self.notes = {}, [], {}, {}, {}, {}
        self.broken, self.failed, self.task = {}, None, None
        self.rows = torch.arange(len(self.data), device=self.data.targets.device)

    @torch.no_grad()
    def begin(self, loss):
        """Try every network on two examples, and take the facts."""
        for who, network in self.networks.items():
            network.until = self.end + 30 * self.minutes  # a call that begins later is refused
            self.facts[who] = {
                "class": type(network.model).__name__,
                "parameters": sum(parameter.numel() for parameter in network.model.parameters()),
                "examples": len(self.data),
                "shape": self.data.shape,
            }
            try:
                self._try(who, network, loss)
            except Exception as error:  # a reader's own code
                self._breaks(who, error)
        if self.task is not None:
            self._losses()

    def _breaks(self, who, error):
        self.broken[who] = why(error)
        if who == "network" and not isinstance(error, DoesNotApply):
            self.failed = why(error)

    def _try(self, who, network, loss):
        outputs, lines = network.tried(network.few)
        if who == "network":
            self.task, more = settled(network, loss, self.seed)
            lines += more
            for other in self.networks.values():
                other.data = network.data
        elif self.task is not None:  # which is the same for all, where it fits
            Task.of(self.task.targets, outputs, loss, self.seed)
        self.said += [line if who == "network" else f"{who}: {line}" for line in lines]
        self.facts[who]["outputs"] = " × ".join(map(str, outputs.shape[1:]))

    def _losses(self):
        """Loss and accuracy of each network, on as many examples as fit into a tenth of the time."""

        def facts(network, rows):
            return mean_loss(network, self.task, rows)

        try:
            for who, (value, right), rows in self._on_each("loss", facts, FACTS, 6 * self.minutes):
                self.facts[who] |= {"criterion": self.task.called, "loss": value}
                if right is not None:
                    self.facts[who]["accuracy"] = right
                elif not self.task.classes and self.task.own is None:
                    spread = self.task.spread(rows)
                    self.facts[who]["R²"] = 1 - value / spread if spread else math.nan
        except Exception as error:
            self.left_out["loss of network"] = why(error)
            self._breaks("network", error)

    def _whole(self):
        return {who: network for who, network in self.networks.items() if who not in self.broken}

    def _on_each(self, name, measure, most, seconds):
        """(who, what ``measure(network, rows)`` returns, rows) for each network, on the same examples.

        Raises what it raises on the network itself; where it fails on another one is in ``left_out``.
        """
        rows = None
        for who, network in self._whole().items():
            if name in MEASURES and self.report is not None:
                self.report(f"{name} of {'the network' if who == 'network' else who}")
            try:
                if rows is None:
                    value, rows = self._planned(name, partial(measure, network), most, seconds)
                else:
                    value = measure(network, rows)
            except Exception as error:  # a reader's own code, or a number that is none
                if who == "network":
                    raise
                self.left_out[f"{name} of {who}"] = why(error)
            else:
                yield who, value, rows

    def measure(self, name, instruments_left):
        """One instrument on all networks, which see the same examples."""
        if "network" in self.broken:
            self.left_out[name] = self.broken["network"]
            return
        (instrument, most), tables = MEASURES[name], []
        share = (self.end - budget.clock()) / instruments_left / len(self._whole())

        def measured(network, rows):
            return instrument(network, self.task, rows, self.seed, layers=self.layers)

        try:
            for who, table, rows in self._on_each(name, measured, most, share):
                self.taken[name] = len(rows)
                whose = "" if who == "network" else f" ({who})"
                self.said += [f"{name}{whose}: {line}" for line in table.attrs.pop("said", [])]
                for layer, reason in table.attrs.pop("left_out", {}).items():
                    if self.left_out.get(f"{name} of {layer}") != reason:
                        self.left_out[f"{name} of {layer}{whose}"] = reason
                tables.append(table.assign(network=who))
        except Exception as error:
            self.left_out[name] = why(error)
            return
        self.left_out |= {f"{name} of {who}": reason for who, reason in self.broken.items()}
        self._keep(name, tables)

    def _keep(self, name, tables):
        whose = {} if name in ("filters", "features") else {"parameters": described(self.parameters)}
        self.tables[name] = pd.concat(tables, ignore_index=True).assign(**whose)

    def _planned(self, name, measure, most, seconds):
        """(what ``measure(rows)`` returns, rows): of the network itself, on as many as the time allows."""
        rows = budget.spread(self.rows, min(most, len(self.rows), self.examples or most))

        def of_some(n):
            return measure(budget.spread(rows, n))

        if self.examples is None:
            value, n = budget.within(of_some, len(rows), seconds)
        else:
            value, n = of_some(len(rows)), len(rows)
        self.notes[name] = self._note(n, most)
        return value, budget.spread(rows, n)

    def _note(self, n, most):
        """How many examples were seen, and why no more."""
        if n == self.total:
            return f"{n:,} examples, all there are"
        why = f"more would take too much of the {self.minutes:g} minutes"
        if n == self.examples:
            why = "as asked"
        elif n == min(most, len(self.rows)):
            why = "the most it takes"
        of = f"{n:,} of {self.total:,}" if self.total else f"{n:,} of the first {len(self.rows):,}"
        return f"{of} examples: {why}"

    def deviation(self, start):
        """How far each layer has moved since the state dict ``start``, or None."""
        if start is None:
            self.left_out.setdefault("deviation", "there is no network before")
        if "deviation" in self.left_out:
            return
        try:
            rows = deviation(start, self.networks["network"].model, self.layers)
        except Exception as error:
            self.left_out["deviation"] = why(error)
        else:
            self.said += [f"since before: {line}" for line in rows.attrs.pop("said")]
            self._keep("deviation", [rows.assign(network="network")])

    def said_of_inputs(self):
        """A line on the range of each input that is floats."""
        for values in leaves(self.data.inputs):
            if values.is_floating_point():
                low, high = float(values.min()), float(values.max())
                middle, spread = float(values.mean()), float(values.std())
                yield f"inputs from {low:.3g} to {high:.3g}, mean {middle:.2g}, deviation {spread:.2g}"

    def result(self, instruments, made):
        """The :class:`Probe`, its tables in the order of ``instruments``."""
        tables = {name: self.tables[name] for name in instruments if name in self.tables}
        said = tuple(dict.fromkeys(self.said))
        return Probe(self.facts, tables, self.left_out, self.taken, self.notes, said, self.data.digest, made)
