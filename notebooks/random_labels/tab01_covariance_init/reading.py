"""Whether filters computed from the data help later training, beside what is printed (Tables 1 to 7)."""

from pathlib import Path

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference
from alignbook.statements import Case, Requirement, Statement

# All 112 printed accuracies: table, initialisation, layers, iterations, part, paper. The column {} (layers 0)
# is the same in all seven tables. Table 1 is in Section 2.5, the others in Appendix E.3.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
CELL = ["initialisation", "layers", "iterations", "part"]
PAPER = PRINTED.drop_duplicates(CELL).set_index(CELL)["paper"].sort_index()
TABLES = PRINTED[PRINTED["layers"] > 0].groupby("table")["initialisation"].first().to_dict()
TITLES = {"standard": "the column {} (He's initialisation everywhere)"}
TITLES |= {name: f"table {number}" for number, name in TABLES.items()}
COUNTS = (100, 1000)  # iterations, as printed
SAME = 0.02  # of accuracy, fixed before the runs: the tables print 0.01
VARIED = (  # parameters of which some units have a value of their own
    "schedule padding pool init_scale filter_scale centred patch_stride first_number pretrain_epochs "
    "pretrain_rate precision"
).split()


def _differs(table, parameters):
    """Where a unit has not the value that ``parameters`` have: a boolean frame, a column per parameter."""
    given = {key: parameters[key] for key in VARIED} | {"rescaled": True}
    found = {key: table[key].notna() & (table[key] != value) for key, value in given.items() if key in table}
    return pd.DataFrame(found, index=table.index)


def changes(table, parameters):
    """For each row how its unit differs from ``parameters``: a Series of dicts, empty for the page's own.

    ``rescaled`` False: pre-trained layers were handed over as they were, and not scaled back.
    """
    differs = _differs(table, parameters)
    found = [
        {key: table[key].iloc[place] for key in differs.columns[row]}
        for place, row in enumerate(differs.to_numpy())
    ]
    return pd.Series(found, table.index, dtype=object)


def accuracies(table):
    """One accuracy per row: the columns of ``CELL``, seed, accuracy, and changed where ``table`` has it."""
    if "train" not in table:  # nothing has finished
        return pd.DataFrame(columns=[*CELL, "seed", "accuracy"])
    kept = [name for name in (*CELL[:-1], "seed", "changed") if name in table]
    return table.melt(id_vars=kept, value_vars=["train", "test"], var_name="part", value_name="accuracy")


def own(table, parameters):
    """The rows of the units that have the page's own parameters throughout."""
    return table[~_differs(table, parameters).any(axis=1)]


def own_cells(table, parameters):
    """(seeds × cells) frame of the tables' own accuracies; NaN where a run diverged."""
    return accuracies(own(table, parameters)).pivot_table(index="seed", columns=CELL, values="accuracy")


def cells_of(initialisation, layers=(1, 2, 3), iterations=COUNTS):
    """The cells named, training and test."""
    return pd.MultiIndex.from_product([[initialisation], layers, iterations, ["train", "test"]], names=CELL)


def average(cells, wanted):
    """Mean over the ``wanted`` cells of a (seeds × cells) frame, a sample; None where one was not run."""
    if not wanted.isin(cells.columns).all():
        return None
    return cells[wanted].mean(axis=1, skipna=False).dropna()


def less(table, parameters, one, other):
    """Accuracy in the cells ``one`` less that in the cells ``other``, each arguments of :func:`cells_of`."""
    cells = own_cells(table, parameters)
    high, low = average(cells, cells_of(*one)), average(cells, cells_of(*other))
    return None if high is None or low is None else difference(high, low)


def printed_less(parameters, one, other):
    """The same of the printed accuracies."""
    return float(PAPER.loc[cells_of(*one)].mean() - PAPER.loc[cells_of(*other)].mean())


def as_printed(name):
    """The cells of one table, or of the column {}."""
    return cells_of(name, (0,) if name == "standard" else (1, 2, 3))


def beyond_ours(table, parameters):
    """How far each seed is from the mean of the others, less how far the printed numbers are from such means.

    Mean absolute differences over the cells. The printed numbers' is averaged over leaving out each seed, so
    that all are taken from means of equally many.
    """
    cells = own_cells(table, parameters)
    if not PAPER.index.isin(cells.columns).all():
        return None
    cells = cells[PAPER.index].dropna()
    if len(cells) < 2:
        return None
    others = {seed: cells.drop(seed).mean() for seed in cells.index}
    theirs = pd.Series([(PAPER - rest).abs().mean() for rest in others.values()]).mean()
    return pd.Series({seed: (cells.loc[seed] - rest).abs().mean() for seed, rest in others.items()}) - theirs


def fitted(table, parameters, **given):
    """Share of the random labels that the page's own pre-training fits, mean over the runs that stored it.

    Runs at the rate of the later training store none; the look that hands the same network over without
    scaling back has it.
    """
    rows = at(table, initialisation="pretrained")
    if "random_labels" not in rows:
        return float("nan")
    same = changes(rows, parameters).map(lambda changed: set(changed) <= {"rescaled", "precision"})
    return rows.loc[same, "random_labels"].mean()


FITTED = (Requirement("share of the random labels that pre-training fits", fitted, at_least=0.95),)
MORE = {
    "of": less, "above": 0, "matters": SAME, "paper": printed_less, "unit": "of accuracy",
    "because": "accuracies within 0.02 count as the same here: the tables print 0.01",
}  # fmt: skip
LIKE = {"of": less, "near": 0.0, "within": SAME, "unit": "of accuracy"}
STANDARD, TWO_OR_THREE = ("standard", (0,)), (2, 3)


def pair(id, words, one, other):
    """A case that compares the cells ``one`` with ``other``."""
    return Case(id, words, {"one": one, "other": other})


def same(one, other):
    """``of`` of a statement that compares two sets of cells."""
    return {"of": lambda t, p: less(t, p, one, other)}


def one_pair(one, other):
    """``of`` and ``paper`` of such a statement."""
    return same(one, other) | {"paper": lambda p: printed_less(p, one, other)}


def rises(name):
    """Cases for each number of computed layers, where the printed means rise."""
    steps = [STANDARD, *((name, (layers,)) for layers in (1, 2, 3))]
    return [
        pair(str(k), f"{name}, from {k - 1} to {k} computed layers", steps[k], steps[k - 1])
        for k in (1, 2, 3)
        if printed_less({}, steps[k], steps[k - 1]) > 0
    ]


def _printed_tables():
    return [
        Statement(
            name, "One run of ours could have given the printed accuracies (mean over the cells of a table).",
            source="Tables 1 to 7" if name == "standard" else title.capitalize(), unit="of accuracy",
            of=lambda t, p, name: average(own_cells(t, p), as_printed(name)),
            one_run=lambda p, name: float(PAPER.loc[as_printed(name)].mean()),
            each=lambda p, name=name, title=title: [Case("as-printed", title, {"name": name})],
            requires=FITTED if name == "pretrained" else (),
        )
        for name, title in TITLES.items()
    ]  # fmt: skip


def _elsewhere():
    return [
        Statement(
            f"{name}-rises",
            "Accuracy rises with every further layer (f2, f3, sampled), where the printed means rise.",
            source=TITLES[name].capitalize(), each=lambda p, name=name: rises(name), **MORE,
        )
        for name in ("f2", "f3", "sampled")
    ]  # fmt: skip


ALIKE = "With two or three layers computed, the curves f1, f2 and f3 give the same accuracy."
SHIFTED = "Without the largest eigenvectors, accuracy is below that of random initialisation."
MATCH = "Three computed layers (f1) match three layers pre-trained on random labels."


def at_count(id, words, one, layers, other, others, count):
    """One case that compares two initialisations after ``count`` iterations."""
    given = pair(id, words, (one, layers, (count,)), (other, others, (count,)))
    return lambda parameters: [given]


STATEMENTS = [
    Statement(
        "f1-above-standard", "Three computed layers (f1) are better than random initialisation.",
        source="Table 1, Section 2.5", headline=True, **MORE | one_pair(("f1", (3,)), STANDARD),
    ),
    *(
        Statement(
            "f1-like-pretrained", MATCH, source="Section 2.5", requires=FITTED, opposed_by=opposed,
            each=at_count(str(n), f"after {n} iterations", "f1", (3,), "pretrained", (3,), n), **LIKE,
        )
        for n, opposed in (
            (100, None),
            (1000, "Tables 1 and 7, which print 0.68 and 0.78 on training images"),
        )
    ),
    Statement(
        "f1-rises", "Accuracy rises with every further layer of computed filters (f1).", source="Table 1",
        each=lambda p: rises("f1"), **MORE,
    ),
    *_elsewhere(),
    *_printed_tables(),
    Statement(
        "cells-as-printed",
        "Cell by cell the printed numbers are as far from our runs as one of these is from the others (mean "
        "absolute difference over all different cells, ours less the printed numbers').",
        source="Tables 1 to 7", of=beyond_ours, one_run=0.0, unit="of accuracy", requires=FITTED,
    ),
    *(
        Statement(
            f"{name}-like", ALIKE, source="Appendix E.3", **LIKE,
            each=lambda p, n=name: [pair("f2", f"{n} and f2", (n, TWO_OR_THREE), ("f2", TWO_OR_THREE))],
        )
        for name in ("f1", "f3")
    ),
    Statement(
        "f1-above", "With only the first layer computed, f1 is the best of the three curves.",
        source="Appendix E.3", **MORE,
        each=lambda p: [
            pair(f"{name}-first-layer", f"better than {name}", ("f1", (1,)), (name, (1,)))
            for name in ("f2", "f3")
        ],
    ),
    Statement(
        "f2-like-pretrained",
        "With two or three layers, computed ones (f2) and pre-trained ones give the same accuracy.",
        source="Table 7", requires=FITTED,
        **LIKE | same(("f2", TWO_OR_THREE), ("pretrained", TWO_OR_THREE)),
    ),
    Statement(
        "sampled-like-f2", "Sampling from the covariance gives the same accuracy as its eigenvectors.",
        source="Table 4", **LIKE | same(("sampled",), ("f2",)),
    ),
    Statement(
        "smallest-below-standard",
        "The eigenvectors of the smallest eigenvalues are worse than random initialisation.",
        source="Table 5", **MORE | one_pair(STANDARD, ("smallest",)),
    ),
    Statement(
        "shifted-below-f2",
        "Leaving out the largest eigenvectors (e4 … e19, e10 … e25) is worse than using them.",
        source="Table 6", **MORE | one_pair(("f2",), ("shifted",)),
    ),
    *(
        Statement(
            "shifted-below-standard", SHIFTED, source="Appendix E.3", opposed_by=opposed, **MORE,
            each=at_count(str(n), f"after {n} iterations", "standard", (0,), "shifted", (1, 2, 3), n),
        )
        for n, opposed in ((100, None), (1000, "Table 6, which prints 0.60 and 0.62 against 0.58"))
    ),
    Statement(
        "pretrained-above-standard",
        "Three layers pre-trained on random labels are better than random initialisation.", source="Table 7",
        requires=FITTED, **MORE | one_pair(("pretrained", (3,)), STANDARD),
    ),
]  # fmt: skip

SAID = {
    HOLDS: "Three layers of filters computed from the data, without training, beat He's initialisation",
    ABSENT: "Three layers of computed filters are no better than He's initialisation",
    CONTRADICTED: "Three layers of computed filters are worse than He's initialisation",
    UNDECIDED: "It is undecided whether three layers of computed filters beat He's initialisation",
}
MATCHED = {
    HOLDS: "They match layers pre-trained on random labels after 100 steps.",
    CONTRADICTED: "They do not match layers pre-trained on random labels.",
    UNDECIDED: "Whether they match pre-trained layers is undecided.",
}


def finding(table, parameters, claims):
    """Computed filters against He's, and against pre-trained layers; words follow both verdicts."""
    claim, match = claims["f1-above-standard"], claims["f1-like-pretrained-100"]
    if claim.outcome not in SAID:
        return "Not all runs that this compares have finished."
    said = f"{SAID[claim.outcome]}: {100 * claim.measured:+.1f} points (printed: {100 * claim.paper:+.1f})."
    if match.outcome == NOT_JUDGED:
        share = fitted(table, parameters)
        known = "we did not store what our pre-training fits" if pd.isna(share) else (
            f"our pre-training fits only {100 * share:.0f} % of its random labels"
        )  # fmt: skip
        return f"{said} The other half, that they match pre-trained layers, is not judged: {known}."
    return f"{said} {MATCHED.get(match.outcome, '')}".strip()


def key_numbers(table, parameters):
    """Accuracy with no, three computed and three pre-trained layers, averaged over iterations and parts."""
    cells, made = own_cells(table, parameters), []
    for name, layers, title in (
        ("standard", 0, "He's initialisation"),
        ("f1", 3, "three computed layers (f1)"),
        ("pretrained", 3, "three pre-trained layers"),
    ):
        wanted = cells_of(name, (layers,))
        ours = average(cells, wanted)
        if ours is not None:
            paper = float(PAPER.loc[wanted].mean())
            made.append(KeyNumber(f"accuracy, {title}", interval(ours, "{:.3f}"), paper))
    return made
