"""Do random labels of one domain harm alignment with another, and accuracy there? (Figure 16 and Table 1)"""

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, rank_correlation, weakest
from companion.statements import Case, Statement

from .design import DOMAINS, NONE

# Table 1: start (the source), target, accuracy in percent.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))


def pairs(parameters):
    """[(source, target)], all six ordered pairs of domains; the larger source of a target comes first."""
    return list(permutations(DOMAINS[parameters["domains"]], 2))


def values(table, kind, column, target):
    """(seeds × sources) frame of ``column`` on one target; one of the sources is ``none``."""
    return curves(at(table, kind=kind, target=target), "start", column)


def falls(table, parameters, kind):
    """(seeds × pairs) frame of what a source costs its target; of runs that have all pairs.

    kind : ``area``, in percent of the area without a source; ``accuracy``, in points
    """
    found = {}
    for start, target in pairs(parameters):
        own = values(table, kind, kind, target)
        if not {NONE, start} <= set(own):
            return pd.DataFrame()
        fall = difference(own[NONE], own[start])
        found[f"{start}-{target}"] = 100 * fall / own[NONE] if kind == "area" else fall
    return pd.DataFrame(found).dropna().rename_axis("seed")


def fall(table, parameters, kind, every):
    """The fall on average over the pairs, or (``every``) of the pair that shows one least."""
    found = falls(table, parameters, kind)
    return weakest(*(found[pair] for pair in found)) if every else found.mean(axis=1)


def ranks(table, parameters):
    """Rank correlation over the six pairs between both falls, by seed."""
    return rank_correlation(*(falls(table, parameters, kind) for kind in ("area", "accuracy")))


def printed_falls(domains="office31"):
    """The falls of accuracy in Table 1, {pair: points}."""
    wide = PRINTED.pivot(index="target", columns="start", values="accuracy")
    return {
        f"{s}-{t}": float(wide.loc[t, NONE] - wide.loc[t, s]) for s, t in permutations(DOMAINS[domains], 2)
    }


def over_pairs(kind):
    """Cases: the mean over the pairs, and every pair by itself."""
    return lambda p: [
        Case("mean", "on average over the six pairs", {"kind": kind, "every": False}),
        Case("every", "in every pair, by the one that shows it least", {"kind": kind, "every": True}),
    ]


STATEMENTS = [
    Statement(
        "alignment", "Pre-training on random labels of another domain reduces alignment with the target.",
        source="Figure 16, Section 7.3", of=fall, each=over_pairs("area"), headline=True,
        above=0, matters=5.0, unit="% of the area",
        because="a twentieth of the area that is there could hardly be seen between two drawn curves",
    ),
    Statement(
        "accuracy", "It reduces the accuracy on the target after fine-tuning.",
        source="Table 1, Section 7.3", of=fall, each=over_pairs("accuracy"), above=0, matters=1.0,
        unit="points", because="some 400 to 1,000 test images give an accuracy to one or two points",
        paper=lambda p, kind, every: (min if every else np.mean)(list(printed_falls().values())),
    ),
    Statement(
        "ranks", "The more a source reduces alignment, the more it reduces accuracy: rank correlation of the "
        "six pairs.",
        source="Figure 16, Table 1, Section 7.3", of=ranks, above=0, matters=0.11, unit="rank correlation",
        because="two exchanges of neighbours among six ranks change it by 0.11", bounds=(-1, 1),
    ),
]  # fmt: skip
