"""Whether Σ_w is aligned with Σ_x on Gaussian inputs (Proposition 1), and what breaks it."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, ratio, sample
from companion.statements import Case, Number, Statement, least, pooled

from .design import WORDS, one, settings, single, wide

WITHIN = 0.05  # of the misalignment with random bases
MEAN_WITHIN = 5e-4  # of the mean square length: a mean of 2 % of the filters' length


def words(condition):
    """How a sentence calls a condition."""
    if condition.startswith("one-"):
        return "one network, width {1}, {2} inputs".format(*condition.split("-"))
    return WORDS.get(condition, condition.replace("-", " "))


def averaged(parameters):
    """The conditions in which networks are averaged, in the order of ``settings``."""
    return [name for name in settings(parameters) if name not in single(parameters)]


def measured(table, condition, column):
    """``column`` of the rows of kind ``misalignment`` of one condition, by seed."""
    return sample(at(table, kind="misalignment", condition=condition), column)


def left(own, floor, bases):
    """What is left of the misalignment ``bases``, both beyond ``floor``: 0 aligned, 1 not at all."""
    return ratio(difference(own, floor), difference(bases, floor))


def share(table, parameters, condition):
    """What is left of the misalignment with random bases."""
    return left(*(measured(table, condition, column) for column in ("misalignment", "floor", "random")))


def share_alone(table, parameters, condition):
    """The same of single networks, each alone; the floor is of filters drawn one by one."""
    return left(*(measured(table, condition, column) for column in ("alone", "alone_floor", "alone_random")))


def by_inputs(table, parameters):
    """What is left of single networks on the fewest inputs less what is left on the most."""
    width, inputs = parameters["wide"][-1], parameters["alone_inputs"]
    shares = (share_alone(table, parameters, one(width, count)) for count in (min(inputs), max(inputs)))
    return difference(*shares)


def by_width(table, parameters):
    """What is left of the narrowest single networks less what is left of the widest."""
    widths, inputs = parameters["alone_widths"], parameters["inputs"]
    narrow, widest = (
        share_alone(table, parameters, one(width, inputs)) for width in (min(widths), max(widths))
    )
    return difference(narrow, widest)


def alone(table, parameters):
    """Frame of ``width``, ``inputs``, ``seed`` and ``left``, in percent, of single networks."""
    return pd.concat(
        (100 * share_alone(table, parameters, name))
        .rename("left")
        .reset_index()
        .assign(width=width, inputs=inputs)
        for name, (width, inputs) in single(parameters).items()
    )


def equality(table, parameters):
    """0: Σ_w is aligned with a Σ_x that has equal eigenvalues; 1: as far from it as where they differ."""
    own, floor = (measured(table, "repeated", column) for column in ("misalignment", "floor"))
    return left(own, floor, measured(table, "plain", "merged"))


def of(*conditions):
    """``each``: cases for these conditions."""
    return lambda parameters: [Case(name, words(name), {"condition": name}) for name in conditions]


UNIT = "of random axes’"
ALIGNED = {"near": 0, "within": WITHIN, "unit": UNIT}
BROKEN = {
    "above": 0, "matters": WITHIN, "unit": UNIT, "ours": True,
    "because": "a twentieth of what a random basis shows, the margin within which others count as aligned",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "aligned", "The covariance of the trained weights is aligned with that of the inputs.",
        source="Proposition 1 (2)", of=share, each=of("plain"), headline=True, **ALIGNED,
    ),
    Statement(
        "mean", "The trained weights have mean zero (its squared length is measured).",
        source="Proposition 1 (1)", of=lambda t, p: measured(t, "plain", "mean_square"), near=0,
        within=MEAN_WITHIN, unit="of the mean squared length",
    ),
    Statement(
        "equal", "Where eigenvalues of the inputs' covariance are equal, so are those of the weights'.",
        source="Definition 1, Proposition 1", of=equality, near=0, within=WITHIN, unit="of where they differ",
    ),
    Statement(
        "others", "The alignment also holds at other widths and with another loss (their mean).",
        source="Section 2.2, Proposition 1; Appendix C",
        of=pooled(share, lambda p: of("squared", *map(wide, p["wide"]))(p)), **ALIGNED,
    ),
    Statement(
        "optimiser", "The alignment also holds with an adaptive optimiser.", source="Appendix C, a remark",
        of=share, each=of("adam"), **ALIGNED,
    ),
    Statement(
        "without", "Without any one of the assumptions, the weights are misaligned (the least of three).",
        source="Proposition 1: isotropic initial weights, centred inputs; Appendix C: the optimisers",
        of=least(share, of("stretched", "shifted", "exponentiated")), **BROKEN,
    ),
    Statement(
        "inputs", "What is left of the misalignment of one wide network falls with the number of its inputs.",
        source="the remark after Proposition 1", of=by_inputs, **BROKEN,
    ),
    Statement(
        "wider", "What is left of it falls with the network's width.",
        source="the remark after Proposition 1", of=by_width,
        above=0, matters=WITHIN, unit=UNIT, because=BROKEN["because"],
    ),
]  # fmt: skip
NUMBERS = [
    Number("left", "misalignment left", share, each=lambda p: of(*averaged(p))(p)),
    Number(
        "alone", "misalignment left in one network alone", share_alone, paper="0 if infinitely wide",
        each=lambda p: of(*single(p))(p),
    ),
]  # fmt: skip


def correlations(table, condition):
    """Mean over the seeds of |correlation| of the weights along two eigenvectors of Σ_x, (d, d), 0 on the
    diagonal; None without results."""
    found, entries = [], at(table, kind="entry", condition=condition)
    for _, rows in entries.groupby("seed") if len(entries) else ():
        half = rows.pivot(index="row", columns="column", values="value").to_numpy()
        scale = np.sqrt(np.diag(half))
        half = np.triu(np.abs(half / np.outer(scale, scale)), 1)
        found.append(half + half.T)
    return np.mean(found, axis=0) if found else None


def deviations(table, condition):
    """(seeds × directions) frame of the weights' root mean square along the eigenvectors of Σ_x, τ."""
    entries = at(table, kind="entry", condition=condition)
    own = entries[entries["row"] == entries["column"]] if len(entries) else entries
    return np.sqrt(curves(own, "row", "value"))
