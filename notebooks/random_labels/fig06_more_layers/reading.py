"""What each further layer of a network pre-trained on random labels adds (Figures 6 and 9)."""

from itertools import pairwise

import pandas as pd

from alignbook.claims import CONTRADICTED, UNDECIDED, KeyNumber, interval, t_interval
from alignbook.over_seeds import across, at, corrected, curves, difference, once, sample, slope, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, listed

from ..gains import KINDS, VISIBLE, mean_accuracy
from ..seen_seeds import WIDTH, seen
from .design import COLUMNS, depth

SIDE = 32  # height and width of the paper's images
POINTS = {"above": 0, "matters": 1.0, "unit": "points", "because": VISIBLE}
ALL_SEEN = 15  # seeds of profile quick that had been seen when networks from scratch were left out


def learning_curves(table, column, labels):
    """{number of layers: (seeds × epochs) frame of training accuracy} of one network, ascending."""
    rows = at(table, column=column, labels=labels)
    counts = sorted(rows["layers"].unique()) if len(rows) else []
    return {int(count): curves(at(rows, layers=count), "epoch", "accuracy") for count in counts}


@once
def areas(table, column, labels):
    """(seeds × numbers of layers) frame: mean accuracy over training, points; seeds that have all numbers."""
    counts = list(learning_curves(table, column, labels))
    if 0 not in counts:
        return pd.DataFrame()
    rows = at(table, column=column, labels=labels)
    return 100 * across(rows, "layers", counts, mean_accuracy)


def gains(table, column, labels):
    """(seeds × layers) frame: area between the learning curve and that from scratch, points of accuracy."""
    found = areas(table, column, labels)
    return found.drop(columns=0).sub(found[0], axis=0) if len(found) else found


def rise(table, parameters, column, labels):
    """Points of area that transferring all layers adds, by a line through all areas, by seed."""
    return _by_line(areas(table, column, labels), column)


def rise_among(table, parameters, column, labels):
    """Points of area from the fewest transferred layers to all, by a line without training from scratch.

    The step from no layer to some is not in it, which the line of :func:`rise` may owe its slope to.
    """
    return _by_line(areas(table, column, labels).drop(columns=0, errors="ignore"), column)


def _by_line(found, column):
    """By how much a line through the areas ``found`` rises from its first number of layers to its last."""
    if found.shape[1] < 2:
        return None
    shares = found.columns / depth(column)
    return slope(found.set_axis(shares, axis=1)) * (shares[-1] - shares[0])


def steps(table, column, labels):
    """(seeds × steps) frame: points of area that each further number of layers adds, e.g. ``"0 to 4"``."""
    found = areas(table, column, labels)
    if found.empty:
        return found
    names = [f"{a} to {b}" for a, b in pairwise(found.columns)]
    return found.diff(axis=1).iloc[:, 1:].set_axis(names, axis=1)


def all_three(table, parameters, measure=rise):
    """Of the three networks with random labels the sample whose rise (``measure``) is least certain."""
    found = [measure(table, parameters, column, "random") for column in COLUMNS]
    return None if any(values is None for values in found) else weakest(*found)


def surely_below(values):
    """Whether the 95 % interval of the mean lies below 0."""
    ends = t_interval(values)[2]
    return ends is not None and ends[1] < 0


def least_step(table, parameters, column, labels):
    """Of the steps the sample that shows a gain least. That each adds needs no correction to hold.

    That one of several takes away needs it: such a step is given as :func:`corrected` has it.
    """
    found = steps(table, column, labels)
    if found.empty:
        return None
    samples = [found[name] for name in found]
    wider = [corrected(values, len(samples)) for values in samples] if len(found) > 2 else []
    below = [values for values in wider if surely_below(values)]
    if below:
        return min(below, key=lambda values: values.mean())
    worst = weakest(*samples)
    return corrected(worst, len(samples)) if surely_below(worst) else worst


def scale(table, parameters, which, labels):
    """Points of area that ResNet-18 gains over training from scratch: ``larger`` or ``rescaled``, by seed."""
    scratch, rows = areas(table, "resnet", labels), at(table, column=which, labels=labels)
    return difference(100 * mean_accuracy(rows), scratch[0]) if len(rows) and len(scratch) else None


def memorised(table, column):
    """Training accuracy (0..1) at the end of pre-training, by seed."""
    return sample(at(table, column=column, layers=-1), "accuracy")


SEVERAL = Requirement(
    "numbers of layers that lie between none and all",
    lambda t, p, column, labels: steps(t, column, labels).shape[1] - 1,
    at_least=1,
)


def each_labels(**given):
    """``each`` of a statement about what is ``given``: every kind of labels."""
    return lambda parameters: [
        Case(kind, KINDS[kind], given | {"labels": kind}) for kind in parameters["labels"]
    ]


def of_scale(which, text):
    """The statement on what pre-trained weights gain by their size (larger) or without it (rescaled)."""
    return Statement(
        which, text, source="Appendix B.5", of=scale, ours=True, each=each_labels(which=which), **POINTS
    )


AMONG = {
    "of": rise_among, "seen": lambda parameters: ALL_SEEN if parameters["width"] == WIDTH else 0,
    "post_hoc": "networks from scratch were left out after all stored seeds had been seen; only new seeds "
    "are judged",
} | POINTS  # fmt: skip


def of_network(column, name):
    """The three statements about one network."""
    cases = {"each": each_labels(column=column), "source": "Figures 6 and 9"}
    return (
        Statement(
            column,
            f"From no layer to all, the more are transferred, the faster {name} learns (by a fitted line).",
            of=rise, **cases, **POINTS,
        ),
        Statement(
            f"among-{column}",
            f"Among {name} networks with transferred layers, too, those with more of them learn faster (by "
            "a fitted line).",
            **cases, **AMONG,
        ),
        Statement(
            f"steps-{column}",
            f"Each step to more layers speeds up {name} further (a step that slows: Bonferroni's interval).",
            of=least_step,
            requires=(SEVERAL,), ours=True, seen=seen,
            post_hoc="added after three seeds had been seen; only new seeds are judged", **cases, **POINTS,
        ),
    )  # fmt: skip


STATEMENTS = [
    Statement(
        "more-layers",
        "From no layer to all, the more are transferred, the faster all three networks learn random labels "
        "(by a fitted line).",
        source="Figure 6", of=all_three, headline=True, **POINTS,
    ),
    Statement(
        "among",
        "Among networks with transferred layers, too, those with more of them learn random labels faster, in "
        "all three architectures.",
        source="Figure 6, Section 2.5", **AMONG | {"of": lambda t, p: all_three(t, p, rise_among)},
    ),
    *(statement for column, setting in COLUMNS.items() for statement in of_network(column, setting.name)),
    of_scale("larger", "A newly initialised ResNet-18 learns faster with the norms of pre-trained weights."),
    of_scale("rescaled", "A pre-trained ResNet-18 learns faster than a new one even at the new one's norms."),
]  # fmt: skip

SAID = by_verdict(
    holds="By a line fitted from no layer to all, transferring layers speeds up all three networks",
    contradicted="Transferring layers slows at least one of the three networks down",
    absent="Transferring layers makes too little difference to at least one of the three networks",
    undecided="It is undecided whether transferring layers speeds up all three networks",
    not_judged="We do not judge whether transferring layers speeds up all three networks",
)
FEW = by_verdict(
    holds="Many layers help more than few",
    contradicted="Many layers help less than few in at least one network",
    absent="Many layers help about as much as few in at least one network",
    undecided="Whether many layers help more than few is undecided",
    not_judged="Whether many layers help more than few is not judged, as we asked after seeing all seeds",
)


def finding(table, parameters, claims):
    """Whether more layers help in all three networks, and where a step to more layers loses most."""
    outcome, least = claims["more-layers"].outcome, all_three(table, parameters)
    if outcome not in SAID or least is None:
        return "The three networks are not all among the results."
    found = {column: gains(table, column, "random").mean() for column in COLUMNS}
    losing = [column for column in COLUMNS if claims[f"steps-{column}-random"].outcome == CONTRADICTED]
    if losing:
        columns = {column: steps(table, column, "random").mean() for column in losing}
        column = min(columns, key=lambda name: columns[name].min())
        before, after = (int(count) for count in columns[column].idxmin().split(" to "))
        had, has = (_points(found[column].get(count, 0.0)) for count in (before, after))
        more = f"layer {after} lowers" if after == before + 1 else "more layers lower"
        beside = f"{more} {COLUMNS[column].name}'s gain in mean accuracy from {had} to {has} points"
    else:
        (column,) = (name for name in COLUMNS if rise(table, parameters, name, "random").equals(least))
        beside = f"{COLUMNS[column].name} is the least clear: with all of its layers it "
        beside += f"{gained(found[column].iloc[-1])} of mean accuracy"
    images = " Our images are smaller than the paper's." * (parameters["side"] < SIDE)
    few = FEW.get(claims["among"].outcome)
    text = f"{SAID[outcome]}. {few}; {beside}" if few else f"{SAID[outcome]}; {beside}"
    return fitting(f"{text}.{_lost(claims, losing, column) or images}", f"{text}.")


def _lost(claims, losing, most):
    """Which networks beside the one that loses ``most`` also lose with some step, a sentence, or none."""
    also = [COLUMNS[column].name for column in losing if column != most]
    if not also:
        return ""
    outcomes = {setting.name: claims[f"steps-{column}-random"].outcome for column, setting in COLUMNS.items()}
    undecided = [name for name, outcome in outcomes.items() if outcome == UNDECIDED]
    rest = f"; for {listed(undecided)} this is undecided" if undecided else ""
    return f" {listed(also)} {'lose' if len(also) > 1 else 'loses'} with some further layer, too{rest}."


def _points(mean):
    """``19`` or ``−3``."""
    return f"{mean:.0f}".replace("-", "−").replace("−0", "0")


def gained(mean):
    """``gains 4 points``, or loses."""
    return f"{'gains' if mean > 0 else 'loses'} {abs(mean):.0f} points"


def key_numbers(table, parameters):
    """By how much the fitted line rises, which is judged, random labels."""
    found = {setting.name: rise(table, parameters, column, "random") for column, setting in COLUMNS.items()}
    return [
        KeyNumber(
            f"{name}: rise of the fitted line from no layer to all (points)",
            interval(values, "{:+.1f}"), "positive",
        )
        for name, values in found.items()
        if values is not None
    ]  # fmt: skip
