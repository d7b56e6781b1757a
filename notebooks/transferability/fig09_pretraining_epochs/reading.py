"""Accuracy after transfer by the epoch of pre-training: does it fall while the source still improves?"""

import pandas as pd

from companion.over_seeds import at, curves, difference, first, last
from companion.statements import Case, Statement

# Of pre-training: as the paper has it, and three that over-fit more and more.
SETTINGS = {
    "plain": "as it is",
    "label noise": "with label noise",
    "small": "with few images",
    "over-fitted": "over-fitted",
}
PLAIN = "plain"


def by_epoch(table, setting, column):
    """(seeds × epochs) frame of ``column`` in percent, for one of ``SETTINGS``."""
    return curves(at(table, setting=setting), "epoch", column)


def peaks(frame):
    """The epoch before the last at which the mean of the *other* seeds is largest, one per seed (a Series).

    The largest of a seed's own noisy values would lie above its last one by chance. A single seed: its own.
    """
    result = {}
    for seed in frame.index:
        others = frame.drop(index=seed) if len(frame) > 1 else frame
        result[seed] = others.mean().iloc[:-1].idxmax()
    return pd.Series(result, dtype=float)


def at_peak(table, setting, column):
    """``column`` at each seed's peak of accuracy after transfer, a sample; empty below three epochs."""
    accuracy, frame = by_epoch(table, setting, "accuracy"), by_epoch(table, setting, column)
    if accuracy.shape[1] < 3:
        return pd.Series(dtype=float)
    return pd.Series({seed: frame.loc[seed, epoch] for seed, epoch in peaks(accuracy).items()})


def rise(table, parameters, setting):
    """Accuracy after transfer at the peak less that at epoch 0, in points, by seed."""
    return difference(at_peak(table, setting, "accuracy"), first(by_epoch(table, setting, "accuracy")))


def fall(table, parameters, setting):
    """Accuracy after transfer at the peak less that at the last epoch, in points, by seed."""
    return difference(at_peak(table, setting, "accuracy"), last(by_epoch(table, setting, "accuracy")))


def upstream(table, parameters, setting):
    """Change of the source's test accuracy from that peak to the last epoch, in points, by seed."""
    column = "source_accuracy"
    return difference(last(by_epoch(table, setting, column)), at_peak(table, setting, column))


def among_settings(*names):
    """Cases: those of the parameter ``settings`` that are among ``names``."""
    return lambda parameters: [
        Case(name.replace(" ", "-"), f"pre-trained {SETTINGS[name]}", {"setting": name})
        for name in parameters["settings"]
        if name in names
    ]


RULE = {
    "source": "Figure 9, Section 5.2", "above": 0, "matters": 1.0, "unit": "points", "bounds": (-100, 100),
    "because": "2,000 test images give an accuracy to a point",
}  # fmt: skip
ENDS = {"each": among_settings(PLAIN, "over-fitted")} | RULE
STATEMENTS = [
    Statement(
        "rises", "With longer pre-training, accuracy after transfer first rises to a peak.", of=rise, **ENDS
    ),
    Statement(
        "falls", "Past its peak, accuracy after transfer falls again.", of=fall, headline=True,
        each=among_settings(*SETTINGS), **RULE,
    ),
    Statement("upstream", "From that peak on, accuracy on the source still rises.", of=upstream, **ENDS),
]  # fmt: skip


def curve(table, setting):
    """Tidy rows of one setting: ``seed``, ``epoch``, ``source_accuracy`` and ``accuracy``, percent."""
    return at(table, setting=setting)[["seed", "epoch", "source_accuracy", "accuracy"]]
