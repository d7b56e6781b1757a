"""Where the alignment peaks, over the inputs' mean cosine, beside the exact equilibrium layer."""

import math
from functools import partial

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, once, sample
from companion.statements import Case, Number, Statement, among, crossed, over, pooled

from ..shared.equilibrium_layer import layer_of
from ..shared.names import called

KEYS = ["dataset", "depth", "cosine", "seed", "epoch"]
HALF = 0.5  # of the largest alignment: layers above it make up the peak's plateau
ENDS = {"lowest": 0, "highest": -1}  # of the mean cosines


@once
def networks(table):
    """One row per network and epoch, ``KEYS`` and

    peak : the layer of largest alignment; centre : the mean of the layers that align at least half as much,
    weighted by alignment; theory : the exact equilibrium layer; measured : that of the network's own losses;
    train_loss, test_accuracy.
    """
    columns = ["peak", "centre", "theory", "measured", "train_loss", "test_accuracy"]
    if "cosine" not in table:
        return pd.DataFrame(columns=[*KEYS, *columns])
    rows = []
    for key, net in table.sort_values("layer").groupby(KEYS):
        alignment, layers = net["alignment"].fillna(0.0).to_numpy(), net["layer"].to_numpy(float)
        high = alignment >= HALF * alignment.max()
        rows.append(
            (
                *key,
                layers[alignment.argmax()],
                float(np.average(layers[high], weights=alignment[high])),
                layer_of(net["forward"], net["backward"]),
                layer_of(net["forward_now"], net["backward_now"]),
                *net[["train_loss", "test_accuracy"]].iloc[0],
            )
        )
    return pd.DataFrame(rows, columns=[*KEYS, *columns])


def last_epoch(table, parameters, dataset, depth):
    return at(networks(table), dataset=dataset, depth=depth, epoch=max(parameters["epochs"]))


def follows(table, parameters, dataset, depth, peak="peak", theory="theory"):
    """Slope of ln peak over ln equilibrium layer, over the cosines; a sample, 1 by the hypothesis."""
    rows = last_epoch(table, parameters, dataset, depth)
    y, x = (np.log(curves(rows, "cosine", column)).dropna() for column in (peak, theory))
    x, y = (frame.loc[x.index.intersection(y.index)] for frame in (x, y))
    x, y = (frame.sub(frame.mean(axis=1), axis=0) for frame in (x, y))
    square = np.square(x).sum(axis=1)
    return ((x * y).sum(axis=1) / square)[square > 0]


def off(table, parameters, end):
    """ln of the peak over the equilibrium layer at the ``lowest`` or ``highest`` cosine, a sample."""
    cosine = sorted(parameters["cosines"])[ENDS[end]]

    def of(table, parameters, dataset, depth):
        rows = at(last_epoch(table, parameters, dataset, depth), cosine=cosine)
        return np.log(sample(rows, "peak")) - np.log(sample(rows, "theory"))

    return pooled(of, conditions)(table, parameters)


def typical(table, parameters, dataset, depth, cosine, column="peak"):
    """Geometric mean of ``column`` over the seeds."""
    values = sample(at(last_epoch(table, parameters, dataset, depth), cosine=cosine), column)
    return float(np.exp(np.log(values).mean())) if len(values) else None


conditions = crossed(over("datasets", called, "dataset"), over("depths", "{} layers".format, "depth"))


def each_cosine(parameters):
    return [
        Case(f"{case.id}-{cosine:g}", "", {"cosine": cosine, **case.given})
        for case in conditions(parameters)
        for cosine in parameters["cosines"]
    ]


EXPONENT = {"near": 1.0, "within": 0.25, "unit": "of the slope"}
STATEMENTS = [
    Statement(
        "follows",
        "As the inputs' correlation grows, the layer that aligns best moves as the equilibrium does.",
        source="Section 3.3, Equilibrium Hypothesis", of=follows, each=conditions, headline=True,
        **EXPONENT,
    ),
    Statement(
        "centre", "The centre of the layers that align well moves as the equilibrium does (mean over "
        "the depths).",
        source="Section 3.3, Equilibrium Hypothesis", ours=True, **EXPONENT,
        of=pooled(partial(follows, peak="centre"), conditions),
    ),
    Statement(
        "measured", "The layer that aligns best moves as the trained network's own equilibrium does (mean "
        "over the depths).",
        source="Section 3.3, Equilibrium Hypothesis", ours=True, **EXPONENT,
        of=pooled(partial(follows, theory="measured"), conditions),
    ),
    Statement(
        "at", "The layer that aligns best is the equilibrium layer (mean over the depths).",
        source="Section 3.3, Equilibrium Hypothesis", of=off, near=0.0, within=math.log(1.5), unit="in ln l",
        each=among("end", {end: f"{end} cosine" for end in ENDS}),
    ),
]  # fmt: skip
NUMBERS = [
    Number("peak", "layer that aligns best", typical, each=each_cosine),
    Number(
        "theory", "equilibrium layer", each=each_cosine,
        of=lambda t, p, **given: typical(t, p, column="theory", **given),
    ),
    Number(
        "accuracy", "test accuracy", each=each_cosine,
        of=lambda t, p, dataset, depth, cosine: sample(
            at(last_epoch(t, p, dataset, depth), cosine=cosine), "test_accuracy"
        ),
    ),
]  # fmt: skip
