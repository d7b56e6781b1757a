"""How far ends of training lie apart: on several targets from one start, on one from several starts."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, ratio, weakest
from companion.statements import Case, Number, Statement
from companion.studies.transferability.shared import imagenet_rows
from companion.studies.transferability.shared.targets import name_of

from .design import STARTS

OWN = "random, its own"  # the start of networks that share it with no other
OTHER_SOURCE = {"pretrained": "pretrained on a part", "pretrained on a part": "pretrained"}
SHARED = {"pretrained": "pretrained", "shared": "random, shared"}
SHOWN = ("pretrained", "random, shared", "pretrained on a part", OWN)  # of STARTS, the control second


def called(start):
    """A start in the book's spelling; results have it without the hyphen."""
    return start.replace("pretrained", "pre-trained")


def distances(table, seed):
    """(distances, names): a symmetric matrix over all networks of one seed, ``names`` [(start, target)].

    Raises KeyError where a pair is missing.
    """
    rows = with_targets(table[table["seed"] == seed])
    names = [(start, target) for start in STARTS for target in dict.fromkeys(rows["target"])]
    place = {name: position for position, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in rows.itertuples():
        one, two = place[row.start, row.target], place[row.other_start, row.other_target]
        matrix[one, two] = matrix[two, one] = row.distance
    if np.isnan(matrix).any():
        raise KeyError("a pair of networks is missing")
    return matrix, names


def with_targets(table):
    """Rows of ``table`` with a distance, the targets' names in columns ``target`` and ``other_target``."""
    if "distance" not in table:
        return table.iloc[:0].assign(start=[], other_start=[], target=[], other_target=[])
    table = table[table["distance"].notna()]
    names = [
        [name_of(*pair) for pair in zip(table[dataset], table[part], strict=True)]
        for dataset, part in (("dataset", "part"), ("other", "other_part"))
    ]
    return table.assign(target=names[0], other_target=names[1])


def embedded(matrix, perplexity, seed):
    """t-SNE (scikit-learn) of a matrix of distances: (n, 2). ``perplexity`` at most n - 1."""
    from sklearn.manifold import TSNE

    chosen = min(perplexity, len(matrix) - 1)
    return TSNE(
        metric="precomputed", init="random", perplexity=chosen, learning_rate="auto", random_state=seed
    ).fit_transform(matrix)


def mean_of(rows, column="distance"):
    """Mean of ``column`` over the pairs of targets, a sample."""
    pairs = [f"{one} {two}" for one, two in zip(rows["target"], rows["other_target"], strict=True)]
    found = curves(rows.assign(pair=pairs), "pair", column)
    return found.mean(axis=1).dropna() if len(found) else pd.Series(dtype=float)


def within(table, start):
    """Distance between different targets from the same start, a sample."""
    rows = at(with_targets(table), start=start, other_start=start)
    return mean_of(rows[rows["target"] != rows["other_target"]])


def to(table, start, other_start):
    """Distance of one target's networks from two starts, a sample."""
    rows = at(with_targets(table), start=start, other_start=other_start)
    return mean_of(rows[rows["target"] == rows["other_target"]])


def of_itself(table, start, column):
    """``moved``, the distance of a network from its own start, or ``norm``: a sample."""
    return mean_of(at(with_targets(table), start=start, other_start=start), column)


def summary(table, starts=SHOWN):
    """{start: {within, across, sources, moved, norm: sample}}; what a start has not is left out."""
    found = {}
    for start in starts:
        samples = {"within": within(table, start)}
        samples |= {"across": to(table, start, OWN)} if start != OWN else {}
        samples |= {"sources": to(table, start, OTHER_SOURCE[start])} if start in OTHER_SOURCE else {}
        samples |= {column: of_itself(table, start, column) for column in ("moved", "norm")}
        found[start] = {name: values for name, values in samples.items() if len(values)}
    return {start: samples for start, samples in found.items() if samples}


def near(table, start):
    """log2 of the distance between two starts of one target over that between two targets of one start."""
    return np.log2(ratio(to(table, start, OWN), within(table, start)))


def around(table, start):
    """log2 of the distance between two starts of one target over that from the network's own start."""
    return np.log2(ratio(to(table, start, OWN), of_itself(table, start, "moved")))


def sources(table, start):
    """log2 of the distance between two pre-trainings of one target over that between two targets of one."""
    return np.log2(ratio(to(table, start, OTHER_SOURCE[start]), within(table, start)))


def of_sources(measure):
    """A statement's ``of``: a measure of our networks pre-trained on all or a part, whichever shows less."""
    starts = ("pretrained", "pretrained on a part")
    return lambda t, p: weakest(*(measure(imagenet_rows.own(t), start) for start in starts))


RULE = {
    "source": "Figure 4, Section 3", "above": 0, "matters": 0.14, "unit": "log2 of the ratio",
    "because": "a tenth of the distance",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "near", "Training on different targets from the same pre-trained weights ends closer together than "
        "training on one target from different starts.",
        of=of_sources(near), headline=True, **RULE,
    ),
    Statement(
        "near-shared", "Shared random weights do the same: different targets end closer together than one "
        "target from different starts.",
        of=lambda t, p: near(imagenet_rows.own(t), "random, shared"), ours=True, **RULE,
    ),
    Statement(
        "around", "Training ends closer to the pre-trained weights than to where training from scratch ends.",
        of=of_sources(around), **RULE,
    ),
    Statement(
        "sources", "Training on one target from two pre-trainings ends farther apart than training on "
        "different targets from the same pre-training.",
        of=of_sources(sources), **RULE,
    ),
]  # fmt: skip


def of_own(measure):
    """A number's ``of``: a measure of our own networks."""
    return lambda t, p, start: measure(imagenet_rows.own(t), start)


def each_start(parameters):
    return [Case(id, "", {"start": start}) for id, start in SHARED.items()]


NUMBERS = [
    Number("within", "distance between targets, same start", of_own(within), each=each_start),
    Number(
        "across", "distance between starts, same target",
        of=lambda t, p: to(imagenet_rows.own(t), "pretrained", OWN),
    ),
    Number(
        "times", "the same as a ratio", each=each_start,
        of=lambda t, p, start: 2 ** near(imagenet_rows.own(t), start),
    ),
]  # fmt: skip


def pairs(table, starts=SHOWN):
    """Tidy rows of :func:`summary`: ``start``, ``measure`` (within, across, …), ``seed``, ``distance``."""
    rows = [
        values.rename("distance").rename_axis("seed").reset_index().assign(start=start, measure=measure)
        for start, samples in summary(table, starts).items()
        for measure, values in samples.items()
    ]
    return pd.concat(rows, ignore_index=True)
