"""All instruments on one network, and on what it was before."""

import copy
import io
import math
from dataclasses import dataclass, field

import pandas as pd
import torch
from torch import nn

from alignbook.errors import AlignbookError, on_one_line
from alignbook.metrics import weight_deviation
from alignbook.metrics.evaluation import evaluation_mode

from . import instruments
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


@dataclass(frozen=True)
class Probe:
    """What the instruments found.

    network : facts about the network and the data: ``parameters``, ``layers``, ``examples``, ``shape``,
        ``loss`` and for classes ``accuracy``, each of ``network`` and, where there is one, of ``before``.
    tables : {instrument: DataFrame}; the column ``network`` says whose row it is, ``network`` or ``before``.
        Columns: see :mod:`alignbook.probing.instruments`, and ``layer``, ``deviation`` of ``deviation``.
    left_out : {instrument: why it does not apply, one line}.
    examples : {instrument: how many of the examples it was measured on}.
    """

    network: dict
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)

    def as_dict(self):
        """All of it as numbers, texts and lists, for JSON; nan and infinity become None."""
        tables = {
            name: [{key: _plain(value) for key, value in row.items()} for row in table.to_dict("records")]
            for name, table in self.tables.items()
        }
        facts = {who: {k: _plain(v) for k, v in facts.items()} for who, facts in self.network.items()}
        return {"network": facts, "tables": tables, "left_out": self.left_out, "examples": self.examples}


def _plain(value):
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def probe(model, inputs, targets, *, before=None, without=(), seed=0, report=None):
    """Measure ``model`` with the instruments of the four papers; returns :class:`Probe`.

    model : nn.Module, ScriptModule included, that maps ``inputs`` (n, …) to outputs (n, k). Measured in
    evaluation mode on a copy in float32; the model itself is never changed.
    inputs : floating-point tensor; targets : (n,) int64 classes, or (n,) or (n, k) floats. The first of them
    count: 1,000 for features and filters, 100 for tangent kernels, 128 for curvature, 256 for the slice.
    before : the same network at another time (its initialisation, say), measured beside it.
    without : names of ``INSTRUMENTS`` to leave out. report : ``report(text)`` before each measurement.

    One that does not apply is in ``left_out`` with the reason. Memory beside the model's own: 32 KiB for each
    layer and example (features), 16 KiB for each layer and gradient (tangent kernels of unusual layers),
    15 + 4 copies of the parameters (curvature).
    Raises ValueError for arguments that do not fit together, AlignbookError where the network cannot be
    copied or fails on the inputs.
    """
    unknown = set(without) - set(INSTRUMENTS)
    if unknown:
        raise ValueError(f"no instrument {', '.join(sorted(unknown))}; known: {', '.join(INSTRUMENTS)}")
    inputs, targets = _checked(inputs, targets)
    networks = {"network": model} if before is None else {"before": before, "network": model}
    copies = {who: _copied(network) for who, network in networks.items()}
    facts, tables, taken = {}, {}, {}
    left_out = dict.fromkeys(without, "left out as asked")
    if before is None:
        left_out.setdefault("deviation", "there is no network before")
    with measurable(), torch.inference_mode(False):
        for who, network in copies.items():
            facts[who] = _facts(network, inputs, targets)
        for name, (measure, most) in MEASURES.items():
            if name in left_out:
                continue
            found = []
            for who, network in copies.items():
                if report is not None:
                    report(f"{name} of the network" + (" before" if who == "before" else ""))
                try:
                    with evaluation_mode(network):
                        table = measure(network, inputs[:most], targets[:most], seed)
                except (DoesNotApply, ValueError, RuntimeError) as error:
                    left_out[name] = on_one_line(error)
                    break
                found.append(table.assign(network=who))
            else:
                tables[name] = pd.concat(found, ignore_index=True)
                taken[name] = min(most, len(inputs))
    if "deviation" not in left_out:
        try:
            layers = weight_deviation(copies["before"], copies["network"], n=len(inputs)).layers
            tables["deviation"] = pd.DataFrame({"layer": layers.keys(), "deviation": layers.values()})
        except ValueError as error:
            left_out["deviation"] = on_one_line(error)
    return Probe(facts, tables, left_out, taken)


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


def _facts(network, inputs, targets):
    try:
        with evaluation_mode(network):
            outputs = instruments._forward(network, inputs[: MEASURES["features"][1]])
            loss = float(instruments.loss_of(targets)(outputs, targets[: len(outputs)]))
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
        facts["accuracy"] = float((outputs.argmax(1) == targets[: len(outputs)]).float().mean())
    return facts
