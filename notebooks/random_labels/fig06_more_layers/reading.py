"""What handing on more layers of a network pre-trained on random labels adds (Figures 6 and 9)."""

import pandas as pd

from companion.over_seeds import across, at, curves, difference, once, sample, slope
from companion.statements import Number, Statement, among, least, pooled

from ..shared.gains import VISIBLE, mean_accuracy
from .design import COLUMNS, depth


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


def scale(table, parameters, which, labels):
    """Points of area that ResNet-18 gains over training from scratch: ``larger`` or ``rescaled``, by seed."""
    scratch, rows = areas(table, "resnet", labels), at(table, column=which, labels=labels)
    return difference(100 * mean_accuracy(rows), scratch[0]) if len(rows) and len(scratch) else None


def memorised(table, column):
    """Training accuracy (0..1) at the end of pre-training, by seed."""
    return sample(at(table, column=column, layers=-1), "accuracy")


def handed_on(table, parameters, column, labels, share):
    """Gain with the number of layers that is nearest to a ``share`` (0..1) of them, by seed."""
    found = gains(table, column, labels)
    return found[min(found, key=lambda count: abs(count / depth(column) - share))] if len(found) else None


def later_half(table, parameters, column, labels):
    """What handing on all layers adds to about half of them, by seed."""
    ends = [handed_on(table, parameters, column, labels, share) for share in (1, 0.5)]
    return None if ends[0] is None else difference(*ends)


def over_labels(measure):
    """Reading: the mean of ``measure(table, parameters, …, labels)`` over the kinds of labels, by seed."""

    def mean(table, parameters, **given):
        found = [measure(table, parameters, labels=kind, **given) for kind in parameters["labels"]]
        return None if any(values is None for values in found) else sum(found) / len(found)

    return mean


each_network = among("column", {column: setting.name for column, setting in COLUMNS.items()})


POINTS = {"above": 0, "matters": 1.0, "unit": "points", "because": VISIBLE}
NETWORKS = POINTS | {"source": "Figures 6 and 9"}
SCALE = POINTS | {"source": "Appendix B.5"}
STATEMENTS = [
    Statement(
        "more-layers",
        "From no layer to all, the more are transferred, the faster each network learns (by a fitted line).",
        of=least(over_labels(rise), each_network), headline=True, **NETWORKS,
    ),
    Statement(
        "among", "With transferred layers alone, too, each network learns faster the more they are.",
        of=least(over_labels(rise_among), each_network), **NETWORKS,
        post_hoc="scratch was left out after all seeds had been seen",
    ),
    Statement(
        "later-half", "Handing on all layers helps more than about half of them, mean over the networks.",
        of=pooled(over_labels(later_half), each_network), ours=True, **NETWORKS,
        post_hoc="chosen when all seeds had been seen",
    ),
    Statement(
        "larger", "A newly initialised ResNet-18 learns faster with the norms of pre-trained weights.",
        of=over_labels(lambda t, p, labels: scale(t, p, "larger", labels)), **SCALE,
    ),
    Statement(
        "rescaled", "A pre-trained ResNet-18 learns faster than a new one even at the new one's norms.",
        of=over_labels(lambda t, p, labels: scale(t, p, "rescaled", labels)), ours=True, **SCALE,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "further", "further gain from half of the layers to all (points)", over_labels(later_half),
        each=each_network,
    ),
] + [
    Number(
        name, f"gain with {words} (points), random labels", each=each_network,
        of=lambda t, p, column, share=share: handed_on(t, p, column, "random", share),
    )
    for name, words, share in (("half", "about half of the layers", 0.5), ("all", "all layers", 1))
]  # fmt: skip
