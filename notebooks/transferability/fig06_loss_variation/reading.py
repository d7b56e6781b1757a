"""How much more the loss varies along its gradient from random than from pre-trained weights."""

import math

import numpy as np
import pandas as pd

from companion.over_seeds import area, at, curves, first, ratio
from companion.statements import Case, Number, Statement, among, crossed, least, over
from companion.studies.transferability.shared.by_seed import factor
from companion.studies.transferability.shared.target_rows import of_target, words
from companion.studies.transferability.shared.targets import STARTS

from .design import PROTOCOLS

PARTS = {  # of training, as shares of its steps
    "all steps": (0, 1), "before the first step": (0, 0), "first tenth": (0, 0.1), "rest": (0.1, 1),
}  # fmt: skip
LOSSES = 50  # training losses at which both ways are compared


def rows_of(table, target, protocol, start):
    """The rows of one target, protocol and start."""
    return at(of_target(table, target), protocol=protocol, start=start)


def variation(rows, reach="near"):
    """Largest less smallest loss of the line, (seeds × steps) frame; reach : "near" or "far"."""
    return curves(rows, "step", f"{reach}_high") - curves(rows, "step", f"{reach}_low")


def mean_over(frame, share=(0, 1)):
    """Mean of each seed's curve over the steps from and to a ``share`` of the last; its start for (0, 0)."""
    if share[1] == 0 or frame.empty:
        return first(frame)
    return area(frame, *(end * frame.columns[-1] for end in share))


def ratios(table, target, protocol, reach="near", part="all steps"):
    """log2 of the variation from random weights over that from pre-trained ones, a sample.

    Each is the mean over a part of the steps, of :data:`PARTS`; left out where a loss is not finite.
    """
    means = [
        mean_over(variation(rows_of(table, target, protocol, start), reach), PARTS[part]) for start in STARTS
    ]
    return _finite(np.log2(ratio(*means)))


def over_training(table, target, protocol, reach="near"):
    """(seeds × steps) frame of log2 of that ratio, step by step."""
    random, own = (variation(rows_of(table, target, protocol, start), reach) for start in STARTS)
    return np.log2(random / own)


def matched(table, target, protocol):
    """The same at equal loss, a sample: mean difference of log2 of the near variation over the losses that
    both pass. Between records it is a straight line over the logarithm of the loss.
    """
    random, own = (rows_of(table, target, protocol, start) for start in STARTS)
    found = {
        seed: _at_equal_loss(at(random, seed=seed), at(own, seed=seed))
        for seed in sorted(set(random.get("seed", ())) & set(own.get("seed", ())))
    }
    return _finite(pd.Series(found, dtype=float))


def _at_equal_loss(*ways):
    lines = []
    for rows in ways:
        rows = rows.sort_values("loss")
        near = rows["near_high"] - rows["near_low"]
        lines.append((np.log(rows["loss"].to_numpy(float)), np.log2(near.to_numpy(float))))
    low, high = max(loss[0] for loss, _ in lines), min(loss[-1] for loss, _ in lines)
    if low >= high:
        return math.nan
    grid = np.linspace(low, high, LOSSES)
    return float(np.mean(np.interp(grid, *lines[0]) - np.interp(grid, *lines[1])))


def _finite(values):
    return values.replace([np.inf, -np.inf], np.nan).dropna()


def reaches(parameters):
    """Cases: the two lengths of the line."""
    times = {"near": parameters["near"], "far": max(parameters["lengths"])}
    return [Case(k, f"up to {times[k]:g} × the learning rate", {"reach": k}) for k in times]


protocols = among("protocol", PROTOCOLS)
settings = crossed(protocols, over("targets", words, "target"))


def over_targets(measure):
    """A statement's ``of``: the mean over the targets of ``measure(table, target, …)``, seed by seed."""
    return lambda t, p, **given: (
        pd.concat([measure(t, name, **given) for name in p["targets"]], axis=1).dropna().mean(axis=1)
    )


def early(table, target, protocol, reach):
    return ratios(table, target, protocol, reach, "first tenth")


LESS = "The loss varies less along its gradient from pre-trained than from random weights"
RULE = {
    "above": 0, "matters": 0.14, "unit": "log2 of random over pre-trained",
    "because": "a tenth of the variation",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "smaller", f"{LESS}, on average over training.", source="Figures 6 and 11, Section 4",
        of=over_targets(ratios), each=protocols, headline=True, **RULE,
    ),
    Statement(
        "early", f"{LESS} in the first tenth of the steps.", source="Sections 1 and 4",
        of=over_targets(early), each=crossed(protocols, reaches), **RULE,
    ),
    Statement(
        "matched", f"{LESS} at equal loss, with either kind of steps.", source="Figures 6 and 11, Section 4",
        of=least(over_targets(matched), protocols), ours=True, **RULE,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "times", "variation, random over pre-trained", each=settings,
        of=lambda t, p, target, protocol: 2 ** ratios(t, target, protocol),
    ),
    Number(
        "equal", "the same at equal loss", each=protocols,
        of=lambda t, p, **given: 2 ** over_targets(matched)(t, p, **given),
    ),
]  # fmt: skip


def shown(parameters):
    """[(protocol, target)] of the two figures: the first target for Figure 6, the last for Figure 11."""
    return list(zip(PROTOCOLS, (parameters["targets"][0], parameters["targets"][-1]), strict=True))


def table_of(table, parameters, reach):
    """Ratios over each part of training, a row per setting."""
    rows = [
        {"steps and target": case.words}
        | {part: factor(ratios(table, **case.given, reach=reach, part=part)) for part in PARTS}
        for case in settings(parameters)
    ]
    return pd.DataFrame(rows)
