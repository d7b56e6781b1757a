"""What is lost before training by Equation 2, and what of it without the features' mean."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, rank_correlation, sample
from companion.statements import Case, Number, Statement, over

from .design import AFTER, BEFORE, FAMILIES, INPUTS, NETWORKS


def last(table, dataset, family, column, state=BEFORE):
    """``column`` of the last representation of a family (deepest layer or network, widest), by seed."""
    rows = at(table, dataset=dataset, family=family, state=state)
    return sample(rows[rows["step"] == rows["step"].max()], column)


def kept(table, dataset, family, column, state=BEFORE):
    """Area of a family's last representation over that of the inputs, percent, by seed."""
    return 100 * last(table, dataset, family, column, state) / last(table, dataset, INPUTS, column)


def poor(table, parameters, dataset, family):
    """Percent of the inputs' area (Equation 2) that is lost."""
    return 100 - kept(table, dataset, family, "area")


def restored(table, parameters, dataset, family):
    """Percent lost by Equation 2, less twice what is lost without the mean: above 0, more than half goes."""
    return poor(table, parameters, dataset, family) - 2 * (100 - kept(table, dataset, family, "centred"))


def gained(table, parameters, dataset):
    """By how much training raises the last hidden layer's centred area, in percent of the inputs'."""
    return difference(*(kept(table, dataset, "dense", "centred", state) for state in (AFTER, BEFORE)))


def slower(table, parameters, dataset, family):
    """log2 of the steps of gradient descent with the mean over those without."""
    return np.log2(last(table, dataset, family, "steps") / last(table, dataset, family, "steps_centred"))


def shares(table):
    """Each representation's ``share`` of what the inputs have, percent, by ``measure``.

    ``floor``, with shuffled labels, is a share of the inputs' centred area.
    """
    keys = ["dataset", "seed"]
    found = table[table["family"] != INPUTS]
    inputs = at(table, family=INPUTS).set_index(keys)
    tables = []
    for measure in ("area", "centred", "floor"):
        whole = inputs["centred" if measure == "floor" else measure].rename("whole")
        rows = found.join(whole, on=keys)
        tables.append(rows.assign(measure=measure, share=100 * rows[measure] / rows["whole"]))
    found = pd.concat(tables, ignore_index=True)
    named = found["network"] if "network" in found else pd.Series(np.nan, found.index)
    return found.assign(name=named.map(NETWORKS).fillna(found["step"].astype(str) + " features"))


def off_centre(table):
    """Untrained representations, with ``smaller``: Equation 2's area over the centred one.

    ``expected`` : √(1 − m²), m the length of the mean of the rows scaled to length one
    """
    rows = table[(table["family"] != INPUTS) & (table["state"] == BEFORE)]
    return rows.assign(smaller=rows["area"] / rows["centred"], expected=np.sqrt(1 - rows["mean"] ** 2))


def as_expected(table, parameters, dataset, family):
    """Equation 2's area over √(1 − m²) times the centred one, geometric mean over a family, by seed."""
    rows = at(off_centre(table), dataset=dataset, family=family)
    return np.exp(np.log(rows["smaller"] / rows["expected"]).groupby(rows["seed"]).mean())


def doublings(table, parameters):
    """:func:`slower` of the fully connected network on the first data set."""
    return slower(table, parameters, parameters["datasets"][0], "dense")


def predicted(table, parameters, dataset):
    """Rank correlation of the mean's length with the area of Equation 2, over untrained representations."""
    rows = at(table, dataset=dataset, state=BEFORE)
    if rows.empty:
        return pd.Series(dtype=float)
    rows = rows.assign(place=rows["family"] + rows["step"].astype(str))
    frames = [rows.pivot(index="seed", columns="place", values=column) for column in ("mean", "area")]
    return -rank_correlation(*frames)


def cases(parameters):
    """Data sets × families."""
    return [
        Case(f"{family}-{dataset}", f"{words}, {dataset}", {"dataset": dataset, "family": family})
        for dataset in parameters["datasets"]
        for family, words in FAMILIES.items()
    ]


datasets = over("datasets", given="dataset")


AREA = {
    "above": 0, "matters": 5.0, "unit": "% of the inputs' area",
    "because": "a twentieth of the area could hardly be seen between two drawn curves",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "poor", "Before training, the last representation aligns less than the inputs (Equation 2).",
        source="Sections 5, 7.2 and 9", of=poor, each=cases, headline=True, **AREA,
    ),
    Statement(
        "restored", "More than half of this loss disappears when the features' mean is removed.",
        source="ours", ours=True, of=restored, each=cases, **AREA,
    ),
    Statement(
        "gained", "Training raises alignment without the mean, too.",
        source="Section 5; without the mean is ours", of=gained, each=datasets, **AREA,
    ),
    Statement(
        "slower", "With the mean, gradient descent at 1/σ_1² takes more than twice the steps.",
        source="Section 6; the comparison is ours", ours=True, of=slower, each=cases, above=0, matters=1.0,
        unit="doublings", because="twice the steps",
    ),
]  # fmt: skip


def share(column, state=BEFORE):
    """Reading: :func:`kept` of one data set and family."""
    return lambda table, parameters, dataset, family: kept(table, dataset, family, column, state)


NUMBERS = [
    Number(
        "predicted",
        "rank correlation of the unit rows' mean length with the loss of Equation 2's area",
        predicted,
        each=datasets,
        bounds=(-1, 1),
    ),
    Number(
        "law", "Equation 2's area over √(1 − m²) times the area without the mean", as_expected, each=cases
    ),
    Number("doublings", "steps with the mean over steps without", doublings, unit="doublings"),
    Number("kept", "area by Equation 2", share("area"), unit="% of the inputs'", each=cases),
    Number("centred", "area without the mean", share("centred"), unit="% of the inputs'", each=cases),
]
