"""Whether filters computed from the data help later training (Tables 1 to 7): measures, then statements."""

from pathlib import Path

import pandas as pd

from companion.over_seeds import at, difference, weakest
from companion.statements import Case, Number, Statement, among

from .design import PRETRAINING, VARIATIONS

# Table 1 is in Section 2.5, the others in Appendix E.3; each line of a table is a row of printed.csv. The
# column {} (layers 0) is He's initialisation everywhere and the same in all seven.
TABLES = dict(enumerate("f1 f2 f3 sampled smallest shifted pretrained".split(), 1))
CELL = ["initialisation", "layers", "iterations", "part"]
PRINTED = (
    pd.read_csv(Path(__file__).with_name("printed.csv"))
    .melt(["table", "iterations", "part"], var_name="layers", value_name="paper")
    .astype({"layers": int})
    .assign(initialisation=lambda rows: rows["table"].map(TABLES).where(rows["layers"] > 0, "standard"))
)
PAPER = PRINTED.drop_duplicates(CELL).set_index(CELL)["paper"].sort_index()
ITERATIONS = (100, 1000)
PARTS = {"train": "training images", "test": "test images"}
LONGER = 120  # epochs: the longer of the two pre-trainings that are compared
VARIED = {key for change, *_ in (*VARIATIONS, *PRETRAINING.values()) for key in change}
SAME = 0.02  # of accuracy, fixed before the runs: the tables print 0.01


def jobs_with(table, parameters, **change):
    """The rows of the jobs that have the page's ``parameters`` but for ``change``.

    ``rescaled`` False: pre-trained layers were handed over as they were, and not scaled back.
    """
    rows, given = at(table, **change), {"rescaled": True} | {key: parameters[key] for key in VARIED}
    for key in set(given) & set(rows) - set(change):
        rows = rows[rows[key].isna() | (rows[key] == given[key])]  # NaN where a job has no use for it
    return rows


def accuracies(table, parameters, **change):
    """(seeds × cells) frame of the accuracies of :func:`jobs_with`; NaN where a run diverged."""
    rows = jobs_with(table, parameters, **change)
    if "train" not in rows:  # nothing has finished
        return pd.DataFrame()
    parts = rows.melt(["seed", *CELL[:-1]], ["train", "test"], "part", "accuracy")
    return parts.pivot_table(index="seed", columns=CELL, values="accuracy")


def cells_of(initialisation, layers=(1, 2, 3), iterations=ITERATIONS, parts=PARTS):
    """The cells named; of the column {} whatever the ``layers``."""
    layers = (0,) if initialisation == "standard" else layers
    return pd.MultiIndex.from_product([[initialisation], layers, iterations, parts], names=CELL)


def mean_of(table, parameters, *cells):
    """Mean accuracy over the cells of :func:`cells_of`, by seed; of none where one was not run."""
    found = accuracies(table, parameters).reindex(columns=cells_of(*cells))
    return found.mean(axis=1, skipna=False).dropna()


def printed_mean(*cells):
    """The same of the printed accuracies."""
    return float(PAPER.loc[cells_of(*cells)].mean())


def less(table, parameters, one, other):
    """Accuracy in the cells ``one`` less that in the cells ``other``, each arguments of :func:`cells_of`."""
    return difference(mean_of(table, parameters, *one), mean_of(table, parameters, *other))


def printed_less(one, other):
    """The same of the printed accuracies."""
    return printed_mean(*one) - printed_mean(*other)


def fitted(table, parameters, **change):
    """Share of the random labels that pre-training fits, mean over the runs that stored it, or NaN.

    Runs at the rate of the later training store none; the look that hands the same network over without
    scaling back, with products in float32, has it.
    """
    rows = at(table, initialisation="pretrained").drop(columns=["rescaled", "precision"], errors="ignore")
    return jobs_with(rows, parameters, **change).get("random_labels", pd.Series(dtype=float)).mean()


STANDARD, THREE, ALL = ("standard",), (3,), (1, 2, 3)


def less_than_pretrained(table, parameters, epochs):
    """Accuracy of three computed layers (f1) less that of three pre-trained for ``epochs``, by seed."""
    longer = parameters | {"pretrain_epochs": epochs}
    return difference(mean_of(table, parameters, "f1", THREE), mean_of(table, longer, "pretrained", THREE))


def rises(table, parameters, part):
    """Of three further computed layers (f1) the rise of the one that shows least, by seed."""
    steps = [(*STANDARD, ALL, ITERATIONS, (part,)), *(("f1", (n,), ITERATIONS, (part,)) for n in ALL)]
    return weakest(*(less(table, parameters, *pair) for pair in zip(steps[1:], steps, strict=False)))


def each_pretraining(parameters):
    """A case for the page's own pre-training and one for a longer one."""
    lengths = {"own": parameters["pretrain_epochs"], "longer": LONGER}
    return [Case(id, f"after {epochs} epochs", {"epochs": epochs}) for id, epochs in lengths.items()]


SHIFTED = [((*STANDARD, ALL, (count,)), ("shifted", ALL, (count,))) for count in ITERATIONS]
ABOVE = {
    "above": 0, "matters": SAME, "unit": "of accuracy",
    "because": "accuracies within 0.02 count as the same: the tables print 0.01",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "f1-above-standard", "Three computed layers (f1) are better than random initialisation.",
        source="Table 1, Section 2.5", of=lambda t, p: less(t, p, ("f1", THREE), STANDARD), headline=True,
        paper=lambda p: printed_less(("f1", THREE), STANDARD), **ABOVE,
    ),
    Statement(
        "f1-rises", "Accuracy rises with every further computed layer (f1); the smallest rise.",
        source="Table 1", of=rises, each=among("part", PARTS), **ABOVE,
    ),
    Statement(
        "f1-like-pretrained", "Three computed layers (f1) match three layers pre-trained on random labels.",
        source="Section 2.5; Tables 1 and 7", of=less_than_pretrained, near=0.0, within=SAME,
        unit="of accuracy", each=each_pretraining,
        opposed_by="Tables 1 and 7, which print 0.68 and 0.78 on training images after 1000 steps",
    ),
    Statement(
        "sampled-like-f2", "Filters sampled from the covariance are as good as its eigenvectors (f2).",
        source="Tables 2 and 4", of=lambda t, p: less(t, p, ("sampled",), ("f2",)), near=0.0, within=SAME,
        unit="of accuracy", paper=lambda p: printed_less(("sampled",), ("f2",)),
    ),
    Statement(
        "smallest", "The eigenvectors of the smallest eigenvalues are worse than random initialisation.",
        source="Appendix E.3; Table 5", of=lambda t, p: less(t, p, STANDARD, ("smallest",)),
        paper=lambda p: printed_less(STANDARD, ("smallest",)), **ABOVE,
    ),
    Statement(
        "shifted", "Without the largest eigenvectors it is worse, too, after 100 and after 1000 steps.",
        source="Appendix E.3; Table 6", of=lambda t, p: weakest(*(less(t, p, *pair) for pair in SHIFTED)),
        paper=lambda p: min(printed_less(*pair) for pair in SHIFTED), **ABOVE,
    ),
]  # fmt: skip
ROWS = {name: f"three layers, table {number}" for number, name in TABLES.items()} | {"standard": "none"}
NUMBERS = [
    Number(
        "three", "accuracy with three layers, mean over steps, training and test",
        lambda t, p, name: mean_of(t, p, name, THREE), paper=lambda p, name: printed_mean(name, THREE),
        each=among("name", ROWS), bounds=(0, 1),
    ),
    Number("fitted", "share of the random labels that pre-training fits", lambda t, p: [fitted(t, p)]),
]  # fmt: skip
