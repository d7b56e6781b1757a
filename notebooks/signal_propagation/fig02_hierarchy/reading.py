"""When the layers' alignments rise, and which layer leads when (Figures 1, 2, 7, 9 and 10)."""

import math
from pathlib import Path

import pandas as pd

from companion.over_seeds import at, difference, once, sample
from companion.statements import Case, Number, Statement, over

from ..shared.names import LEARNED, called

EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
STOPPED = 10.0  # epochs after which the test losses at rate 0.05 are nearest to the printed ones
PRINTED_RATE = 0.05  # of Figures 9 (c) and 10 (c), whose captions can be read
_ALL = pd.read_csv(Path(__file__).with_name("printed.csv"))
PRINTED = at(_ALL, learning_rate=PRINTED_RATE).set_index("dataset")
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


def moved(table, parameters, dataset):
    """By how many layers the peak at the highest rate lies before that at the lowest, by seed."""
    low, high = min(parameters["rates"]), max(parameters["rates"])
    peaks = [lead(table, parameters, math.inf, "peak", dataset=dataset, rate=rate) for rate in (low, high)]
    return difference(*peaks) if low < high else None


def title(dataset, depth):
    """``MNIST, 10 layers``."""
    return f"{called(dataset)}, {depth} layers"


data_sets = over("datasets", called, "dataset")


def times(*epochs, names="datasets", **which):
    """Cases: each data set of the parameter ``names`` at each of ``epochs``."""

    def cases(parameters):
        return [
            Case(f"{d}-{words.split()[-1]}", f"{called(d)}, {words}", {"dataset": d, "epoch": epoch, **which})
            for words, epoch in epochs
            for d in parameters[names]
            if names != "rate_datasets" or PRINTED_RATE in parameters["rates"]
        ]

    return cases


def deep(parameters):
    return [
        Case(d, title(d, parameters["deep"]), {"dataset": d, "depth": parameters["deep"], "epoch": math.inf})
        for d in parameters["deep_datasets"]
    ]


def printed(parameters):
    """A case per data set whose accuracy the paper prints at a rate that was asked for."""
    asked = PRINTED_RATE in parameters["rates"]
    return [
        Case(d, called(d), {"dataset": d, "rate": PRINTED_RATE})
        for d in parameters["rate_datasets"]
        if asked and d in PRINTED.index
    ]


HEIGHT = {
    "above": 0, "matters": 0.005, "unit": "in alignment",
    "because": "smaller differences cannot be read from the curves of Figure 2",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "hidden", "A hidden layer is better aligned than the first and the last layer.",
        source="Figures 2 and 7, Section 2.3", of=lead, headline=True, **HEIGHT,
        each=times(("epoch 2", EARLY), ("at the end", math.inf)),
    ),
    Statement(
        "deep", "At the end of training a hidden layer of a deeper network is aligned best.",
        source="Figure 1, Section 2.3", of=lead, each=deep, **HEIGHT,
    ),
    Statement(
        "rises", "The layer that ends highest gains more in the first two epochs than it changes later.",
        source="Figure 2, Section 2.3, Appendix B.4", of=early_gain, each=data_sets, **HEIGHT,
    ),
    Statement(
        "fast", f"At the rate {PRINTED_RATE:g}, too, a hidden layer is aligned best.",
        source="Section 2.3, Figures 9 (c) and 10 (c)", of=lead, **HEIGHT,
        each=times(("epoch 10", STOPPED), ("at the end", math.inf), names="rate_datasets", rate=PRINTED_RATE),
        post_hoc="chosen when three networks at this rate had been seen",
    ),
    Statement(
        "earlier", "A higher learning rate moves the peak towards the input.", source="Figures 3 and 8",
        of=moved, above=0, matters=0.5, unit="layers", each=over("rate_datasets", called, "dataset"),
        opposed_by="in Section 4, about Figure 4, it shifts towards the centre, which for an early peak is "
        "away from the input",
        because="a peak is a whole layer, so half a layer is no move",
    ),
    Statement(
        "printed", "One of our runs could have given the printed test accuracy at rate 0.05.",
        source="Figures 9 (c) and 10 (c)", of=of("test_accuracy"), bounds=(0, 1), each=printed,
        one_run=lambda p, dataset, rate: PRINTED["test_accuracy"][dataset],
    ),
]  # fmt: skip
NUMBERS = [
    Number("first", "layer of largest alignment at the end",
           lambda t, p, dataset: lead(t, p, math.inf, "peak", dataset=dataset), each=data_sets),
]  # fmt: skip
