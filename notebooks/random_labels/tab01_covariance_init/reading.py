"""Whether filters computed from the data help later training (Tables 1 to 7): measures, then statements."""

from pathlib import Path

import pandas as pd

from companion.over_seeds import at, difference
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


STANDARD, THREE, TWO_OR_THREE, ALL = ("standard",), (3,), (2, 3), (1, 2, 3)


def less_than_pretrained(table, parameters, epochs, count):
    """Accuracy of three computed layers (f1) less that of three pre-trained for ``epochs``, by seed."""
    cells, longer = (THREE, (count,)), parameters | {"pretrain_epochs": epochs}
    return difference(mean_of(table, parameters, "f1", *cells), mean_of(table, longer, "pretrained", *cells))


def each_layer(parameters):
    """A case for each further layer of Table 1, on training and on test images."""
    cases = []
    for part, words in PARTS.items():
        steps = [(*STANDARD, ALL, ITERATIONS, (part,)), *(("f1", (n,), ITERATIONS, (part,)) for n in ALL)]
        cases += [
            Case(f"{k}-{part}", f"from {k - 1} to {k}, {words}", {"one": steps[k], "other": steps[k - 1]})
            for k in ALL
        ]
    return cases


def each_pretraining(parameters):
    """A case for each number of steps, after the page's own pre-training and after a longer one."""
    return [
        Case(f"{count}{end}", f"{count} steps after {n} epochs", {"epochs": n, "count": count})
        for end, n in (("", parameters["pretrain_epochs"]), ("-longer", LONGER))
        for count in ITERATIONS
    ]


def pairs(**cells):
    """``each`` for statements on ``less``: {id: (words, one, other)}."""
    return lambda p: [Case(id, words, {"one": a, "other": b}) for id, (words, a, b) in cells.items()]


COMPARED = {"unit": "of accuracy", "paper": lambda p, one, other: printed_less(one, other)}
ABOVE = COMPARED | {
    "above": 0, "matters": SAME, "because": "accuracies within 0.02 count as the same: the tables print 0.01",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "f1-above-standard", "Three computed layers (f1) are better than random initialisation.",
        source="Table 1, Section 2.5", of=lambda t, p: less(t, p, ("f1", THREE), STANDARD), headline=True,
        **ABOVE | {"paper": lambda p: printed_less(("f1", THREE), STANDARD)},
    ),
    Statement(
        "f1-rises", "Accuracy rises with every further computed layer (f1).", source="Table 1", of=less,
        each=each_layer, **ABOVE,
    ),
    Statement(
        "f1-like-pretrained", "Three computed layers (f1) match three layers pre-trained on random labels.",
        source="Section 2.5; Tables 1 and 7", of=less_than_pretrained, near=0.0, within=SAME,
        unit="of accuracy", each=each_pretraining,
        opposed_by="Tables 1 and 7, which print 0.68 and 0.78 on training images after 1000 steps",
    ),
    Statement(
        "curves", "With two or three layers, the sequence of weights hardly matters.",
        source="Appendix E.3; Tables 1 to 3", of=less, near=0.0, within=SAME, **COMPARED,
        each=pairs(
            f1=("f1 less f2", ("f1", TWO_OR_THREE), ("f2", TWO_OR_THREE)),
            f3=("f3 less f2", ("f3", TWO_OR_THREE), ("f2", TWO_OR_THREE)),
        ),
    ),
    Statement(
        "sampled-like-f2", "Filters sampled from the covariance are as good as its eigenvectors (f2).",
        source="Table 4", of=lambda t, p: less(t, p, ("sampled",), ("f2",)), near=0.0, within=SAME,
        unit="of accuracy", paper=lambda p: printed_less(("sampled",), ("f2",)),
    ),
    Statement(
        "others-below-standard", "Other eigenvectors are worse than random initialisation.",
        source="Appendix E.3; Tables 5 and 6", of=less, **ABOVE,
        each=pairs(
            smallest=("those of the smallest eigenvalues", STANDARD, ("smallest",)),
            **{
                f"shifted-{count}": (
                    f"without the largest, {count} steps", (*STANDARD, ALL, (count,)),
                    ("shifted", ALL, (count,)),
                )
                for count in ITERATIONS
            },
        ),
    ),
    Statement(
        "shifted-below-f2", "Leaving out the largest eigenvectors is worse than using them.",
        source="Table 6", of=lambda t, p: less(t, p, ("f2",), ("shifted",)),
        **ABOVE | {"paper": lambda p: printed_less(("f2",), ("shifted",))},
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
