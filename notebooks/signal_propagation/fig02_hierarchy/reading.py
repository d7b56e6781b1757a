"""When the layers' alignments rise, and which layer leads when (Figures 1, 2, 7, 9 and 10)."""

import math
from functools import partial

import pandas as pd

from companion.over_seeds import at, difference, once, sample
from companion.statements import Case, Statement, least, over, pooled

from ..shared.names import LEARNED, called

EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
STOPPED = 10.0  # epochs after which the test losses at rate 0.05 are nearest to the printed ones
PRINTED_RATE = 0.05  # of Figures 9 (c) and 10 (c), whose captions can be read
KIND = ["dataset", "depth", "learning_rate"]


@once
def leads(table):
    """One row per network that learned and record: ``KIND``, seed, epoch, and

    lead : largest alignment of a layer between the first and the last, less the larger of these two's
    peak : the layer (from 1) with the largest alignment
    """
    if "alignment" not in table:
        return pd.DataFrame(columns=[*KIND, "seed", "epoch", "lead", "peak"])
    key = [*KIND, "seed", "epoch"]
    wide = table.pivot_table(index=key, columns="layer", values="alignment")
    rows = []
    for depth, some in wide.groupby(level="depth"):
        layers = some[[layer for layer in some if layer <= depth]].dropna()
        ends = layers[[1, depth]].max(axis=1)
        inner = layers.drop(columns=[1, depth]).max(axis=1)
        rows.append(pd.DataFrame({"lead": inner - ends, "peak": layers.idxmax(axis=1)}))
    found = pd.concat(rows).reset_index()
    learned = networks(table)[[*KIND, "seed"]]
    return found.merge(learned)


@once
def networks(table):
    """One row per network that learned: test accuracy of at least twice chance at the end.

    ``KIND``, seed; test_accuracy at the end; rise : how much the layer that ends highest gained from the
    start to the last record within two epochs; late : its change from there to the end.
    """
    rows = []
    for key, records in table.groupby([*KIND, "seed"], sort=False) if "alignment" in table else ():
        curves = records.pivot(index="epoch", columns="layer", values="alignment").sort_index()
        accuracy = records.loc[records["epoch"].idxmax(), "test_accuracy"]
        if accuracy >= LEARNED and curves.iloc[-1].notna().any():
            start, end = curves.iloc[0], curves.iloc[-1]
            early, peak = curves[curves.index <= EARLY].iloc[-1], end.idxmax()
            changes = {"rise": early[peak] - start[peak], "late": end[peak] - early[peak]}
            rows.append(dict(zip([*KIND, "seed"], key, strict=True)) | {"test_accuracy": accuracy} | changes)
    return pd.DataFrame(rows, columns=[*KIND, "seed", "test_accuracy", "rise", "late"])


def kind(parameters, dataset, depth=None, rate=None):
    """The values of ``KIND``; by default at the depth of Figures 2 and 7 and the rate of Figure 7."""
    rate = rate or parameters["learning_rate"]
    return {"dataset": dataset, "depth": depth or parameters["depth"], "learning_rate": rate}


def lead(table, parameters, epoch, column="lead", **which):
    """By how much the best hidden layer leads at the last record up to ``epoch``, by seed."""
    rows = at(leads(table), **kind(parameters, **which))
    rows = rows[rows["epoch"] <= epoch]
    return sample(rows.loc[rows.groupby("seed")["epoch"].idxmax()], column)


def of(column):
    """A reading: one column of :func:`networks` for the networks of a kind, by seed."""
    return lambda t, p, **which: sample(at(networks(t), **kind(p, **which)), column)


def early_gain(table, parameters, **which):
    """The gain of the layer that ends highest within two epochs, less the size of its later change."""
    return difference(of("rise")(table, parameters, **which), of("late")(table, parameters, **which).abs())


def title(dataset, depth):
    """``MNIST, 10 layers``."""
    return f"{called(dataset)}, {depth} layers"


data_sets = over("datasets", called, "dataset")
deep = over("deep_datasets", called, "dataset")
at_printed_rate = over("rate_datasets", called, "dataset")


def fast(table, parameters, epoch):
    """The lead at the rate of Figures 9 (c) and 10 (c), of the data set that shows it least, by seed."""
    if PRINTED_RATE not in parameters["rates"]:
        return None
    return least(partial(lead, epoch=epoch, rate=PRINTED_RATE), at_printed_rate)(table, parameters)


HEIGHT = {
    "above": 0, "matters": 0.005, "unit": "in alignment",
    "because": "smaller differences cannot be read from the curves of Figure 2",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "hidden", "At the end of training a hidden layer is better aligned than the first and the last.",
        source="Figures 2 and 7, Section 2.3", of=partial(lead, epoch=math.inf), each=data_sets,
        headline=True, **HEIGHT,
    ),
    Statement(
        "early", "It is so after two epochs, too: mean over the data sets.", source="Appendix B.4",
        of=pooled(partial(lead, epoch=EARLY), data_sets), **HEIGHT,
    ),
    Statement(
        "deep", "At the end of training a hidden layer of a deeper network is aligned best: the data set "
        "that shows it least.",
        source="Figure 1, Section 2.3", **HEIGHT,
        of=lambda t, p: least(partial(lead, epoch=math.inf, depth=p["deep"]), deep)(t, p),
    ),
    Statement(
        "rises", "The layer that ends highest gains more in the first two epochs than it changes later: the "
        "data set that shows it least.",
        source="Figure 2, Section 2.3, Appendix B.4", of=least(early_gain, data_sets), **HEIGHT,
    ),
    Statement(
        "fast", f"At the rate {PRINTED_RATE:g}, too, a hidden layer is aligned best: the data set that shows "
        "it least.",
        source="Section 2.3, Figures 9 (c) and 10 (c)", of=fast, **HEIGHT,
        each=lambda p: [
            Case("10", "epoch 10", {"epoch": STOPPED}),
            Case("end", "at the end", {"epoch": math.inf}),
        ],
        post_hoc="chosen when three networks at this rate had been seen",
    ),
]  # fmt: skip
