"""What a recorder can measure: each instrument returns {(layer, parameter): number}.

"" stands for the whole network, and where no parameter is meant. Layers are called as the probe calls them.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import nn

from alignbook.metrics import misalignment
from alignbook.probing import budget, curvature as curvatures, tangents
from alignbook.probing.errors import DoesNotApply
from alignbook.probing.features import spectra
from alignbook.probing.instruments import deviation as moved, first_layer, mean_loss
from alignbook.probing.network import Network
from alignbook.probing.tangents import named_weights

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
COORDINATES = 1024  # of a layer's features at most, drawn at random, the same ones at every step
TANGENT = 64  # examples: time and memory grow with their square
CURVED = 128
TOLERANCE = 0.1  # of the curvature's residual over the eigenvalue; its own error is about the square
BASIS = 20  # vectors at most
WHOLE = ("", "")


@dataclass(frozen=True)
class Subject:
    """What an instrument looks at.

    network : with its examples, on its device, in evaluation mode; rows : (n,) their numbers.
    settle : callable Network → Task, which raises what the network raises.
    start : state dict of the weights at the first step, None where it is not known; seed : int.
    left : {layer: why it has no number}, and said : lines for a reader, which instruments fill in.
    """

    network: Network
    rows: torch.Tensor
    settle: object
    start: dict | None
    seed: int
    left: dict = field(default_factory=dict)
    said: list = field(default_factory=list)

    @cached_property
    def task(self):
        """What the network is asked."""
        return self.settle(self.network)


def loss(subject):
    """The mean loss."""
    return {WHOLE: mean_loss(subject.network, subject.task, subject.rows)[0]}


def alignment(subject):
    """Share of the labels on the top singular vectors of what a layer reads (Imani et al. 2022, Equation 2).

    Ỹ are the labels (classes one-hot), less each column's mean; the share is of ‖Ỹ‖² on as many left singular
    vectors as Ỹ has columns, of features with a constant, rows of length one. Outputs of a regression are
    taken in no unit, as :func:`alignbook.probing.features.features` takes them. Random features have about
    k / n.
    """
    count, spectra_of, left = spectra(
        subject.network, subject.task, subject.rows, subject.seed, coordinates=COORDINATES
    )
    subject.left.update(left)
    return {
        (name, ""): float(share[min(count, len(share)) - 1]) for name, ((share, *_), *_) in spectra_of.items()
    }


def tangent(subject):
    """Alignment of each layer's tangent kernel with the labels (Lou et al. 2022, Equation 7)."""
    network = subject.network
    with torch.no_grad():
        if not network(network.few).isfinite().all():
            raise DoesNotApply("the network's outputs are not finite")
    table = tangents.tangent(network, subject.task, subject.rows, subject.seed, most=TANGENT, chance=False)
    subject.said.extend(table.attrs["said"])
    values = {}
    for layer, parameter, value in table[["layer", "parameter", "alignment"]].itertuples(index=False):
        if math.isfinite(value):
            values[layer, parameter] = value
        else:
            whose = layer if parameter == "weight" else f"{layer} {parameter}"
            subject.left[whose] = "its kernel is constant"
    if not values:
        raise DoesNotApply("every layer's kernel is constant")
    return values


def curvature(subject):
    """The eigenvalue of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a)."""
    rows = subject.task.labelled(subject.rows)
    rows = budget.spread(rows, min(CURVED, len(rows)))
    options = {"k": 1, "tolerance": TOLERANCE, "basis": BASIS, "vectors": 0}
    table = curvatures.curvature(subject.network, subject.task, rows, subject.seed, **options)
    subject.said.extend(table.attrs["said"])
    return {WHOLE: float(table["eigenvalue"][0])}


def filters(subject):
    """Misalignment of the first layer's weights with its inputs (Maennel et al. 2020, Section 2.2).

    Applies where the first layer has more filters than a filter has weights.
    """
    name, data, flat = first_layer(subject.network, subject.rows, LAYERS, "linear or convolutional layer")
    if len(flat) <= flat.shape[1]:
        raise DoesNotApply(
            f"{name} has {len(flat)} filters of {flat.shape[1]} weights: it needs more filters"
        )
    return {(name, "weight"): misalignment(data, np.cov(flat, rowvar=False, bias=True))}


def deviation(subject):
    """‖W - W₀‖ of each weight since the first step, and their sum (ICLR 2020 submission, Section 3)."""
    if subject.start is None:
        raise DoesNotApply("the weights at the start are not known: hand them in as start=")
    table = moved(subject.start, subject.network.model)
    values = table.set_index(["layer", "parameter"])["deviation"].to_dict()
    for layer, parameter in named_weights(subject.network.model).keys() - values.keys():
        subject.left[f"{layer} {parameter}"] = "the start has no such weight, or one is not finite"
    return values | {WHOLE: math.fsum(values.values())}


INSTRUMENTS = {
    "loss": loss,
    "alignment": alignment,
    "tangent": tangent,
    "curvature": curvature,
    "misalignment": filters,
    "deviation": deviation,
}
