"""Which instrument changes first, which layer's tangent kernel leads, and what settles last. All is ours.

Times are in octaves of steps, log₂(1 + step), so that a difference is a factor.
"""

import itertools
import math
import re

import numpy as np
import pandas as pd

from alignbook.claims import KeyNumber, t_interval
from alignbook.over_seeds import at, difference, once
from alignbook.statements import Case, Requirement, Statement, over
from alignbook.wording import by_verdict, fitting, over_cases, sentences

from ..clocks import octaves, path

SETTLED = 0.25  # of the range over the run: nearer to the last value than this is settled
LARGEST_LAG = 6  # half-octaves of steps
LEAST_PAIRS = 5  # of changes, for a correlation

NETWORKS = {"convolutional": "convolutional", "dense": "fully connected"}
TASKS = {"real": "real labels", "random": "random labels", "fine-tuned": "fine-tuned from random labels"}
INSTRUMENTS = {
    "filters": "filters' preference for the data's axes",
    "features": "features with labels",
    "tangent": "tangent kernel with labels",
    "curvature": "curvature",
}
PAIRS = tuple(itertools.combinations(INSTRUMENTS, 2))


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
    made = (values - values[0]) * np.sign(values[-1] - values[0]) if net_change else path(values)
    if not made[-1] > 0:
        return math.nan
    after = int(np.argmax(made >= part * made[-1]))
    within = (part * made[-1] - made[after - 1]) / (made[after] - made[after - 1])
    return times[after - 1] + within * (times[after] - times[after - 1])


def settled(series):
    """From which record on, in octaves, the value stays within a quarter of its range of the last.

    Where that is the last record, it has not settled within the run: its time is that or later.
    """
    values = series.to_numpy(dtype=float)
    if not np.isfinite(values).all():
        return math.nan
    elsewhere = np.flatnonzero(np.abs(values - values[-1]) > SETTLED * np.ptp(values))
    return octaves(series.index)[elsewhere[-1] + 1 if len(elsewhere) else 0]


@once
def times(table, network, task, when=half_time):
    """(seeds × INSTRUMENTS) frame of ``when`` of each instrument, in octaves."""
    found = {seed: instruments(rows).apply(when) for seed, rows in runs(table, network, task).items()}
    return pd.DataFrame(found, index=list(INSTRUMENTS)).T


def unsettled(table, parameters, network, task):
    """How many runs have an instrument that settles only at the last record."""
    late = times(table, network, task, settled).ge(octaves(parameters["steps"]))
    return float(late.any(axis=1).sum())


def leaders(table, network, task):
    """One row per seed, at the end: ``leader``, the layer (from 1) whose tangent kernel leads; and
    ``hidden``, the largest A_l of a layer between the first and the last less the larger of theirs.
    """
    ends = {seed: tangents(rows).iloc[-1] for seed, rows in runs(table, network, task).items()}
    found = {
        seed: {"leader": end.idxmax(), "hidden": end.iloc[1:-1].max() - end.iloc[[0, -1]].max()}
        for seed, end in ends.items()
        if end.notna().all() and len(end) > 2
    }
    return pd.DataFrame(found, index=["leader", "hidden"], dtype=float).T


def changes(rows):
    """Changes of the four instruments from half-octave to half-octave of steps, from step 1 to the last."""
    series = instruments(rows)
    series = series[series.index > 0]
    logs = np.log2(series.index.to_numpy(dtype=float))
    grid = np.arange(0, logs[-1] + 1e-9, 0.5)
    return pd.DataFrame({name: np.diff(np.interp(grid, logs, values)) for name, values in series.items()})


def lagged(table, network, task, first, second):
    """(seeds × lags in octaves) frame of the correlation of changes of ``first`` with those of ``second`` so
    much later; NaN with fewer than ``LEAST_PAIRS`` pairs of changes.
    """
    lags, found = range(-LARGEST_LAG, LARGEST_LAG + 1), {}
    for seed, rows in runs(table, network, task).items():
        moves = changes(rows)
        found[seed] = [moves[first].corr(moves[second].shift(-lag), min_periods=LEAST_PAIRS) for lag in lags]
    return pd.DataFrame(found, index=[lag / 2 for lag in lags]).T


def later(first, second, when=half_time):
    """A statement's ``of``: by how many octaves ``second`` makes half of its change later than ``first``."""

    def of(table, parameters, network, task):
        halves = times(table, network, task, when)
        return difference(halves[second], halves[first])

    return of


def net_half_time(series):
    """:func:`half_time` of the net change."""
    return half_time(series, net_change=True)


def same_order(table, parameters, network, task):
    """Whether curvature and features have the same order by path and by net change, in the mean."""
    both = (later("curvature", "features", when)(table, parameters, network, task).mean()
            for when in (half_time, net_half_time))  # fmt: skip
    return math.prod(both) > 0


def lost_between(table, network, task):
    """What the loss loses from the features' half-time to the filters', over its first value, by seed."""
    found = {}
    for seed, rows in runs(table, network, task).items():
        halves = instruments(rows).apply(half_time)[["features", "filters"]]
        lost = 1 - rows["loss"] / rows["loss"].iloc[0]
        found[seed] = np.diff(np.interp(halves, octaves(rows["step"]), lost)).item()
    return pd.Series(found, dtype=float).dropna()


def settles_last(table, parameters, network, task):
    """Octaves from when the last of the three alignments has settled until the curvature has."""
    found = times(table, network, task, settled)
    return difference(found["curvature"], found.drop(columns="curvature").max(axis=1, skipna=False))


def sooner(table, parameters, networks):
    """By how many octaves the features make half of their change sooner when fine-tuned than from scratch."""
    real, tuned = (times(table, networks, task)["features"] for task in ("real", "fine-tuned"))
    return difference(real, tuned)


def cases(parameters):
    """One case per network and kind of labels."""
    return [
        Case(f"{network}-{task}", f"{called} network, {labels}", {"network": network, "task": task})
        for network, called in NETWORKS.items()
        for task, labels in TASKS.items()
        if network in parameters["networks"]
    ]


SETTLE = Requirement("runs in which an instrument has not settled by the last record", unsettled, at_most=0)
SAME_ORDER = Requirement(
    "the order by half of the net change has the same sign", same_order,
    because="Where an instrument is not monotone, half of its path and half of its net change differ",
)  # fmt: skip
TIME = {
    "above": 0, "matters": 0.1, "unit": "octaves of steps", "ours": True,
    "because": "a fifth of the distance between two records",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "features-first", "The features of the last hidden layer complete half of their change towards the "
        "labels before the first layer's weights complete half of the change in their preference for the "
        "data's axes over random ones.",
        source="compare Maennel Figure 2 and Imani Figure 2", of=later("features", "filters"), each=cases,
        headline=True, **TIME,
    ),
    Statement(
        "curvature-first", "The curvature completes half of its change before the features do.",
        source="compare Imani Figure 2 and ICLR 2020 Figure 3", of=later("curvature", "features"), each=cases,
        requires=(SAME_ORDER,), **TIME,
    ),
    Statement(
        "tangent-first", "The tangent kernel of the layer that leads at the end completes half of its change "
        "before the features do.", source="compare Lou Figure 2 and Imani Figure 2",
        of=later("tangent", "features"), each=cases, **TIME,
    ),
    Statement(
        "curvature-settles-last", "The curvature settles after the three alignments have.",
        source="compare ICLR 2020 Figure 3", of=settles_last, each=cases, requires=(SETTLE,), **TIME,
    ),
    Statement(
        "hidden-leads", "At the end a hidden layer's tangent kernel leads: it is better aligned than the "
        "first and the last layer's.", source="compare Lou Section 2.3", each=cases, above=0, matters=0.01,
        unit="A_l", ours=True,
        of=lambda t, p, network, task: leaders(t, network, task)["hidden"],
        because="a hundredth of the largest possible alignment",
    ),
    Statement(
        "sooner", "Features complete half of their change sooner when fine-tuned from random labels than "
        "from scratch.", source="compare Maennel Figure 1", of=sooner,
        each=over("networks", NETWORKS), **TIME,
    ),
]  # fmt: skip


ORDER = by_verdict(
    "features come first", "filters come first", "both come at once", undecided="the order is undecided",
    not_judged="the order is not judged",
)  # fmt: skip


def finding(table, parameters, claims):
    """Which of features and filters is first, by network, and where an earlier end of training turns it."""
    said = []
    for network in parameters["networks"]:
        ids = [f"features-first-{network}-{task}" for task in TASKS]
        order = over_cases(claims, ids, ORDER, "in {} tasks")
        if order is not None and claims[ids[0]].measured is not None:
            which = f"{NETWORKS[network]} {'one (filters on few axes)' if said else 'network'}"
            said.append(f"in the {which} {order}")
    if not said:
        return "Nothing was measured: every run diverged or was too short."
    text = "We expected features to align before filters prefer the data's axes: "
    text += "; ".join(said)
    small = "Both are small" if len(said) > 1 else "It is small"
    if turned := turned_by_the_end(table, parameters):
        count = f"{len(turned)} of {len(cases(parameters))} orders"
        end = f"{early_end(table, parameters)} of {parameters['steps']}"
        early = f"Had training ended at step {end}, {count} would be reversed"
        return fitting(sentences(text, small, early), sentences(text, early))
    return sentences(text, small)


def early_end(table, parameters):
    """The last record within a quarter of the steps: where training might have ended as well."""
    return max(step for step in table["step"].unique() if step <= parameters["steps"] / 4)


def up_to(table, end):
    """The records up to step ``end``, as if training had ended there."""
    return table[table["step"] <= end]


def turned_by_the_end(table, parameters):
    """The cases in which features and filters surely have the opposite order up to :func:`early_end`."""
    early, found, later_by = up_to(table, early_end(table, parameters)), [], later("features", "filters")
    for case in cases(parameters):
        both = [t_interval(later_by(rows, parameters, **case.given))[2] for rows in (early, table)]
        if all(both) and (both[0][1] < 0 < both[1][0] or both[1][1] < 0 < both[0][0]):
            found.append(case)
    return found


def key_numbers(table, parameters):
    """The filters' half-time over the features' with real labels, by network."""
    made = []
    for network in parameters["networks"]:
        halves = times(table, network, "real").dropna()
        if len(halves):
            steps = halves.apply(steps_of)
            what = f"half-time of filters over that of features, {NETWORKS[network]} network, real labels"
            made.append(KeyNumber(what, f"{steps['filters'] / steps['features']:.1f}"))
    return made
