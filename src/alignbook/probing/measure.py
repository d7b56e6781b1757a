"""One probe under way: what was measured, what failed, and how much time is left."""

import contextlib
import math

import pandas as pd
import torch

from alignbook.errors import on_one_line
from alignbook.metrics import weight_deviation
from alignbook.metrics.evaluation import evaluation_mode

from . import budget, costs, order, settling, weights
from .curvature import planned_on
from .errors import DoesNotApply, TooLong
from .features import selected
from .instruments import mean_loss
from .network import RANDOM, alike
from .parameters import described
from .result import Probe
from .tangents import NONE, named_weights
from .task import Task

KNOWN = {  # what PyTorch says, and what a reader of a report makes of it
    "Expected more than 1 value per channel": "a normalisation over the batch takes no example alone",
    "does not require grad": "the outputs do not depend on the parameters in a way that has gradients",
}
CALLS = 20  # at most, with two examples, in a hundredth of the time: whether the answers are the same
FACTS = 1000  # examples that loss and accuracy are of at most, in a tenth of the time


class Session:
    """Measures instrument by instrument: ``begin``, ``measure`` for each, ``deviations``, ``found``.

    networks : {name: Network}, ``network`` first, on whose time the number of examples is planned.
    total : how many examples there are, of which ``data`` holds some; None: not known.
    late : instruments for which too little time was left on the network itself, which may be tried again.
    A failure of one instrument on one network goes to ``left_out``, and the others go on.
    """

    def __init__(
        self, networks, data, limits, layers, parameters, seed, end, left_out, said, report, total=None
    ):
        self.networks, self.data, self.limits = networks, data, limits
        self.layers, self.parameters, self.seed, self.end = layers, parameters, seed, end
        self.left_out, self.said, self.report, self.total = left_out, said, report, total
        self.facts, self.tables, self.taken, self.notes = {}, {}, {}, {}
        self.broken, self.failed, self.task, self.each = {}, None, None, 0.0
        self.order, self.late = {}, set()
        device = data.targets.device
        self.rows = torch.arange(len(data), device=device)
        for network in networks.values():  # a call that begins later than this is refused
            network.until = end + limits.seconds / 2

    def begin(self, loss):
        """Try every network on two examples, and take the facts."""
        for who, network in self.networks.items():
            self.facts[who] = self._described(network)
            try:
                with evaluation_mode(network):
                    self._try(who, network, loss)
            except Exception as error:  # a reader's own code
                self.broken[who] = _why(error)
                if who == "network":
                    self.failed = None if isinstance(error, DoesNotApply) else _why(error)
        if self.task is not None:
            self._losses()

    @torch.no_grad()
    def _try(self, who, network, loss):
        few = network.few
        lines = network.tried(few)
        if who == "network":
            self.task, said = settling.settled(network, loss, self.seed)
            lines += said
            for other in self.networks.values():
                other.data = network.data
        elif self.task is not None:  # which is the same for all, where it fits
            Task.of(self.task.targets, network(few), loss, self.seed)
        self.said += [
            line if who == "network" else f"{who}: {line}" for line in lines if line not in self.said
        ]
        start = budget.clock()
        outputs = network(few)
        each = (budget.clock() - start) / 2
        self._ask_again(network, outputs)
        with contextlib.suppress(Exception):  # else weights stand as the network lists them
            self.order[who] = order.of_use(network, few)
        network.fit(outputs, self.limits.memory)
        self.facts[who]["outputs"] = " × ".join(map(str, outputs.shape[1:]))
        if who == "network":
            self.each = each

    def _ask_again(self, network, outputs):
        """Raise DoesNotApply where a network that answered alike before does not at some later call."""
        end = budget.clock() + self.limits.seconds / 100
        for _ in range(CALLS):
            if not alike(outputs, network(network.few)):
                raise DoesNotApply(RANDOM)
            if budget.clock() > end:
                return

    def _described(self, network):
        model = network.model
        return {
            "class": type(model).__name__,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "examples": len(self.data),
            "shape": self.data.shape,
        }

    def _losses(self):
        """Loss and accuracy of each network, on as many examples as fit into a tenth of the time."""
        rows, whole = self.rows[:FACTS], {}
        most = len(rows)
        for who, network in self._whole().items():

            def known(n, network=network):
                with evaluation_mode(network):
                    return mean_loss(network, self.task, budget.spread(rows, n))

            try:
                share = self.limits.seconds / 10 / len(self.networks)
                if whole:
                    (value, right), n = known(most), most
                else:
                    (value, right), n, _ = budget.within(known, most, share, math.inf)
                    most, whole = n, {who: n}
                self.notes["loss"] = self._note(n, min(len(self.rows), FACTS), FACTS)
            except Exception as error:
                self.left_out[f"loss of {who}"] = _why(error)
                if who == "network":
                    self.broken[who] = _why(error)
                    self.failed = None if isinstance(error, DoesNotApply) else _why(error)
                continue
            self.facts[who] |= {"criterion": self.task.called, "loss": value}
            if right is not None:
                self.facts[who]["accuracy"] = right
            elif not self.task.classes and self.task.own is None:
                spread = self.task.spread(budget.spread(rows, n))
                self.facts[who]["R²"] = 1 - value / spread if spread else math.nan

    def _whole(self):
        return {who: network for who, network in self.networks.items() if who not in self.broken}

    def measure(self, name, instrument, most, instruments_left):
        """One instrument on all networks, which see the same examples."""
        if "network" in self.broken:
            self.left_out[name] = self.broken["network"]
            return
        left = self.end - budget.clock()
        copies = self._whole()
        share, left = left / instruments_left / len(copies), left / len(copies)
        found = {}
        for who, network in copies.items():
            try:
                with evaluation_mode(network):
                    if who == "network":
                        costs.affordable(name, self.each, left)
                        rows, settings, table = self._first(name, instrument, network, most, share, left)
                        found[who] = table
                    else:
                        self._say(name, who, f"{len(rows):,} examples")
                        found[who] = instrument(network, self.task, rows, self.seed, **settings)
            except Exception as error:  # a reader's own code, or a number that is none
                if who == "network":
                    self.left_out[name] = _why(error)
                    if isinstance(error, TooLong):
                        self.late.add(name)
                    return
                self.left_out[f"{name} of {who}"] = _why(error)
        for who in self.broken:
            self.left_out[f"{name} of {who}"] = self.broken[who]
        if name == "tangent":
            found = {who: self._in_order(table, who) for who, table in found.items()}
        for who, table in found.items():
            whose = "" if who == "network" else f" ({who})"
            self.said += [f"{name}{whose}: {line}" for line in table.attrs.pop("said", [])]
            for layer, why in table.attrs.pop("left_out", {}).items():
                if self.left_out.get(f"{name} of {layer}") != why:
                    self.left_out[f"{name} of {layer}{whose}"] = why
        tables = [table.assign(network=who) for who, table in found.items()]
        self._keep(name, tables)

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

    def _first(self, name, instrument, network, most, share, left):
        """(rows, settings, table) of the network itself, on which the number of examples is planned."""
        given = min(most, len(self.rows))
        rows = budget.spread(self.rows, min(given, self.limits.examples or given))
        fixed, extra = self.limits.examples is not None, ""
        self._say(name, "network", "a trial on a few examples")
        if name == "curvature":
            plan = planned_on(network, self.task, rows, self.seed, share, left, self.limits)
            n, fit, extra = plan.n, plan.fit, plan.note(self.limits.memory)
            settings = {"plan": plan, "until": network.until}
            self._say(name, "network", _about(n, plan.seconds))
            rows = budget.spread(self.task.labelled(rows), n)
            table = instrument(network, self.task, rows, self.seed, **settings)
        else:
            settings = {"layers": self.layers}
            fit = costs.room(name, network, self.task, rows, self.layers, self.limits)
            table, n, _ = budget.within(
                lambda n: instrument(network, self.task, budget.spread(rows, n), self.seed, **settings),
                min(fit, len(rows)), share, left,
                lambda *now: self._say(name, "network", _about(*now)), fixed,
            )  # fmt: skip
            rows = budget.spread(rows, n)
        self.taken[name], self.notes[name] = n, self._note(n, given, most, fit) + extra
        return rows, settings, table

    def _say(self, name, who, what):
        if self.report is not None:
            whose = "the network" if who == "network" else f"the network {who}" if who == "before" else who
            self.report(f"{name} of {whose}: {what}")

    def _note(self, n, given, most, fit=math.inf):
        """How many examples were seen, and why no more."""
        if n == min(given, most):
            if n < min(most, len(self.rows)):
                return f"{n:,} examples, all that have a class"
            if n == self.total:
                return f"{n:,} examples, " + ("the most it takes" if n == most else "all there are")
            read = len(self.rows)
            if self.total is not None:
                some = f"{n:,} of {self.total:,} examples"
            elif n == read:
                some = f"the first {n:,} examples"
            else:
                some = f"{n:,} of the first {read:,} examples"
            return f"{some}, " + ("as asked" if n == self.limits.examples else "the most it takes")
        if n == self.limits.examples:
            return f"{n:,} of {min(given, most):,} examples, as asked"
        why = f"more do not fit into {budget.gigabytes(self.limits.memory)}"
        if n < fit:
            why = f"more would take too much of the {self.limits.minutes:g} minutes"
        return f"{n:,} of {min(given, most):,} examples: {why}"

    def deviations(self, states):
        """How far each layer has moved since each of the networks before."""
        earlier = {who: state for who, state in states.items() if who != "network"}
        if not earlier:
            self.left_out.setdefault("deviation", "there is no network before")
        if "deviation" in self.left_out:
            return
        tables = []
        for who, state in earlier.items():
            try:
                rows, apart = _deviation(state, self.networks["network"].model, self.layers)
                tables.append(self._in_order(rows, "network").assign(network="network", since=who))
                self.said += [f"since {who}: {line}" for line in apart]
            except Exception as error:
                key = "deviation" if len(earlier) == 1 else f"deviation of {who}"
                self.left_out[key] = _why(error)
        if tables:
            self._keep("deviation", tables)

    def found(self, instruments, digest, made):
        """The :class:`Probe`, its tables in the order of ``instruments``."""
        tables = {name: self.tables[name] for name in instruments if name in self.tables}
        said = tuple(dict.fromkeys(self.said))
        return Probe(
            self.facts, tables, self.left_out, self.taken, self.notes, said, digest, tuple(self.layers or ()),
            made,
        )  # fmt: skip


def _deviation(state, model, layers):
    """(a row for each weight that both have, lines on what they do not share)."""
    shared, apart = weights.shared(state, model.state_dict())
    if not named_weights(model):
        raise DoesNotApply(NONE)
    wanted = [
        (whose, ".".join(part for part in whose if part != "(network)"))
        for whose in named_weights(model)
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


def _about(n, expected):
    return f"{n:,} examples, about {budget.duration(expected)}"


def _why(error):
    """One line; with the kind of error where the message alone says little."""
    plain = isinstance(error, DoesNotApply | ValueError | RuntimeError)
    for theirs, ours in KNOWN.items():
        if theirs in str(error):
            return ours
    return on_one_line(error if plain and str(error) else f"{type(error).__name__}: {error}").rstrip(".")
