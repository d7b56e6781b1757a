"""Table 7 of Maennel et al. 2020 with other ways to pre-train: a look at one run, which judges nothing."""

import numpy as np
import pandas as pd

from alignbook.studies.random_labels.tab01_covariance_init.experiment import (
    PAPER_STANDARD,
    PRETRAINING,
    TABLE_7,
    printed,
)

CELLS = [(100, "train"), (100, "test"), (1000, "train"), (1000, "test")]  # the rows of Table 7


def other_pretraining(table, parameters):
    """What three pre-trained layers reach in the first run, one row per way to pre-train: DataFrame.

    ``table`` is that of all units of the notebook. The index names the way, as the page shows it; the first
    row is the page's own; then come the other lengths that were run and all of ``PRETRAINING``. Columns:
    layers (3, or 0 where a choice changes the column {}, too), random_labels (share of them that
    pre-training fits) and, for each of ``CELLS``, the accuracy; NaN where not run or not stored.
    """
    if "train" not in table:  # nothing has finished
        return _frame([])
    first = table[(table["seed"] == 0) & table["initialisation"].isin(["pretrained", "standard"])]
    rows = []
    for way, layers, found in _ways(first, parameters):
        cells = found.set_index("iterations")
        row = {"way": way, "layers": layers, "random_labels": np.nan}
        if len(found) and "random_labels" in found:
            row["random_labels"] = found["random_labels"].iloc[0]
        rows.append(row | {cell: cells[cell[1]].get(cell[0], np.nan) for cell in CELLS})
    return _frame(rows)


def paper_column(layers):
    """{cell: printed accuracy} of Table 7 for each of ``CELLS``: the column of three layers, or {} (0)."""
    if layers == 0:
        return PAPER_STANDARD
    rows = printed().query("table == 7 and layers == @layers")
    return rows.set_index(["iterations", "part"])["paper"].to_dict()


def summary(rows):
    """Two sentences on the training accuracy after 1000 steps, from ``other_pretraining``; plain text.

    Empty where neither the page's own way nor any other reached 1000 steps.
    """
    cell, test = (1000, "train"), (1000, "test")
    reached = rows[(rows["layers"] == 3) & rows[cell].notna()]
    if len(reached) < 2:
        return ""
    paper = paper_column(3)
    ours, others = reached.iloc[0], reached.iloc[1:]
    gap = others[cell] - paper[cell]
    way = gap.abs().idxmin()
    nearest = others.loc[way]
    closer = int((gap.abs() < abs(ours[cell] - paper[cell])).sum())
    verb, ways = "comes" if closer == 1 else "come", "way" if len(others) == 1 else "ways"
    said = (
        f"Of {len(others)} other {ways} to pre-train, {closer or 'none'} {verb} nearer to the printed "
        f"training accuracy after 1000 steps, {paper[cell]:.2f}, than our own ({ours[cell]:.2f}). "
        f"Nearest is “{way}”: {nearest[cell]:.2f} ({gap[way]:+.2f}), on test images {nearest[test]:.2f} "
        f"({nearest[test] - paper[test]:+.2f}; ours {ours[test] - paper[test]:+.2f})."
    )
    for way, row in rows[rows["layers"] == 0].iterrows():
        if row[CELLS].notna().all():
            early = (100, "train")
            said += (
                f" “{way}” gives {row[early]:.2f} after 100 steps and {row[cell]:.2f} after 1000 on training "
                f"images, where {PAPER_STANDARD[early]:.2f} and {PAPER_STANDARD[cell]:.2f} are printed."
            )
    return said


def _ways(first, parameters):
    """(name, layers, rows of ``first``) of every way to pre-train, the page's own first."""
    variation = first["unit"].str.partition("__")[0].where(first["unit"].str.contains("__"), "")
    pretrained = first["layers"] == 3
    epochs, rate = parameters["pretrain_epochs"], parameters["pretrain_rate"]
    yield f"as above: rate {rate}, {epochs} epochs, scaled back", 3, first[pretrained & (variation == "")]
    for name in sorted(set(variation), key=lambda name: (len(name), name)):
        if name.startswith("pretrain_epochs-"):
            yield f"{name.partition('-')[2]} epochs", 3, first[pretrained & (variation == name)]
    for name, (change, rescaled) in PRETRAINING.items():
        own = first[variation == f"{TABLE_7}{name}"]
        title = [_TITLES[key].format(value) for key, value in change.items()]
        for scaled_back in sorted(rescaled, reverse=True):
            chosen = own[own.get("rescaled", default=pd.Series(None, own.index)) == scaled_back]
            yield ", ".join(title + ["not scaled back"] * (not scaled_back)), 3, chosen
        if "schedule" in change:
            yield f"{', '.join(title)}: no layer pre-trained", 0, own[own["layers"] == 0]


_TITLES = {
    "pretrain_rate": "rate {}",
    "schedule": "{} rate",
    "init_scale": "initial scale {}",
}


def _frame(rows):
    return pd.DataFrame(rows, columns=["way", "layers", "random_labels", *CELLS]).set_index("way")
