"""All instruments on one network, and on what it was before."""

import copy
import functools
import io
import math
from dataclasses import dataclass, field

import pandas as pd
import torch
from torch import nn

from alignbook.errors import AlignbookError, on_one_line
from alignbook.metrics import weight_deviation
from alignbook.metrics.evaluation import evaluation_mode

from . import budget, costs, instruments
from .instruments import DoesNotApply, measurable

# name -> (function, how many examples it takes at most)
MEASURES = {
    "filters": (instruments.filters, instruments.PATCH_IMAGES),
    "features": (instruments.features, 1000),
    "tangent": (instruments.tangent, 100),
    "curvature": (instruments.curvature, 128),
    "slice": (instruments.slice_, 256),
}
INSTRUMENTS = (*MEASURES, "deviation")
# What mostly takes little time first: each has its share of what the others have left.
ORDER = ("filters", "slice", "features", "tangent", "curvature")
FACTS = 1000  # examples that loss and accuracy are of at most, in a tenth of the time


@dataclass(frozen=True)
class Probe:
    """What the instruments found.

    network : facts about the network and the data: ``parameters``, ``layers``, ``examples``, ``shape``,
        ``loss`` and for classes ``accuracy``, each of ``network`` and, where there is one, of ``before``.
    tables : {instrument: DataFrame}; the column ``network`` says whose row it is, ``network`` or ``before``.
        Columns: see :mod:`alignbook.probing.instruments`, and ``layer``, ``deviation`` of ``deviation``.
    left_out : {instrument: why it does not apply, one line}.
    examples : {instrument: how many of the examples it was measured on}.
    notes : {instrument, or ``loss`` of the facts: how many examples it saw and why, one line}.
    """

    network: dict
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def as_dict(self):
        """All of it as numbers, texts and lists, for JSON; nan and infinity become None."""
        tables = {
            name: [{key: _plain(value) for key, value in row.items()} for row in table.to_dict("records")]
            for name, table in self.tables.items()
        }
        facts = {who: {k: _plain(v) for k, v in facts.items()} for who, facts in self.network.items()}
        said = {"left_out": self.left_out, "examples": self.examples, "notes": self.notes}
        return {"network": facts, "tables": tables, **said}


def _plain(value):
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def probe(model, inputs, targets, *, before=None, without=(), seed=0, minutes=10.0, report=None):
    """Measure ``model`` with the instruments of the four papers; returns :class:`Probe`.

    model : nn.Module, ScriptModule included, that maps ``inputs`` (n, …) to outputs (n, k). Measured in
    evaluation mode on a copy in float32; the model itself is never changed.
    inputs : floating-point tensor; targets : (n,) int64 classes, or (n,) or (n, k) floats. The first of them
    count: 1,000 for features and filters, 100 for tangent kernels, 128 for curvature, 256 for the slice;
    where time or memory forbid, fewer of these, evenly from first to last.
    before : the same network at another time (its initialisation, say), measured beside it.
    without : names of ``INSTRUMENTS`` to leave out.
    minutes : above 0, for everything; infinity: no limit. Each instrument is tried on a few examples, and
    then sees as many as fit into its share of what is left: an equal one with those to come, the slowest
    last. It has 8 at least, for which it may take all that is left; the Hessian has fewer products before
    that. One that needs more is left out. How many were seen, and why, is in ``notes``; where time decides,
    a faster machine may see more.
    report : ``report(text)`` before each measurement, with the seconds that it may take.

    One that does not apply is in ``left_out`` with the reason. Memory beside the model's own: 4 GB at most
    for what is kept of the examples (features, tangent kernels, the graph of the loss's gradient), and 4 GB
    for vectors of the parameters (curvature; fewer vectors, then fewer eigenvalues); 4 copies of the
    parameters.
    Raises ValueError for arguments that do not fit together, AlignbookError where the network cannot be
    copied or fails on the inputs.
    """
    unknown = set(without) - set(INSTRUMENTS)
    if unknown:
        raise ValueError(f"no instrument {', '.join(sorted(unknown))}; known: {', '.join(INSTRUMENTS)}")
    total = budget.seconds(minutes)
    end = budget.clock() + total
    inputs, targets = _checked(inputs, targets)
    networks = {"network": model} if before is None else {"before": before, "network": model}
    copies = {who: _copied(network) for who, network in networks.items()}
    left_out = dict.fromkeys(without, "left out as asked")
    if before is None:
        left_out.setdefault("deviation", "there is no network before")
    found = {}
    with measurable(), torch.inference_mode(False):
        facts, n = _facts(copies, inputs, targets, total / 10)
        notes = {"loss": _note(n, len(inputs), FACTS, minutes)}
        todo = [name for name in ORDER if name not in left_out]
        for position, name in enumerate(todo):
            left = end - budget.clock()
            share = left / (len(todo) - position)
            try:
                found[name] = _measured(name, copies, inputs, targets, seed, share, left, minutes, report)
            except (DoesNotApply, ValueError, RuntimeError) as error:
                left_out[name] = on_one_line(error)
    found = {name: found[name] for name in MEASURES if name in found}
    tables = {name: table for name, (table, _, _) in found.items()}
    taken = {name: n for name, (_, n, _) in found.items()}
    notes |= {name: note for name, (_, _, note) in found.items()}
    if "deviation" not in left_out:
        try:
            layers = weight_deviation(copies["before"], copies["network"], n=len(inputs)).layers
            tables["deviation"] = pd.DataFrame({"layer": layers.keys(), "deviation": layers.values()})
        except ValueError as error:
            left_out["deviation"] = on_one_line(error)
    return Probe(facts, tables, left_out, taken, notes)


def _measured(name, copies, inputs, targets, seed, share, left, minutes, report):
    """(table, n, note) of one instrument on all networks, which see the same examples."""
    measure, most = MEASURES[name]
    given, inputs, targets = len(inputs), inputs[:most], targets[:most]
    share, left = share / len(copies), left / len(copies)
    settings = {}

    def say(who, what):
        if report is not None:
            report(f"{name} of the network{' before' if who == 'before' else ''}: {what}")

    def measured(network, n):
        return measure(network, budget.spread(inputs, n), budget.spread(targets, n), seed, **settings)

    (first, network), *others = copies.items()
    say(first, "a trial on a few examples")
    extra = ""
    with evaluation_mode(network):
        if name == "curvature":
            plan = costs.curvature(network, inputs, targets, seed, share, left)
            n, fit, expected, extra = plan.n, plan.fit, plan.seconds, plan.note
            settings.update(k=plan.k, basis=plan.basis, products=plan.products)
            say(first, _about(n, expected))
            tables = {first: measured(network, n)}
        else:
            fit = costs.room(name, network, inputs, targets, len(inputs))
            table, n, expected = budget.within(
                functools.partial(measured, network), fit, share, left, lambda *now: say(first, _about(*now))
            )
            tables = {first: table}
    for who, network in others:
        say(who, _about(n, expected))
        with evaluation_mode(network):
            tables[who] = measured(network, n)
    rows = pd.concat([table.assign(network=who) for who, table in tables.items()], ignore_index=True)
    return rows, n, _note(n, given, most, minutes, fit) + extra


def _about(n, expected):
    return f"{n:,} examples, about {budget.duration(expected)}"


def _note(n, given, most, minutes, fit=math.inf):
    """How many examples were seen, and why no more."""
    if n == min(given, most):
        return f"{n:,} examples, " + ("the most it takes" if n == most else "all there are")
    why = f"more do not fit into {budget.gigabytes(budget.MEMORY)}"
    if n < fit:
        why = f"more would take too much of the {minutes:g} minutes"
    return f"{n:,} of {min(given, most):,} examples: {why}"


def _checked(inputs, targets):
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point() or inputs.ndim < 2:
        raise ValueError("inputs must be a floating-point tensor (n, …)")
    targets = torch.as_tensor(targets)
    if len(inputs) < 10 or len(targets) != len(inputs):
        raise ValueError(f"{len(inputs)} inputs and {len(targets)} targets: at least 10, as many of each")
    if not inputs.isfinite().all():
        raise ValueError("inputs have entries that are not finite")
    if not targets.is_floating_point():
        if targets.ndim != 1 or targets.dtype == torch.bool or targets.min() < 0:
            raise ValueError("classes must be (n,) integers from 0 on")
        targets = targets.long()
    else:
        targets = targets.float()
    return inputs.detach().clone().float(), targets.detach().to(inputs.device)


def _copied(model):
    if not isinstance(model, nn.Module):
        raise ValueError(f"the network must be an nn.Module, not {type(model).__name__}")
    try:
        network = _again(model).float()
    except (RuntimeError, TypeError) as error:
        raise AlignbookError(f"the network cannot be copied: {on_one_line(error)}") from None
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    return network


def _again(model):
    if not isinstance(model, torch.jit.ScriptModule):
        return copy.deepcopy(model)
    kept = io.BytesIO()  # its deep copy has parameters that are no leaves
    torch.jit.save(model, kept)
    kept.seek(0)
    return torch.jit.load(kept)


def _facts(copies, inputs, targets, share):
    """({who: facts}, how many examples loss and accuracy are of)."""
    count, x, y = len(inputs), inputs[:FACTS], targets[:FACTS]

    def known(network, n):
        return {**_known(network, budget.spread(x, n), budget.spread(y, n)), "examples": count}

    (first, network), *others = copies.items()
    facts, n, _ = budget.within(functools.partial(known, network), len(x), share / len(copies), math.inf)
    return {first: facts, **{who: known(network, n) for who, network in others}}, n


def _known(network, inputs, targets):
    try:
        with evaluation_mode(network):
            outputs = instruments._forward(network, inputs)
            loss = float(instruments.loss_of(targets)(outputs, targets))
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise AlignbookError(f"the network fails on these inputs and targets: {on_one_line(error)}") from None
    if outputs.ndim != 2:
        raise AlignbookError(f"the network's outputs must be (n, k), not {tuple(outputs.shape)}")
    facts = {
        "class": getattr(network, "original_name", type(network).__name__),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "examples": len(inputs),
        "shape": " × ".join(map(str, inputs.shape[1:])),
        "outputs": outputs.shape[1],
        "loss": loss,
    }
    if not targets.is_floating_point():
        facts["accuracy"] = float((outputs.argmax(1) == targets).float().mean())
    return facts
