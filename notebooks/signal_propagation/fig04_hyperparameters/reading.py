"""Where and how high the alignment peaks, and the gaps, over rates and batches (Figures 4, 11 to 15)."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from companion.over_seeds import at, correlation, means, once
from companion.statements import Case, Number, Statement, among, least, pooled

from ..shared.names import called
from ..shared.stopping import GOAL
from .design import FAMILIES, SECOND

# Printed gaps on CIFAR-10, by panel. Of Figure 15's five loss gaps for four panels none can be told to belong
# to one.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
LOW = 3e-5  # rate over batch size, up to which a ratio is called low
KEYS = {"rate": "learning_rate", "batch": "batch_size"}
CHANGES = {"rate": "per doubling of the rate", "batch": "per halving of the batch"}
NETWORK = ["family", "dataset", *KEYS.values(), "seed"]
COLUMNS = [*NETWORK, "test_accuracy", "test_loss", "reached", "layers", "peak", "place", "height", "ratio"]
COLUMNS += ["accuracy_gap", "loss_gap"]


@once
def networks(table):
    """One row per network that has an alignment.

    ``NETWORK``, test_accuracy and test_loss; reached : whether the training loss came down to 0.1; layers :
    how many; peak : the layer (from 1) with the largest alignment; place : log2 of it; height : that
    alignment; ratio : learning rate over batch size; accuracy_gap : training less test accuracy, in points;
    loss_gap : test less training loss, in nats.
    """
    if not len(table):
        return pd.DataFrame(columns=COLUMNS)
    rows = table.reset_index(drop=True)
    rows = rows.assign(layers=rows.groupby(NETWORK)["layer"].transform("max")).dropna(subset="alignment")
    top = rows.loc[rows.groupby(NETWORK, sort=False)["alignment"].idxmax()]
    return top.assign(
        reached=top["train_loss"] <= GOAL,
        peak=top["layer"],
        place=np.log2(top["layer"]),
        height=top["alignment"],
        ratio=top["learning_rate"] / top["batch_size"],
        accuracy_gap=100 * (top["train_accuracy"] - top["test_accuracy"]),
        loss_gap=top["test_loss"] - top["train_loss"],
    )[COLUMNS]


def dense(table, every=False):
    """The fully connected networks that came down to the loss, or with ``every`` all of them."""
    nets = at(networks(table), family="dense")
    return nets if every else at(nets, reached=True)


def slopes(nets, axis, column):
    """Change of ``column`` per doubling of the rate, or per halving of the batch, by seed.

    Least squares over a seed's networks on log2 of the learning rate and of the batch size at once where both
    vary; no seed with fewer than two values along ``axis``.
    """
    result = {}
    for seed, rows in nets.groupby("seed"):
        varied = [name for name, key in KEYS.items() if rows[key].nunique() > 1]
        logs = np.log2(rows[[KEYS[name] for name in varied]].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(rows)), logs])
        if axis not in varied or np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        solved = np.linalg.lstsq(design, rows[column].to_numpy(dtype=float), rcond=None)[0]
        change = solved[1 + varied.index(axis)] * (1 if axis == "rate" else -1)
        result[seed] = round(float(change), 9) + 0.0  # peaks that all are the same: 0, not rounding
    return pd.Series(result, dtype=float).rename_axis("seed")


def title(family, parameters):
    """``VGG-19, CIFAR-10``."""
    dataset = parameters["second_dataset" if family in SECOND else "dataset"]
    return f"{FAMILIES[family][0]}, {called(parameters['dense_dataset'] if family == 'dense' else dataset)}"


def change(column):
    """A reading: how a column of the fully connected networks changes along an axis, by seed."""
    return lambda table, parameters, axis, every=False: slopes(dense(table, every), axis, column)


def follows_ratio(table, parameters):
    """Rank correlation of the ratio with the peak over a seed's fully connected networks, by seed."""
    nets = dense(table)
    return correlation(nets.assign(**nets.groupby("seed")[["ratio", "peak"]].rank()), "ratio", "peak")


def lower_loss(table, parameters, every=False):
    """Correlation of the peak's height with the test loss, its sign turned, by seed."""
    return -correlation(dense(table, every), "height", "test_loss")


axes = among("axis", CHANGES)
WHICH = [Case("reached", "networks that reached the loss", {}), Case("all", "all networks", {"every": True})]


def higher(table, parameters, every=False):
    """How the peak's height changes per doubling of the rate and per halving of the batch, their mean."""
    return pooled(partial(change("height"), every=every), axes)(table, parameters)


def smaller_gap(table, parameters):
    """The same of the gap in accuracy, its sign turned."""
    return -pooled(change("accuracy_gap"), axes)(table, parameters)


STATEMENTS = [
    Statement(
        "centre",
        "A higher learning rate or a smaller batch moves the peak from the early layers towards the centre.",
        source="Section 4, about Figure 4", of=change("place"), above=0, matters=0.1, each=axes,
        headline=True,
        unit="in log2 of the layer", because="a third of a layer over the sweep, at layer 3",
        opposed_by="in the captions of Figures 3 and 8 it shifts towards the input",
        post_hoc="made the main claim after these seeds were seen, because Section 4 says it about Figure 4",
    ),
    Statement(
        "higher", "A higher learning rate or a smaller batch makes the peak higher (mean of both).",
        source="Section 4",
        of=higher, above=0, matters=0.005, unit="in alignment", each=lambda p: WHICH,
        because="smaller differences cannot be read from the curves of Figure 4",
    ),
    Statement(
        "gap", "A higher learning rate or a smaller batch goes with a smaller gap in accuracy (mean of "
        "both).",
        source="Section 4, Figures 12 to 15", of=smaller_gap, above=0,
        matters=0.3, unit="points", because="a sixth of the slope over Figure 12's printed gaps",
    ),
    Statement(
        "loss", "With a higher peak goes a lower test loss, of all networks or those that reached the loss.",
        source="Section 4, about Figure 4",
        of=least(lower_loss, lambda p: WHICH), above=0, matters=0.3, bounds=(-1, 1),
        because="a correlation of 0.3 explains less than a tenth of the variance",
        opposed_by="in the caption of Figure 4 the height goes with a larger error",
    ),
    Statement(
        "ratio", "The peak follows the ratio of learning rate to batch size (rank correlation).",
        source="Section 4", of=follows_ratio, above=0, matters=0.3, bounds=(-1, 1), ours=True,
        because="a correlation of 0.3 explains less than a tenth of the variance",
        post_hoc="chosen when all networks had been seen",
    ),
]  # fmt: skip
NUMBERS = [
    Number("peak-high", "mean layer of the peak at the highest ratios",
           lambda t, p: means(dense(t)[dense(t)["ratio"] > LOW], "peak")),
]  # fmt: skip
