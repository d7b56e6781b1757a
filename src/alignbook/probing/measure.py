"""One probe under way: what was measured, what failed, and how much time is left."""

import contextlib
import math

import pandas as pd
import torch

from alignbook.errors import on_one_line
from alignbook.metrics import weight_deviation
from alignbook.metrics.evaluation import evaluation_mode

from . import budget, memory, order, settling, weights
from .curvature import curvature, planned
from .errors import DoesNotApply
from .features import features, selected
from .instruments import PATCH_IMAGES, filters, mean_loss, slice_, tangent
from .parameters import described
from .result import Probe
from .tangents import NONE, named_weights
from .task import Task

# name -> (function, how many examples it takes at most), what mostly takes little time first: each has its
# share of what the others have left.
MEASURES = {
    "filters": (filters, PATCH_IMAGES),
    "slice": (slice_, 256),
    "features": (features, 1000),
    "tangent": (tangent, 100),
    "curvature": (curvature, 128),
}
KNOWN = {  # what PyTorch says, and what a reader of a report makes of it
    "Expected more than 1 value per channel": "a normalisation over the batch takes no example alone",
    "does not require grad": "the outputs do not depend on the parameters in a way that has gradients",
}
FACTS = 1000  # examples that loss and accuracy are of at most, in a tenth of the time


class Session:
    """Measures instrument by instrument: ``begin``, ``measure`` for each, ``deviations``, ``result``.

    A failure of one instrument on one network goes to ``left_out``, and the others go on.

    Parameters
    ----------
    networks : dict of Network
        ``network`` first, on whose time the number of examples is planned.
    data : Data
    total : int, optional
        How many examples there are, of which ``data`` holds some.
    end : float
        When the time is over, on :data:`.budget.clock`.
    """

    def __init__(self, networks, data, total, *, limits, layers, parameters, seed, end, report):
        self.networks, self.data, self.total = networks, data, total
        self.limits, self.layers, self.parameters, self.seed = limits, layers, parameters, seed
        self.end, self.report = end, report
        self.left_out, self.said, self.facts, self.tables, self.taken, self.notes = {}, [], {}, {}, {}, {}
        self.broken, self.failed, self.task, self.order = {}, None, None, {}
        self.rows = torch.arange(len(data), device=data.targets.device)
        for network in networks.values():  # a call that begins later than this is refused
            network.until = end + limits.seconds / 2

    def begin(self, loss):
        """Try every network on two examples, and take the facts."""
        for who, network in self.networks.items():
            self.facts[who] = {
                "class": type(network.model).__name__,
                "parameters": sum(parameter.numel() for parameter in network.model.parameters()),
                "examples": len(self.data),
                "shape": self.data.shape,
            }
            try:
                with evaluation_mode(network), torch.no_grad():
                    self._try(who, network, loss)
            except Exception as error:  # a reader's own code
                self._breaks(who, error)
        if self.task is not None:
            self._losses()

    def _breaks(self, who, error):
        self.broken[who] = _why(error)
        if who == "network":
            self.failed = None if isinstance(error, DoesNotApply) else _why(error)

    def _try(self, who, network, loss):
        few = network.few
        lines = network.tried(few)
        if who == "network":
            self.task, more = settling.settled(network, loss, self.seed)
            lines += more
            for other in self.networks.values():
                other.data = network.data
        elif self.task is not None:  # which is the same for all, where it fits
            Task.of(self.task.targets, network(few), loss, self.seed)
        self.said += [
            line if who == "network" else f"{who}: {line}" for line in lines if line not in self.said
        ]
        outputs = network(few)
        with contextlib.suppress(Exception):  # else weights stand as the network lists them
            self.order[who] = order.of_use(network, few)
        network.fit(outputs, self.limits.memory)
        self.facts[who]["outputs"] = " × ".join(map(str, outputs.shape[1:]))

    def _losses(self):
        """Loss and accuracy of each network, on as many examples as fit into a tenth of the time."""
        rows, n = self.rows[:FACTS], None
        for who, network in self._whole().items():

            def known(count, network=network):
                with evaluation_mode(network):
                    return mean_loss(network, self.task, budget.spread(rows, count))

            try:
                if n is None:
                    (value, right), n = budget.within(known, len(rows), self.limits.seconds / 10)
                else:
                    value, right = known(n)
                self.notes["loss"] = self._note(n, min(len(self.rows), FACTS), FACTS)
            except Exception as error:
                self.left_out[f"loss of {who}"] = _why(error)
                if who == "network":
                    self._breaks(who, error)
                continue
            self.facts[who] |= {"criterion": self.task.called, "loss": value}
            if right is not None:
                self.facts[who]["accuracy"] = right
            elif not self.task.classes and self.task.own is None:
                spread = self.task.spread(budget.spread(rows, n))
                self.facts[who]["R²"] = 1 - value / spread if spread else math.nan

    def _whole(self):
        return {who: network for who, network in self.networks.items() if who not in self.broken}

    def measure(self, name, instruments_left):
        """One instrument on all networks, which see the same examples."""
        if "network" in self.broken:
            self.left_out[name] = self.broken["network"]
            return
        instrument, most = MEASURES[name]
        networks, tables = self._whole(), {}
        share = (self.end - budget.clock()) / instruments_left / len(networks)
        for who, network in networks.items():
            self._report(name, who)
            try:
                with evaluation_mode(network):
                    if who == "network":
                        rows, settings, tables[who] = self._first(name, instrument, network, most, share)
                    else:
                        tables[who] = instrument(network, self.task, rows, self.seed, **settings)
            except Exception as error:  # a reader's own code, or a number that is none
                if who == "network":
                    self.left_out[name] = _why(error)
                    return
                self.left_out[f"{name} of {who}"] = _why(error)
        self.left_out |= {f"{name} of {who}": why for who, why in self.broken.items()}
        if name == "tangent":
            tables = {who: self._in_order(table, who) for who, table in tables.items()}
        for who, table in tables.items():
            whose = "" if who == "network" else f" ({who})"
            self.said += [f"{name}{whose}: {line}" for line in table.attrs.pop("said", [])]
            for layer, why in table.attrs.pop("left_out", {}).items():
                if self.left_out.get(f"{name} of {layer}") != why:
                    self.left_out[f"{name} of {layer}{whose}"] = why
        self._keep(name, [table.assign(network=who) for who, table in tables.items()])

    def _keep(self, name, tables):
        table = pd.concat(tables, ignore_index=True)
        whose = {} if name in ("filters", "features") else {"parameters": described(self.parameters)}
        self.tables[name] = table.assign(**whose)

    def _in_order(self, table, who):
        """Rows of parameters in the order in which the network uses them; ``depth`` numbers them anew."""
        uses = self.order.get(who) or self.order.get("network", {})
        places = [uses.get(whose, math.inf) for whose in zip(table["layer"], table["parameter"], strict=True)]
        table = table.iloc[sorted(range(len(table)), key=places.__getitem__)].reset_index(drop=True)
        return table.assign(depth=range(len(table))) if "depth" in table else table

    def _first(self, name, instrument, network, most, share):
        """(rows, settings, table) of the network itself, on which the number of examples is planned."""
        available = min(most, len(self.rows))
        rows = budget.spread(self.rows, min(available, self.limits.examples or available))
        extra = ""
        if name == "curvature":
            plan = planned(network, self.task, rows, self.seed, share, self.limits)
            n, fit, extra = plan.n, plan.fit, plan.note()
            settings = {"plan": plan, "until": network.until}
            rows = budget.spread(self.task.labelled(rows), n)
            table = instrument(network, self.task, rows, self.seed, **settings)
        else:
            settings = {"layers": self.layers}
            fit = memory.room(name, network, self.task, rows, self.layers, self.limits)

            def measured(n):
                return instrument(network, self.task, budget.spread(rows, n), self.seed, **settings)

            if self.limits.examples is None:
                table, n = budget.within(measured, fit, share)
            else:
                table, n = measured(len(rows)), len(rows)
            rows = budget.spread(rows, n)
        self.taken[name], self.notes[name] = n, self._note(n, available, most, fit) + extra
        return rows, settings, table

    def _report(self, name, who):
        if self.report is not None:
            whose = f"the network {who}" if who == "before" else "the network" if who == "network" else who
            self.report(f"{name} of {whose}")

    def _note(self, n, available, most, fit=math.inf):
        """How many examples were seen, and why no more."""
        if n == min(available, most):
            if n < min(most, len(self.rows)):
                return f"{n:,} examples, all that have a class"
            if n == self.total:
                return f"{n:,} examples, " + ("the most it takes" if n == most else "all there are")
            read = len(self.rows)
            first = f"the first {n:,}" if n == read else f"{n:,} of the first {read:,}"
            some = f"{n:,} of {self.total:,}" if self.total else first
            return f"{some} examples, " + ("as asked" if n == self.limits.examples else "the most it takes")
        if n == self.limits.examples:
            return f"{n:,} of {available:,} examples, as asked"
        why = f"more would take too much of the {self.limits.minutes:g} minutes"
        if n >= fit:
            why = f"more do not fit into {budget.gigabytes(self.limits.memory)}"
        return f"{n:,} of {available:,} examples: {why}"

    def deviations(self, states):
        """How far each layer has moved since each of the networks before, {name: state dict}."""
        if not states:
            self.left_out.setdefault("deviation", "there is no network before")
        if "deviation" in self.left_out:
            return
        tables = []
        for who, state in states.items():
            try:
                rows, apart = _deviation(state, self.networks["network"].model, self.layers)
                tables.append(self._in_order(rows, "network").assign(network="network", since=who))
                self.said += [f"since {who}: {line}" for line in apart]
            except Exception as error:
                self.left_out["deviation" if len(states) == 1 else f"deviation of {who}"] = _why(error)
        if tables:
            self._keep("deviation", tables)

    def result(self, instruments, made):
        """The :class:`Probe`, its tables in the order of ``instruments``."""
        tables = {name: self.tables[name] for name in instruments if name in self.tables}
        said, layers = tuple(dict.fromkeys(self.said)), tuple(self.layers or ())
        return Probe(
            self.facts, tables, self.left_out, self.taken, self.notes, said, self.data.digest, layers, made
        )


def _deviation(state, model, layers):
    """(a row for each weight that both have, lines on what they do not share)."""
    shared, apart = weights.shared(state, model.state_dict())
    named = named_weights(model)
    if not named:
        raise DoesNotApply(NONE)
    wanted = [
        (whose, ".".join(part for part in whose if part != "(network)"))
        for whose in named
        if selected(whose[0], layers)
    ]
    wanted = [(whose, name) for whose, name in wanted if name in shared]
    if not wanted:
        raise DoesNotApply("the two networks share no weights")
    names = [name for _, name in wanted]
    before = {name: shared[name][0] for name in names}
    moved = weight_deviation(before, {name: shared[name][1] for name in names}).layers
    norms = [float(before[name].double().norm()) for name in names]
    rows = pd.DataFrame([whose for whose, _ in wanted], columns=["layer", "parameter"])
    rows["deviation"] = list(moved.values())
    rows["relative"] = [d / n if n else math.nan for d, n in zip(moved.values(), norms, strict=True)]
    return rows, apart


def _why(error):
    """One line; with the kind of error where the message alone says little."""
    plain = isinstance(error, DoesNotApply | ValueError | RuntimeError)
    for theirs, ours in KNOWN.items():
        if theirs in str(error):
            return ours
    return on_one_line(error if plain and str(error) else f"{type(error).__name__}: {error}").rstrip(".")
