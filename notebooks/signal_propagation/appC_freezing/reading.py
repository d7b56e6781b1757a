"""Whether a layer's alignment says what training it alone changes (Section 2.1, Appendix C). No torch."""

import pandas as pd

from companion import over_seeds
from companion.over_seeds import at, rank_correlation
from companion.statements import Number, Statement, among, crossed, least, over, pooled

from ..shared.names import called

NEAR = 0.9  # a cosine that counts as "≈", as on the page of Figure 6; fixed before any result was seen
STARTS = {0: "at initialisation", 1: "after one epoch"}


def curves(table, dataset, column, start=0, kind="layer"):
    """(seeds × layers) frame of one column."""
    where = {"kind": kind, "dataset": dataset} | ({"start": start} if kind == "layer" else {})
    return over_seeds.curves(at(table, **where), "layer", column)


def between(one, other):
    """A reading: rank correlation of two columns over the layers of a network, by seed."""
    return lambda t, p, dataset, start=0: rank_correlation(
        curves(t, dataset, one, start), curves(t, dataset, other, start)
    )


def within(one, other):
    """A reading: correlation of two columns over networks at a fixed layer, by layer.

    All networks share nearly one profile over the layers, so a correlation over layers has one effective
    observation however many seeds there are. At a fixed layer the networks are independent.
    """

    def of(table, parameters, dataset, start=0):
        x, y = (curves(table, dataset, column, start) for column in (one, other))
        if not len(x):
            return pd.Series(dtype=float)
        return x.corrwith(y).dropna().rename_axis("layer")

    return of


def over_layers(column, kind="layer"):
    """A reading: mean over layers and data sets of a column at first, by seed."""

    def of(table, parameters):
        frames = [curves(table, d, column, kind=kind) for d in parameters["datasets"]]
        return pd.concat(frames, axis=1).mean(axis=1) if frames else None

    return of


datasets = over("datasets", called, "dataset")
both = crossed(datasets, among("start", STARTS))


CORRELATED = {
    "above": 0.0, "matters": 0.3, "bounds": (-1, 1),
    "because": "a smaller correlation explains less than a tenth of the variance",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "controls", "At a fixed layer, networks with a larger A_l change their outputs more by a step on it "
        "(correlation over networks).",
        source="Section 2.1, conclusion", of=within("alignment", "norm"), each=datasets, headline=True,
        post_hoc="correlations over the layers of one network had been seen", **CORRELATED,
    ),
    Statement(
        "gains", "At a fixed layer, the larger A_l, the more training the layer alone lowers the loss, at "
        "initialisation and after one epoch (mean of both, over the data sets).",
        source="Section 2.1, hypothesis", of=pooled(within("alignment", "drop"), both),
        post_hoc="correlations over the layers of one network had been seen", **CORRELATED,
    ),
    Statement(
        "contributes", "At a fixed layer, the larger Tr(K_l ỸỸᵀ), the more such training lowers the loss: "
        "the data set that shows it least.",
        source="Equation 5", of=least(within("share", "drop"), datasets),
        post_hoc="correlations over the layers of one network had been seen", **CORRELATED,
    ),
    Statement(
        "labels", "In one network at initialisation, that change points along K_l Ỹ (mean cosine; ours: "
        "above 0.9).",
        source="Equation 4", ours=True, of=over_layers("cosine"), above=NEAR, matters=0.02, bounds=(-1, 1),
        because="a fifth of the distance from our threshold to 1",
    ),
    Statement(
        "labels-mean", "Averaged over networks, a step goes along Ỹ as far as Equation 4 says (ratio).",
        source="Appendix C", of=over_layers("gained", kind="mean"), near=1.0, within=0.1,
    ),
]  # fmt: skip
NUMBERS = [
    Number("contributes", "correlation of the share with the drop of the loss", within("share", "drop"),
           each=datasets),
    Number("between-mean", "rank correlation of A_l with the change of the outputs, over layers",
           lambda t, p: pd.concat([between("alignment", "norm")(t, p, d) for d in p["datasets"]])),
]  # fmt: skip
