"""Whether filters computed from the data help later training, beside what is printed (Tables 1 to 7)."""

from pathlib import Path

import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, KeyNumber, interval
from alignbook.over_seeds import at, difference
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, opening

from .design import PRETRAINING, VARIATIONS

# Table 1 is in Section 2.5, the others in Appendix E.3; each line of a table is a row of printed.csv. The
# column {} (layers 0) is He's initialisation everywhere and the same in all seven.
TABLES = dict(enumerate("f1 f2 f3 sampled smallest shifted pretrained".split(), 1))
TITLES = {"standard": "the column {} (He's initialisation everywhere)"}
TITLES |= {name: f"table {number}" for number, name in TABLES.items()}
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


def beyond_ours(table, parameters):
    """How far each seed is from the mean of the others, less how far the printed numbers are from such means.

    Mean absolute differences over the cells. The printed numbers' is averaged over leaving out each seed, so
    that all are taken from means of equally many.
    """
    cells = accuracies(table, parameters).reindex(columns=PAPER.index).dropna()
    others = (cells.sum() - cells) / (len(cells) - 1)
    return (cells - others).abs().mean(axis=1) - (others - PAPER).abs().mean(axis=1).mean()


def fitted(table, parameters, **change):
    """Share of the random labels that pre-training fits, mean over the runs that stored it, or NaN.

    Runs at the rate of the later training store none; the look that hands the same network over without
    scaling back, with products in float32, has it.
    """
    rows = at(table, initialisation="pretrained").drop(columns=["rescaled", "precision"], errors="ignore")
    return jobs_with(rows, parameters, **change).get("random_labels", pd.Series(dtype=float)).mean()


FITTED = (Requirement("share of the random labels that pre-training fits", fitted, at_least=0.95),)
ABOVE = {
    "above": 0, "matters": SAME, "unit": "of accuracy",
    "because": "accuracies within 0.02 count as the same here: the tables print 0.01",
}  # fmt: skip
STANDARD, THREE, TWO_OR_THREE, ALL = ("standard",), (3,), (2, 3), (1, 2, 3)


def better(id, source, one, other, text, **more):
    """The statement that the cells ``one`` have a higher accuracy than ``other``."""
    of = {"of": lambda t, p: less(t, p, one, other), "paper": lambda p: printed_less(one, other)}
    return Statement(id, text, source, **of, **ABOVE, **more)


def alike(id, source, one, other, text, **more):
    """The statement that the cells ``one`` and ``other`` have the same accuracy."""
    rule = {"near": 0.0, "within": SAME, "unit": "of accuracy"}
    return Statement(id, text, source, of=lambda t, p: less(t, p, one, other), **rule, **more)


def rises(name):
    """The statement on further layers of one table, judged where its printed means rise.

    The caption of Table 1 alone says so, of training and of test accuracy: there each is judged.
    """
    said, cases = name == "f1", []
    apart = {f"-{part}": ((part,), f", {words}") for part, words in PARTS.items()}
    for end, (parts, words) in (apart if said else {"": (PARTS, "")}).items():
        steps = [(*STANDARD, ALL, ITERATIONS, parts), *((name, (n,), ITERATIONS, parts) for n in ALL)]
        for k in ALL:
            pair = {"one": steps[k], "other": steps[k - 1]}
            if printed_less(**pair) > 0:
                cases.append(Case(f"{k}{end}", f"from {k - 1} to {k} computed layers{words}", pair))
    return Statement(
        f"{name}-rises", f"Accuracy rises with every further layer ({name}), where the printed means rise.",
        TITLES[name].capitalize(), of=less, paper=lambda p, **pair: printed_less(**pair), **ABOVE,
        each=lambda p: cases, ours=not said,
    )  # fmt: skip


def printed_table(name):
    """The statement on all cells of one table, or of the column {}."""
    return Statement(
        f"{name}-as-printed",
        f"One run of ours could have given the printed accuracies: mean over {TITLES[name]}.",
        "Tables 1 to 7" if name == "standard" else TITLES[name].capitalize(), unit="of accuracy",
        of=lambda t, p: mean_of(t, p, name), one_run=lambda p: printed_mean(name), within=SAME,
        requires=FITTED if name == "pretrained" else (),
    )  # fmt: skip


MATCH = "Three computed layers (f1) match three layers pre-trained on random labels"
SHIFTED = "Without the largest eigenvectors, accuracy is below that of random initialisation"
STATEMENTS = [
    better("f1-above-standard", "Table 1, Section 2.5", ("f1", THREE), STANDARD,
           "Three computed layers (f1) are better than random initialisation.", headline=True),
    alike("f1-like-pretrained-100", "Section 2.5", ("f1", THREE, (100,)), ("pretrained", THREE, (100,)),
          f"{MATCH}, after 100 iterations.", requires=FITTED),
    alike("f1-like-pretrained-1000", "Section 2.5", ("f1", THREE, (1000,)), ("pretrained", THREE, (1000,)),
          f"{MATCH}, after 1000 iterations.", requires=FITTED,
          opposed_by="Tables 1 and 7, which print 0.68 and 0.78 on training images"),
    *map(rises, ("f1", "f2", "f3", "sampled")),
    *map(printed_table, TITLES),
    Statement(
        "cells-as-printed",
        "Cell by cell, the printed numbers are as far from our runs as one of our runs is from the others "
        "(mean absolute difference over all distinct cells, ours minus the printed numbers').",
        "Tables 1 to 7", of=beyond_ours, one_run=0.0, within=SAME, unit="of accuracy",
        requires=FITTED,
    ),
    *(alike(f"{name}-like-f2", "Appendix E.3", (name, TWO_OR_THREE), ("f2", TWO_OR_THREE),
            f"With two or three layers computed, {name} and f2 give the same accuracy.")
      for name in ("f1", "f3")),
    *(better(f"f1-above-{name}-first-layer", "Appendix E.3", ("f1", (1,)), (name, (1,)),
             f"With only the first layer computed, f1 is slightly better than {name} (0.02 count as none).")
      for name in ("f2", "f3")),
    alike("f2-like-pretrained", "Table 7", ("f2", TWO_OR_THREE), ("pretrained", TWO_OR_THREE),
          "Two or three computed layers (f2) give the same accuracy as two or three pre-trained ones.",
          requires=FITTED),
    alike("sampled-like-f2", "Table 4", ("sampled",), ("f2",),
          "Sampling from the covariance gives the same accuracy as its eigenvectors, mean over one to three "
          "layers."),
    better("smallest-below-standard", "Table 5", STANDARD, ("smallest",),
           "The eigenvectors of the smallest eigenvalues are worse than random initialisation."),
    better("shifted-below-f2", "Table 6", ("f2",), ("shifted",),
           "Leaving out the largest eigenvectors (e4 … e19, e10 … e25) is worse than using them."),
    better("shifted-below-standard-100", "Appendix E.3", (*STANDARD, ALL, (100,)), ("shifted", ALL, (100,)),
           f"{SHIFTED}, after 100 iterations."),
    better("shifted-below-standard-1000", "Appendix E.3",
           (*STANDARD, ALL, (1000,)), ("shifted", ALL, (1000,)), f"{SHIFTED}, after 1000 iterations.",
           opposed_by="Table 6, which prints 0.60 and 0.62 against 0.58"),
    better("pretrained-above-standard", "Table 7", ("pretrained", THREE), STANDARD,
           "Three layers pre-trained on random labels are better than random initialisation.",
           requires=FITTED),
]  # fmt: skip

MATCHED = by_verdict(
    holds=" They match layers pre-trained on random labels after 100 steps.",
    contradicted=" They do not match layers pre-trained on random labels.",
    absent="",
    undecided=" Whether they match layers pre-trained on random labels is undecided.",
    not_judged=" Whether they match pre-trained layers is not judged: ours did not fit their random labels.",
)


def further(claims):
    """Whether every further layer of Table 1 raises accuracy, a clause; "" where none is judged."""
    steps_of = {id: claim.outcome for id, claim in claims.items() if id.startswith("f1-rises-")}
    by_part = {part: {steps_of[id] for id in steps_of if id.endswith(part)} for part in PARTS}
    steps = set().union(*by_part.values()) - {NOT_JUDGED, NOT_RUN}
    if not steps:
        return ""
    if steps == {HOLDS}:
        return "; every further layer of Table 1 raises it"
    if by_part["train"] == {HOLDS} and CONTRADICTED not in steps:
        return "; every further layer of Table 1 raises training accuracy, not surely test accuracy"
    if CONTRADICTED in steps:
        return "; some further layer of Table 1 lowers it"
    return "; not each further layer of Table 1 surely raises it"


def finding(table, parameters, claims):
    """Computed filters against He's, from layer to layer, and against pre-trained layers."""
    claim, match = claims["f1-above-standard"], claims["f1-like-pretrained-100"]
    said = opening(
        claim, "Three layers of filters computed from the data beat random initialisation",
        contradicted="Three layers of computed filters are worse than random initialisation",
        absent="Three layers of computed filters are no better than random initialisation",
    )  # fmt: skip
    if said is None:
        return "Not all runs to be compared have finished."
    said += f": {100 * claim.measured:+.1f} points of mean accuracy, {100 * claim.paper:+.1f} in the paper"
    matched = MATCHED.get(match.outcome, "")
    return fitting(f"{said}{further(claims)}.{matched}", f"{said}.{matched}")


def key_numbers(table, parameters):
    """Accuracy with no, three computed and three pre-trained layers, averaged over iterations and parts."""
    wanted = {
        "He's initialisation": STANDARD,
        "three computed layers (f1)": ("f1", THREE),
        "three pre-trained layers": ("pretrained", THREE),
    }
    found = {title: mean_of(table, parameters, *cells) for title, cells in wanted.items()}
    return [
        KeyNumber(
            f"accuracy, mean over steps, training and test: {title}",
            interval(found[title], "{:.3f}"),
            printed_mean(*cells),
        )
        for title, cells in wanted.items()
        if len(found[title])
    ]
