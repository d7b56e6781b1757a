"""What each further layer of a network pre-trained on random labels adds (Figures 6 and 9)."""

from itertools import pairwise

import pandas as pd

from alignbook.claims import ABSENT, CONFIDENCE, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, t_interval
from alignbook.over_seeds import across, area, at, curves, sample, slope, weakest
from alignbook.statements import Case, Requirement, Statement, over

from ..seen_seeds import chosen_on
from .design import COLUMNS, depth

KINDS = {"random": "random labels", "real": "real labels"}
VISIBLE = "the panels show accuracy from 0 to 1: one point is the width of a line"
POINTS = {"above": 0, "matters": 1.0, "unit": "points", "because": VISIBLE}


def learning_curves(table, column, labels):
    """{number of layers: (seeds × epochs) frame of training accuracy} of one network, ascending."""
    rows = at(table, column=column, labels=labels)
    counts = sorted(rows["layers"].unique()) if len(rows) else []
    return {int(count): curves(at(rows, layers=count), "epoch", "accuracy") for count in counts}


def areas(table, column, labels):
    """(seeds × numbers of layers) frame: mean accuracy over training, points; seeds that have all numbers."""
    found = learning_curves(table, column, labels)
    if 0 not in found:
        return pd.DataFrame()
    rows = at(table, column=column, labels=labels)
    return across(rows, "layers", list(found), lambda part: 100 * area(curves(part, "epoch", "accuracy")))


def gains(table, column, labels):
    """(seeds × layers) frame: area between the learning curve and that from scratch, points of accuracy."""
    found = areas(table, column, labels)
    return found.drop(columns=0).sub(found[0], axis=0) if len(found) else found


def rise(table, parameters, column, labels):
    """Points of area that transferring all layers adds, by a line through all areas, by seed."""
    found = areas(table, column, labels)
    return slope(found.set_axis(found.columns / depth(column), axis=1)) if len(found) else None


def steps(table, column, labels):
    """(seeds × steps) frame: points of area that each further number of layers adds, e.g. ``"0 to 4"``."""
    found = areas(table, column, labels)
    if found.empty:
        return found
    names = [f"{a} to {b}" for a, b in pairwise(found.columns)]
    return found.diff(axis=1).iloc[:, 1:].set_axis(names, axis=1)


def all_three(table, parameters):
    """Of the three networks with random labels the sample whose rise is least certain."""
    found = [rise(table, parameters, column, "random") for column in COLUMNS]
    return None if any(values is None for values in found) else weakest(*found)


def corrected(values, tests):
    """``values`` spread about their mean so that their 95 % t interval is the one of 1 − 5 % / ``tests``.

    With this interval (Bonferroni's, the first step of Holm's) the least of ``tests`` samples, each with
    mean 0, lies below 0 in at most one of forty cases, as a single one does with its own.
    """
    from scipy import special

    tail = (1 - CONFIDENCE) / 2
    wider, usual = (special.stdtrit(len(values) - 1, 1 - t) for t in (tail / tests, tail))
    return values.mean() + (values - values.mean()) * wider / usual


def least_step(table, parameters, column, labels):
    """Of the steps the sample that shows a gain least. That each adds needs no correction to hold.

    That one of several takes away needs it: such a step is given as :func:`corrected` has it.
    """
    found = steps(table, column, labels)
    if found.empty:
        return None
    samples = [found[name] for name in found]
    wider = [corrected(values, len(samples)) for values in samples] if len(found) > 2 else []
    below = [values for values in wider if _surely_below(values)]
    if below:
        return min(below, key=lambda values: values.mean())
    worst = weakest(*samples)
    return corrected(worst, len(samples)) if _surely_below(worst) else worst


def _surely_below(values):
    ends = t_interval(values)[2]
    return ends is not None and ends[1] < 0


def memorised(table, column):
    """Training accuracy (0..1) at the end of pre-training, by seed."""
    return sample(at(table, column=column, layers=-1), "accuracy")


SEVERAL = Requirement(
    "numbers of layers between none and all: with none, the line says it all",
    lambda t, p, column, labels: steps(t, column, labels).shape[1] - 1,
    at_least=1,
)


def each_network(parameters):
    """Cases: every network with every kind of labels."""
    return [
        Case(f"{column}-{kind}", f"{setting.name}, {KINDS[kind]}", {"column": column, "labels": kind})
        for kind in parameters["labels"]
        for column, setting in COLUMNS.items()
    ]


STATEMENTS = [
    Statement(
        "more-layers", "The more layers are transferred, the faster all three networks learn random labels.",
        source="Figure 6", of=all_three, headline=True, **POINTS,
    ),
    *(
        Statement(
            column, f"The more layers are transferred, the faster {setting.name} learns (by a line).",
            source="Figures 6 and 9", of=lambda t, p, labels, column=column: rise(t, p, column, labels),
            each=over("labels", KINDS), **POINTS,
        )
        for column, setting in COLUMNS.items()
    ),
    Statement(
        "steps", "Each step to more layers speeds learning up further.", source="Figures 6 and 9",
        of=least_step, each=each_network, requires=(SEVERAL, chosen_on("this reading")), ours=True,
        post_hoc="added when three seeds had been seen; only new seeds are judged", **POINTS,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The more layers are transferred, the faster all three networks learn random labels",
    ABSENT: "Transferring more layers makes too little difference to at least one of the three networks",
    CONTRADICTED: "Transferring more layers slows at least one of the three networks down",
    UNDECIDED: "Transferring more layers does not surely speed up all three networks",
}


def finding(table, parameters, claims):
    """Whether more layers help in all three networks, which step adds most, and which takes away."""
    outcome = claims["more-layers"].outcome
    found = {name: steps(table, name, "random").mean() for name in COLUMNS}
    if outcome not in SAID or any(added.empty for added in found.values()):
        return "The three networks are not all among the results."
    early = sum(added.idxmax() == added.index[0] for added in found.values())
    text = f"{SAID[outcome]}. The earliest layers add most in {early} of 3."
    column = min(found, key=lambda name: found[name].min())
    if found[column].min() < 0:
        text += f" {COLUMNS[column].name} loses {-found[column].min():.0f} points on average "
        text += f"from {found[column].idxmin()} layers."
    return text + f" Networks and data are small (images of {parameters['side']} pixels)."


def key_numbers(table, parameters):
    """Gain over training from scratch by number of layers, random labels."""
    made = []
    for column, setting in COLUMNS.items():
        frame = gains(table, column, "random")
        if not frame.empty:
            here = " / ".join(f"{value:+.1f}" for value in frame.mean())
            counts = " / ".join(map(str, frame.columns))
            made.append(KeyNumber(f"{setting.name}: gain with {counts} layers (points)", here, "rising"))
    return made
