"""Does pre-training change the squared gradient by Theorem 1's term, and where does that make it smaller?"""

import numpy as np
import pandas as pd

from companion.over_seeds import at, sample
from companion.statements import Number, Statement, least, over
from companion.studies.transferability.shared.by_seed import over_sets, per_seed, widest
from companion.studies.transferability.shared.target_rows import words

MARGIN = 0.05  # of y_Q'y_Q, and of the coefficient's 1
THEOREM_RATE = 0.25  # Theorem 1: the error of finite width is of order m^-1/4


def judged_rows(table, parameters):
    """Rows of the κ in the middle of those asked for."""
    kappas = sorted(parameters["kappas"])
    return at(table, kappa=kappas[len(kappas) // 2])


def coefficient(rows):
    """Regression through 0 of the measured change on the theorem's term, over the targets."""
    return (rows["change"] * rows["term"]).sum() / (rows["term"] ** 2).sum()


def distance(rows, one="change", other="term"):
    """Root mean square over the targets of the difference of two columns."""
    return ((rows[one] - rows[other]) ** 2).mean() ** 0.5


def rate(rows, column):
    """-d log distance / d log m from ``column``, least squares over the widths; NaN with a single width."""
    by_width = pd.Series({m: distance(part, other=column) for m, part in rows.groupby("width")})
    if len(by_width) < 2:
        return np.nan
    return -np.polyfit(np.log(by_width.index.to_numpy(float)), np.log(by_width.to_numpy()), 1)[0]


def on_term(table, parameters, dataset):
    """:func:`coefficient` at the largest m, by seed."""
    return over_sets(per_seed(at(widest(judged_rows(table, parameters)), dataset=dataset), coefficient))


def width_rate(table, parameters):
    """:func:`rate` of the part of the error that the width alone makes."""
    return over_sets(per_seed(judged_rows(table, parameters), lambda rows: rate(rows, "adjusted")))


def kappa_rate(table, parameters):
    """Exponent of κ, between the two largest, in what κ adds to the limit; None with a single κ."""
    if len(parameters["kappas"]) < 2:
        return None
    small, large = sorted(parameters["kappas"])[-2:]
    parts = [
        over_sets(per_seed(at(widest(table), kappa=kappa), lambda rows: distance(rows, "adjusted", "term")))
        for kappa in (small, large)
    ]
    return np.log(parts[1] / parts[0]) / np.log(large / small)


def change(table, parameters, dataset, family):
    """Change at the largest m, by seed, for the same classes ("rotated", at the smallest angle) or for the
    most labels turned around ("flipped").
    """
    rows = at(widest(judged_rows(table, parameters)), dataset=dataset, family=family)
    step = rows["step"].min() if family == "rotated" else rows["step"].max()
    return sample(at(rows, step=step), "change")


each_set = over("datasets", words, "dataset")
SIZE = {
    "above": 0, "matters": MARGIN, "unit": "of y_Q'y_Q", "source": "Section 6.2",
    "because": "smaller changes count as none",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "term", "The change of the squared gradient is the theorem's term (measured over predicted change).",
        source="Theorem 1", of=on_term, near=1, within=MARGIN, headline=True,
        each=each_set,
        post_hoc="judged for each data set when three seeds had been seen",
    ),
    Statement(
        "similar", "On every data set, pre-training on the same classes lowers the squared gradient.",
        of=least(lambda t, p, dataset: -change(t, p, dataset, "rotated"), each_set), **SIZE,
    ),
    Statement(
        "reverse", "On every data set, pre-training on reversed labels raises the squared gradient.",
        of=least(lambda t, p, dataset: change(t, p, dataset, "flipped"), each_set), **SIZE,
    ),
    Statement(
        "width-rate", "The part of the error due to the width falls at least as fast as m^(-1/4).",
        source="Theorem 1, third term", of=width_rate, ours=True, above=THEOREM_RATE, matters=0.05,
        unit="exponent", because="a fifth of the exponent",
    ),
    Statement(
        "kappa-rate", "The rest of the error grows linearly with κ.",
        source="Theorem 1, fourth term", of=kappa_rate, near=1, within=0.3, unit="exponent", ours=True,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "distance",
        "root mean square distance from the term, over y_Q'y_Q",
        lambda t, p: over_sets(per_seed(widest(judged_rows(t, p)), distance)),
    ),
]
