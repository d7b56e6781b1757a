"""What a recorder can measure: each instrument returns a table of ``layer``, ``parameter`` and ``value``.

Both are "" where the whole network, or no parameter, is meant. Layers are called as the probe calls them, and
``attrs`` are as those of its tables: ``left_out`` and ``said``.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics import misalignment
from alignbook.probing import budget, curvature as curvatures, tangents
from alignbook.probing.errors import DoesNotApply
from alignbook.probing.features import features
from alignbook.probing.instruments import deviation as moved, first_layer, mean_loss
from alignbook.probing.network import Network
from alignbook.probing.tangents import named_weights

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
COORDINATES = 1024  # of a layer's features at most, drawn at random, the same ones at every step
TANGENT = 64  # examples: time and memory grow with their square
CURVED = 128
TOLERANCE = 0.1  # of the curvature's residual over the eigenvalue; its own error is about the square
BASIS = 20  # vectors at most


@dataclass(frozen=True)
class Subject:
    """What an instrument looks at.

    network : with its examples, on its device, in evaluation mode; rows : (n,) their numbers.
    settle : callable Network → Task, which raises what the network raises.
    start : state dict of the weights at the first step, None where it is not known; seed : int.
    """

    network: Network
    rows: torch.Tensor
    settle: object
    start: dict | None
    seed: int

    @cached_property
    def task(self):
        """What the network is asked."""
        return self.settle(self.network)


def table_of(values):
    """The table of numbers by layer, as floats."""
    plain = [float(v.detach() if isinstance(v, torch.Tensor) else v) for v in values.values()]
    return pd.DataFrame({"layer": [str(layer) for layer in values], "parameter": "", "value": plain})


def loss(subject):
    """The mean loss."""
    return table_of({"": mean_loss(subject.network, subject.task, subject.rows)[0]})


def alignment(subject):
    """Share of the labels on the top singular vectors of what a layer reads (Imani et al. 2022, Equation 2).

    On as many as the labels have columns, of :func:`alignbook.probing.features.features`. Random features
    have about k / n.
    """
    options = {"ranks": None, "coordinates": COORDINATES}
    table = features(subject.network, subject.task, subject.rows, subject.seed, **options)
    return table.assign(parameter="", value=table["share"])


def tangent(subject):
    """Alignment of each layer's tangent kernel with the labels (Lou et al. 2022, Equation 7)."""
    network = subject.network
    with torch.no_grad():
        if not network(network.few).isfinite().all():
            raise DoesNotApply("the network's outputs are not finite")
    table = tangents.tangent(network, subject.task, subject.rows, subject.seed, most=TANGENT, chance=False)
    known = table["alignment"].notna()
    if not known.any():
        raise DoesNotApply("every layer's kernel is constant")
    names = (table["layer"] + " " + table["parameter"])[~known].str.removesuffix(" weight")
    table.attrs["left_out"] = dict.fromkeys(names, "its kernel is constant")
    return table[known].assign(value=table["alignment"])


def curvature(subject):
    """The eigenvalue of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a)."""
    rows = subject.task.labelled(subject.rows)
    rows = budget.spread(rows, min(CURVED, len(rows)))
    options = {"k": 1, "tolerance": TOLERANCE, "basis": BASIS, "vectors": 0}
    table = curvatures.curvature(subject.network, subject.task, rows, subject.seed, **options)
    return table.assign(layer="", parameter="", value=table["eigenvalue"])


def filters(subject):
    """Misalignment of the first layer's weights with its inputs (Maennel et al. 2020, Section 2.2).

    Applies where the first layer has more filters than a filter has weights.
    """
    name, data, flat = first_layer(subject.network, subject.rows, LAYERS, "linear or convolutional layer")
    if len(flat) <= flat.shape[1]:
        raise DoesNotApply(
            f"{name} has {len(flat)} filters of {flat.shape[1]} weights: it needs more filters"
        )
    value = misalignment(data, np.cov(flat, rowvar=False, bias=True))
    return table_of({name: value}).assign(parameter="weight")


def deviation(subject):
    """‖W - W₀‖ of each weight since the first step, and their sum (ICLR 2020 submission, Section 3)."""
    if subject.start is None:
        raise DoesNotApply("the weights at the start are not known: hand them in as start=")
    table = moved(subject.start, subject.network.model)
    known = set(zip(table["layer"], table["parameter"], strict=True))
    missing = [" ".join(whose) for whose in named_weights(subject.network.model) if whose not in known]
    table = pd.concat([table, table_of({"": math.fsum(table["deviation"])})], ignore_index=True)
    table.attrs["left_out"] = dict.fromkeys(missing, "the start has no such weight, or one is not finite")
    return table.assign(value=table["deviation"].fillna(table["value"]))


INSTRUMENTS = {
    "loss": loss,
    "alignment": alignment,
    "tangent": tangent,
    "curvature": curvature,
    "misalignment": filters,
    "deviation": deviation,
}
