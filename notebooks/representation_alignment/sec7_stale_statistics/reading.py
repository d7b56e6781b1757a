"""How much alignment each arm loses, as it is left and with the target's statistics: measures, statements."""

import pandas as pd

from companion.over_seeds import at, difference
from companion.statements import Number, Statement

from .design import KEPT, LABELS, NONE, STATISTICS, TARGET


def measured(table, column, arm, statistics):
    """(seeds × pairs of source and target) frame of ``column``; empty where nothing was measured."""
    rows = at(table, kind="measured", arm=arm, statistics=statistics)
    if rows.empty:
        return pd.DataFrame()
    return rows.pivot(index="seed", columns=["start", "target"], values=column).dropna().astype(float)


def lost(table, arm, statistics):
    """(seeds × pairs) frame: area that ``arm`` has lost, in percent of the untouched network's."""
    whole, rest = (measured(table, "area", one, statistics) for one in (NONE, arm))
    return 100 * (1 - rest / whole).dropna()


def loss(arm, statistics):
    """Reading: the mean of :func:`lost` over the pairs, by seed."""
    return lambda table, parameters: lost(table, arm, statistics).mean(axis=1)


def raised(table, parameters):
    """Percent by which random labels raise alignment, with the target's statistics, by seed."""
    return -loss(LABELS, TARGET)(table, parameters)


def probe_lost(table, parameters):
    """Points that random labels cost a linear model, with the target's statistics, by seed."""
    both = (measured(table, "probe", arm, TARGET) for arm in (NONE, LABELS))
    return difference(*both).mean(axis=1)


AREA = {
    "above": 0, "matters": 5.0, "unit": "% of the area",
    "because": "a twentieth of the area could hardly be seen between two drawn curves",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "fair", "Random labels of another domain lower alignment, both networks measured with the target's "
        "batch statistics.", source="Section 7.3, Figure 16; the statistics are ours",
        of=loss(LABELS, TARGET), headline=True, **AREA,
    ),
    Statement(
        "kept", "They lower it when the network keeps the statistics of the source.",
        source="Section 7.3, Figure 16", of=loss(LABELS, KEPT), **AREA,
    ),
    Statement(
        "statistics", "The source's statistics alone lower it, with no weight changed.",
        source="ours", ours=True, of=loss(STATISTICS, KEPT), **AREA,
    ),
    Statement(
        "probe", "With the target's statistics, a linear model of the features is less accurate after random "
        "labels.", source="Section 7.3, Table 1; a linear model in place of fine-tuning",
        of=probe_lost, above=0, matters=2.0, unit="points",
        because="a few hundred test images give an accuracy to one or two points",
    ),
]  # fmt: skip
NUMBERS = [
    Number("raised", "alignment gained with the target's statistics", raised, unit="%"),
]
