"""What is lost before training by Equation 2, and what of it without the features' mean."""

from functools import partial

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, sample
from companion.statements import Number, Statement, among, crossed, least, over

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


def doublings(table, parameters):
    """:func:`slower` of the fully connected network on the first data set."""
    return slower(table, parameters, parameters["datasets"][0], "dense")


datasets, families = over("datasets", given="dataset"), among("family", FAMILIES)
cases = crossed(families, datasets)


def restored_on_all(table, parameters, family):
    """:func:`restored` on the data set that shows it least."""
    return least(partial(restored, family=family), datasets)(table, parameters)


AREA = {
    "above": 0, "matters": 5.0, "unit": "% of the inputs' area",
    "because": "a twentieth of the area could hardly be seen between two drawn curves",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "poor", "Before training, the last representation aligns less than the inputs (Equation 2): the "
        "family and data set that lose least.",
        source="Sections 5, 7.2 and 9", of=least(poor, cases), headline=True, **AREA,
    ),
    Statement(
        "restored", "More than half of this loss disappears when the features' mean is removed: the data "
        "set that shows it least.",
        source="ours", ours=True, of=restored_on_all, each=families, **AREA,
    ),
    Statement(
        "gained", "Training raises alignment without the mean, too.",
        source="Section 5; without the mean is ours", of=least(gained, datasets), **AREA,
    ),
    Statement(
        "slower", "With the mean, gradient descent at 1/σ_1² takes more than twice the steps.",
        source="Section 6; the comparison is ours", ours=True, of=least(slower, cases), above=0,
        matters=1.0, unit="doublings", because="twice the steps",
    ),
]  # fmt: skip


def share(column, state=BEFORE):
    """Reading: :func:`kept` of one data set and family."""
    return lambda table, parameters, dataset, family: kept(table, dataset, family, column, state)


NUMBERS = [
    Number("doublings", "steps with the mean over steps without", doublings, unit="doublings"),
    Number("kept", "area by Equation 2", share("area"), unit="% of the inputs'", each=cases),
    Number("centred", "area without the mean", share("centred"), unit="% of the inputs'", each=cases),
]
