"""Whether features change before filters, and whether they need the first layer to learn. All is ours."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, ratio
from companion.statements import Case, Number, Statement, least, over

from ..shared import clocks
from ..shared.clocks import path

LAYERS = {"convolutional": "convolution", "local": "locally connected layer", "dense": "dense layer"}
TRAINED = {"all": "all layers trained", "others": "first layer frozen", "first": "only first layer trained"}
CELL = ["scale", "rate", "width"]


def amount(run):
    """The filters' preference for the data's axes: misalignment with random bases less that with these.

    It grows where the misalignment with the data does, too, but less than that with random bases.
    """
    return run["random_bases"] - run["misalignment"]


def share(run):
    """The same as a share of the misalignment with random bases, which is at most 1."""
    return 1 - run["misalignment"] / run["random_bases"]


def octaves(run):
    """log₂(1 + step)."""
    return clocks.octaves(run.index)


def lost(run):
    """Share of its first value that the loss has lost."""
    return 1 - run["loss"] / run["loss"].iloc[0]


def when(values, clock, part=0.5):
    """What ``clock`` shows when ``part`` of the length of the path is made; nan without change."""
    made = path(values)
    return np.interp(part * made[-1], made, clock) if made[-1] > 0 else np.nan


def half_time(run):
    """Octaves of steps at which the features have made half of their change."""
    return when(run["features"], octaves(run))


def lag(run, filters=amount, clock=octaves, part=0.5):
    """From when the features have made ``part`` of their change until the filters have."""
    return when(filters(run), clock(run), part) - when(run["features"], clock(run), part)


def gain(run):
    """By how much the features' alignment grows."""
    return run["features"].iloc[-1] - run["features"].iloc[0]


def per_run(table, layer, trained, measure):
    """(seeds × cells of the grid) frame of ``measure(run)``; with two kinds ``trained``, of pairs of runs."""
    rows = at(table, layer=layer, trained=trained)
    if rows.empty:
        return pd.DataFrame()
    found = {key: measure(run) for key, run in rows.set_index("step").sort_index().groupby(["seed", *CELL])}
    return pd.Series(found, dtype=float).rename_axis(["seed", *CELL]).unstack(CELL)


def mean_of(table, layer, trained, measure):
    """The same by seed, mean over the grid."""
    return per_run(table, layer, trained, measure).mean(axis=1)


def lags(table, layer, **how):
    """:func:`lag` with all layers trained, by seed, mean over the grid."""
    return mean_of(table, layer, "all", lambda run: lag(run, **how))


def beside_all(table, layer, trained, measure):
    """:func:`mean_of` of this kind, and of that with all layers trained."""
    return (mean_of(table, layer, which, measure) for which in (trained, "all"))


def progress(table, layer, trained, of):
    """(seeds × steps) frame, mean over the grid: path of ``of(run)`` in that with all layers trained."""
    found = {}
    for (seed, *_), pair in at(table, layer=layer, trained=["all", trained]).groupby(["seed", *CELL]):
        one, whole = (at(pair, trained=kind).sort_values("step") for kind in (trained, "all"))
        found.setdefault(seed, []).append(pd.Series(path(of(one)) / path(of(whole))[-1], one["step"]))
    return pd.DataFrame({seed: pd.concat(runs, axis=1).mean(axis=1) for seed, runs in found.items()}).T


def scales(parameters):
    """One case per initial scale: over the scales the order may turn."""
    return [Case(f"{scale:g}", f"scale {scale:g}", {"scale": scale}) for scale in parameters["scales"]]


by_layer = over("layers", LAYERS)


def by_share(table, parameters, scale):
    """:func:`lags` by the bounded measure, of the first layer that shows it least."""
    rows = at(table, scale=scale)
    return least(lambda t, p, layers: lags(rows, layers, filters=share), by_layer)(table, parameters)


def frozen_gain(table, parameters, layers):
    """The features' gain with the first layer frozen over that with all layers trained, by seed."""
    return ratio(*beside_all(table, layers, "others", gain))


TIME = {
    "above": 0, "matters": 0.1, "unit": "octaves of steps",
    "because": "a fifth of the distance between two records",
}  # fmt: skip
GAIN = {
    "above": 0.5, "matters": 0.1, "unit": "of the trained network's gain",
    "because": "a tenth of the gain",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "order", "The features complete half of their change towards the labels before the first layer's "
        "weights complete half of the change in their preference for the data's axes over random ones: the "
        "kind of first layer that shows it least.",
        source="compare Maennel Figure 2 and Imani Figure 2", headline=True, **TIME,
        of=least(lambda t, p, layers: lags(t, layers), by_layer),
    ),
    Statement(
        "share", "Features also come first if we measure filters by a share that is at most 1, with the "
        "first layer that shows it least.",
        source="ours", of=by_share, each=scales, **TIME,
        post_hoc="the bounded measure was added after five seeds",
    ),
    Statement(
        "frozen", "With the first layer frozen, the features gain more than half of what they gain when it "
        "is trained: the kind that shows it least.", of=least(frozen_gain, by_layer), source="ours", **GAIN,
    ),
    Statement(
        "reverse", "With only the first layer trained, the features gain more than half of what they gain "
        "when all layers are.", of=lambda t, p, layers: ratio(*beside_all(t, layers, "first", gain)),
        source="ours", post_hoc="added after five seeds", each=by_layer, **GAIN,
    ),
]  # fmt: skip
NUMBERS = [
    Number("lag", "octaves by which filters are later", lambda t, p, layers: lags(t, layers), each=by_layer),
    Number("frozen", "gain with the first layer frozen over that of all", frozen_gain, each=by_layer),
]  # fmt: skip
