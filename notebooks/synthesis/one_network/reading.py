"""Which changes first, filters or features, and whether features need the filters. All is ours.

Times are in octaves of steps, log₂(1 + step), so that a difference is a factor.
"""

import math
import re

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, once, ratio
from companion.statements import Case, Number, Statement, least, over

NETWORKS = {"convolutional": "convolutional", "dense": "fully connected"}
FROZEN = "real labels, first layer frozen"
TASKS = {"real": "real labels", "random": "random labels", "fine-tuned": "fine-tuned from random labels"}
INSTRUMENTS = {
    "filters": "filters' preference for the data's axes",
    "features": "features with labels",
    "tangent": "tangent kernel with labels",
    "curvature": "curvature",
}


def octaves(steps):
    """log₂(1 + step), float64."""
    return np.log2(1 + np.asarray(steps, dtype=float))


def runs(table, network, task):
    """{seed: rows by step} of the runs that were recorded three times and more."""
    grouped = at(table, network=network, task=task).groupby("seed") if "task" in table else ()
    return {seed: rows.sort_values("step") for seed, rows in grouped if len(rows) > 2}


def tangents(rows):
    """A_l of a run, frame of (steps × layers), layers from 1."""
    layers = {name: int(name[7:]) for name in rows.columns if re.fullmatch(r"tangent\d+", name)}
    frame = rows.set_index("step")[list(layers)].rename(columns=layers)
    return frame.dropna(axis="columns", how="all")  # the other kind of network may have more layers


def instruments(rows):
    """The four instruments of one run, frame of (steps × INSTRUMENTS).

    filters : misalignment with random bases less that with the data; features : the labels' share on the top
    singular vectors; tangent : A_l of the layer that leads at the end; curvature : log₁₀ of its magnitude.
    """
    layers, rows = tangents(rows), rows.set_index("step")
    leads = layers.iloc[-1]
    size = rows["curvature"].abs()
    return pd.DataFrame(
        {
            "filters": rows["random_bases"] - rows["misalignment"],
            "features": rows["features"],
            "tangent": layers[leads.idxmax()] if leads.notna().any() else math.nan,
            "curvature": np.log10(size.where(size > 0)),
        }
    )


def steps_of(times):
    """Steps of the mean of ``times`` in octaves."""
    return 2 ** float(np.mean(times)) - 1


def half_time(series, net_change=False, part=0.5):
    """When half of all change has been made, in octaves, by linear interpolation; nan without change.

    series : values by step. Change is the length of the path, Σ |v_i − v_{i−1}|, which a value that rises and
    falls has, too. net_change : instead the first time at which the value is half way from first to last.
    part : another share of the change than half.
    """
    values, times = series.to_numpy(dtype=float), octaves(series.index)
    if not np.isfinite(values).all():
        return math.nan
    net = (values - values[0]) * np.sign(values[-1] - values[0])
    made = net if net_change else np.append(0.0, np.cumsum(np.abs(np.diff(values))))
    if not made[-1] > 0:
        return math.nan
    after = int(np.argmax(made >= part * made[-1]))
    within = (part * made[-1] - made[after - 1]) / (made[after] - made[after - 1])
    return times[after - 1] + within * (times[after] - times[after - 1])


@once
def times(table, network, task, when=half_time):
    """(seeds × INSTRUMENTS) frame of ``when`` of each instrument, in octaves."""
    found = {seed: instruments(rows).apply(when) for seed, rows in runs(table, network, task).items()}
    return pd.DataFrame(found, index=list(INSTRUMENTS)).T


def hidden_lead(table, parameters, network, task):
    """The largest A_l of a layer between the first and the last less the larger of theirs, at the end."""
    ends = {seed: tangents(rows).iloc[-1] for seed, rows in runs(table, network, task).items()}
    leads = {
        seed: end.iloc[1:-1].max() - end.iloc[[0, -1]].max()
        for seed, end in ends.items()
        if end.notna().all() and len(end) > 2
    }
    return pd.Series(leads, dtype=float)


def later(first, second, when=half_time):
    """A statement's ``of``: by how many octaves ``second`` makes half of its change later than ``first``."""

    def of(table, parameters, network, task):
        halves = times(table, network, task, when)
        return difference(halves[second], halves[first])

    return of


def lost_between(table, network, task):
    """What the loss loses from the features' half-time to the filters', over its first value, by seed."""
    found = {}
    for seed, rows in runs(table, network, task).items():
        halves = instruments(rows).apply(half_time)[["features", "filters"]]
        lost = 1 - rows["loss"] / rows["loss"].iloc[0]
        found[seed] = np.diff(np.interp(halves, octaves(rows["step"]), lost)).item()
    return pd.Series(found, dtype=float).dropna()


def sooner(table, parameters, networks):
    """By how many octaves the features make half of their change sooner when fine-tuned than from scratch."""
    real, tuned = (times(table, networks, task)["features"] for task in ("real", "fine-tuned"))
    return difference(real, tuned)


def frozen_gain(table, parameters, networks):
    """The features' gain with the first layer frozen, over that with all layers trained, by seed."""

    def gain(task):
        ends = {seed: rows["features"].iloc[[0, -1]] for seed, rows in runs(table, networks, task).items()}
        return pd.Series({seed: end.iloc[1] - end.iloc[0] for seed, end in ends.items()}, dtype=float)

    return ratio(gain("frozen"), gain("real"))


def learned_frozen(table, parameters, networks):
    """Training accuracy at the end with the first layer frozen, by seed."""
    ends = {seed: rows["accuracy"].iloc[-1] for seed, rows in runs(table, networks, "frozen").items()}
    return pd.Series(ends, dtype=float)


def as_share(table):
    """The table with the filters' preference as a share of the misalignment with random axes, at most 1."""
    return table.assign(misalignment=table["misalignment"] / table["random_bases"], random_bases=1.0)


def cases(parameters):
    """One case per network and kind of labels."""
    return [
        Case(f"{network}-{task}", f"{called} network, {labels}", {"network": network, "task": task})
        for network, called in NETWORKS.items()
        for task, labels in TASKS.items()
        if network in parameters["networks"]
    ]


def up_to(table, end):
    """The records up to step ``end``, as if training had ended there."""
    return table[table["step"] <= end]


def by_network(parameters):
    """The convolutional network with all kinds of labels, of which the least speaks, and the dense one."""
    convolutional = [case for case in cases(parameters) if case.given["network"] == "convolutional"]
    dense = [case for case in cases(parameters) if case.given["network"] == "dense"]
    whole = [Case("convolutional", "convolutional network, whatever the labels", {"of": convolutional})]
    return whole * bool(convolutional) + [Case(case.id, case.words, {"of": [case]}) for case in dense]


def features_first(table, parameters, of):
    """:func:`later` of features and filters, of the case of ``of`` that shows it least."""
    return least(later("features", "filters"), lambda p: of)(table, parameters)


TIME = {
    "above": 0, "matters": 0.1, "unit": "octaves of steps",
    "because": "a fifth of the distance between two records",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "features-first", "The features of the last hidden layer complete half of their change towards the "
        "labels before the first layer's weights complete half of the change in their preference for the "
        "data's axes over random ones.",
        source="compare Maennel Figure 2 and Imani Figure 2", of=features_first, each=by_network,
        headline=True, **TIME,
    ),
    Statement(
        "hidden-leads", "At the end a hidden layer's tangent kernel leads: it is better aligned than the "
        "first and the last layer's, in the network that shows it least.", source="compare Lou Section 2.3",
        of=least(hidden_lead, cases), above=0,
        matters=0.01, unit="A_l",
        because="a hundredth of the largest possible alignment",
    ),
    Statement(
        "sooner", "Features complete half of their change sooner when fine-tuned from random labels than "
        "from scratch, in the network that shows it least.", source="compare Maennel Figure 1",
        of=least(sooner, over("networks", NETWORKS)), **TIME,
    ),
    Statement(
        "frozen", "With the first layer frozen at its initial weights, features gain more than half of what "
        "they gain when it is trained, in the network that shows it least.", source="ours",
        of=least(frozen_gain, over("networks", NETWORKS)), above=0.5, matters=0.1,
        unit="of the trained network's gain", because="a tenth of the gain",
    ),
]  # fmt: skip
NUMBERS = [
    Number("learned", "training accuracy with the first layer frozen, at the end", learned_frozen,
           each=over("networks", NETWORKS)),
    Number("frozen", "features' gain with the first layer frozen over that of all", frozen_gain,
           each=over("networks", NETWORKS)),
    Number("ahead", "octaves by which filters are later", later("features", "filters"), each=cases),
    Number("filters-first", "octaves by which features are later, fully connected, real labels",
           lambda t, p: -later("features", "filters")(t, p, "dense", "real")),
]  # fmt: skip
