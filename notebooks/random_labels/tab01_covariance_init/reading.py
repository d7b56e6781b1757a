"""Whether filters computed from the data help later training, beside what is printed (Tables 1 to 7)."""

from pathlib import Path

import pandas as pd

from alignbook.claims import KeyNumber, interval
from alignbook.over_seeds import at, difference
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict

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
VARIED = (  # parameters of which some jobs have a value of their own
    "schedule padding pool init_scale filter_scale centred patch_stride first_number pretrain_epochs "
    "pretrain_rate precision"
).split()


def _differs(table, parameters):
    """Where a job has not the value that ``parameters`` have: a boolean frame, a column per parameter."""
    given = {key: parameters[key] for key in VARIED} | {"rescaled": True}
    found = {key: table[key].notna() & (table[key] != value) for key, value in given.items() if key in table}
    return pd.DataFrame(found, index=table.index)


def changes(table, parameters):
    """For each row how its job differs from ``parameters``: a Series of dicts, empty for the page's own.

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
    """The rows of the jobs that have the page's own parameters throughout."""
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


def printed_less(one, other):
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
ABOVE = {
    "above": 0, "matters": SAME, "unit": "of accuracy",
    "because": "accuracies within 0.02 count as the same here: the tables print 0.01",
}  # fmt: skip
STANDARD, THREE, TWO_OR_THREE = ("standard", (0,)), (3,), (2, 3)


def better(one, other):
    """The rule of a statement that the cells ``one`` have a higher accuracy than ``other``."""
    return ABOVE | {
        "of": lambda t, p: less(t, p, one, other), "paper": lambda p: printed_less(one, other)
    }  # fmt: skip


def alike(one, other):
    """The rule of a statement that the cells ``one`` and ``other`` have the same accuracy."""
    return {"of": lambda t, p: less(t, p, one, other), "near": 0.0, "within": SAME, "unit": "of accuracy"}


def rises(name):
    """The statement on further layers of one table, judged where its printed means rise."""
    steps = [STANDARD, *((name, (layers,)) for layers in (1, 2, 3))]
    pairs = {k: (steps[k], steps[k - 1]) for k in (1, 2, 3) if printed_less(steps[k], steps[k - 1]) > 0}
    return Statement(
        f"{name}-rises", f"Accuracy rises with every further layer ({name}), where the printed means rise.",
        source=TITLES[name].capitalize(), **ABOVE,
        of=lambda t, p, step: less(t, p, *pairs[step]), paper=lambda p, step: printed_less(*pairs[step]),
        each=lambda p: [Case(str(k), f"from {k - 1} to {k} computed layers", {"step": k}) for k in pairs],
    )  # fmt: skip


def printed_table(name, title):
    """The statement on all cells of one table, or of the column {}."""
    return Statement(
        f"{name}-as-printed",
        f"One run of ours could have given the printed accuracies: mean over {title}.",
        source="Tables 1 to 7" if name == "standard" else title.capitalize(), unit="of accuracy",
        of=lambda t, p: average(own_cells(t, p), as_printed(name)),
        one_run=lambda p: float(PAPER.loc[as_printed(name)].mean()),
        requires=FITTED if name == "pretrained" else (),
    )  # fmt: skip


MATCH = "Three computed layers (f1) match three layers pre-trained on random labels"
SHIFTED = "Without the largest eigenvectors, accuracy is below that of random initialisation"
E3 = {"source": "Appendix E.3"}
STATEMENTS = [
    Statement(
        "f1-above-standard", "Three computed layers (f1) are better than random initialisation.",
        source="Table 1, Section 2.5", headline=True, **better(("f1", THREE), STANDARD),
    ),
    Statement(
        "f1-like-pretrained-100", f"{MATCH}, after 100 iterations.", source="Section 2.5", requires=FITTED,
        **alike(("f1", THREE, (100,)), ("pretrained", THREE, (100,))),
    ),
    Statement(
        "f1-like-pretrained-1000", f"{MATCH}, after 1000 iterations.", source="Section 2.5", requires=FITTED,
        opposed_by="Tables 1 and 7, which print 0.68 and 0.78 on training images",
        **alike(("f1", THREE, (1000,)), ("pretrained", THREE, (1000,))),
    ),
    *(rises(name) for name in ("f1", "f2", "f3", "sampled")),
    *(printed_table(name, title) for name, title in TITLES.items()),
    Statement(
        "cells-as-printed",
        "Cell by cell the printed numbers are as far from our runs as one of these is from the others (mean "
        "absolute difference over all different cells, ours less the printed numbers').",
        source="Tables 1 to 7", of=beyond_ours, one_run=0.0, unit="of accuracy", requires=FITTED,
    ),
    *(
        Statement(
            f"{name}-like-f2", f"With two or three layers computed, {name} and f2 give the same accuracy.",
            **E3, **alike((name, TWO_OR_THREE), ("f2", TWO_OR_THREE)),
        )
        for name in ("f1", "f3")
    ),
    *(
        Statement(
            f"f1-above-{name}-first-layer", f"With only the first layer computed, f1 is better than {name}.",
            **E3, **better(("f1", (1,)), (name, (1,))),
        )
        for name in ("f2", "f3")
    ),
    Statement(
        "f2-like-pretrained",
        "With two or three layers, computed ones (f2) and pre-trained ones give the same accuracy.",
        source="Table 7", requires=FITTED, **alike(("f2", TWO_OR_THREE), ("pretrained", TWO_OR_THREE)),
    ),
    Statement(
        "sampled-like-f2", "Sampling from the covariance gives the same accuracy as its eigenvectors.",
        source="Table 4", **alike(("sampled",), ("f2",)),
    ),
    Statement(
        "smallest-below-standard",
        "The eigenvectors of the smallest eigenvalues are worse than random initialisation.",
        source="Table 5", **better(STANDARD, ("smallest",)),
    ),
    Statement(
        "shifted-below-f2",
        "Leaving out the largest eigenvectors (e4 … e19, e10 … e25) is worse than using them.",
        source="Table 6", **better(("f2",), ("shifted",)),
    ),
    Statement(
        "shifted-below-standard-100", f"{SHIFTED}, after 100 iterations.", **E3,
        **better((*STANDARD, (100,)), ("shifted", (1, 2, 3), (100,))),
    ),
    Statement(
        "shifted-below-standard-1000", f"{SHIFTED}, after 1000 iterations.", **E3,
        opposed_by="Table 6, which prints 0.60 and 0.62 against 0.58",
        **better((*STANDARD, (1000,)), ("shifted", (1, 2, 3), (1000,))),
    ),
    Statement(
        "pretrained-above-standard",
        "Three layers pre-trained on random labels are better than random initialisation.", source="Table 7",
        requires=FITTED, **better(("pretrained", THREE), STANDARD),
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="Three layers of filters computed from the data, without training, beat random initialisation",
    contradicted="Three layers of computed filters are worse than random initialisation",
    absent="Three layers of computed filters are no better than random initialisation",
    undecided="It is undecided whether three layers of computed filters beat random initialisation",
    not_judged="Whether three layers of computed filters beat random initialisation is not judged",
)

MATCHED = by_verdict(
    holds=" They match layers pre-trained on random labels after 100 steps.",
    contradicted=" They do not match layers pre-trained on random labels.",
    absent="",
    undecided=" Whether they match layers pre-trained on random labels is undecided.",
    not_judged=" Whether they match layers pre-trained on random labels is not judged: ours did not fit "
    "their random labels.",
)


def finding(table, parameters, claims):
    """Computed filters against He's, and against pre-trained layers; words follow both verdicts."""
    claim, match = claims["f1-above-standard"], claims["f1-like-pretrained-100"]
    if claim.outcome not in SAID:
        return "Not all runs that this compares have finished."
    text = f"{SAID[claim.outcome]}: the difference is {100 * claim.measured:+.1f} points of accuracy, in the "
    text += f"paper {100 * claim.paper:+.1f}."
    return text + MATCHED.get(match.outcome, "")


def key_numbers(table, parameters):
    """Accuracy with no, three computed and three pre-trained layers, averaged over iterations and parts."""
    cells = own_cells(table, parameters)
    wanted = {
        "He's initialisation": cells_of(*STANDARD),
        "three computed layers (f1)": cells_of("f1", THREE),
        "three pre-trained layers": cells_of("pretrained", THREE),
    }
    found = {title: average(cells, which) for title, which in wanted.items()}
    return [
        KeyNumber(f"accuracy, {title}", interval(ours, "{:.3f}"), float(PAPER.loc[wanted[title]].mean()))
        for title, ours in found.items()
        if ours is not None
    ]
