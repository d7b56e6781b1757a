"""Table 7 of Maennel et al. 2020 with other ways to pre-train: a look at one run, which judges nothing."""

import numpy as np
import pandas as pd

from alignbook.over_seeds import at

from .design import PRETRAINING
from .reading import PAPER, changes, fitted

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
    first = at(table, seed=0, initialisation=["pretrained", "standard"], layers=[0, 3])
    rows = []
    for way, layers, found in _ways(first, parameters):
        cells = found.set_index("iterations")
        row = {"way": way, "layers": layers, "random_labels": np.nan}
        if not rows:  # the page's own network is the one that the look without scaling back hands over
            row["random_labels"] = fitted(first, parameters)
        elif len(found) and "random_labels" in found:
            row["random_labels"] = found["random_labels"].iloc[0]
        rows.append(row | {cell: cells[cell[1]].get(cell[0], np.nan) for cell in CELLS})
    return _frame(rows)


def paper_column(layers):
    """{cell: printed accuracy} of Table 7 for each of ``CELLS``: the column of three layers, or {} (0)."""
    name = "pretrained" if layers else "standard"
    return {cell: float(PAPER[name, layers, *cell]) for cell in CELLS}


def _ways(first, parameters):
    """(name, layers, rows of ``first``) of every way to pre-train, the page's own first."""
    changed = changes(first, parameters)
    pretrained = first["initialisation"] == "pretrained"

    def those(change, layers=3):
        """Rows that differ from the page in this alone; the looks have products in float32, too."""
        same = [{k: v for k, v in found.items() if k != "precision"} == change for found in changed]
        return first[np.array(same, dtype=bool) & (pretrained == (layers == 3))]

    epochs, rate = parameters["pretrain_epochs"], parameters["pretrain_rate"]
    none = changed.map(len) == 0
    yield f"as above: rate {rate}, {epochs} epochs, scaled back", 3, first[pretrained & none]
    for length in sorted({found["pretrain_epochs"] for found in changed if "pretrain_epochs" in found}):
        yield f"{length:g} epochs", 3, those({"pretrain_epochs": length})
    for change, rescaled in PRETRAINING.values():
        title = [_TITLES[key].format(value) for key, value in change.items()]
        for scaled_back in sorted(rescaled, reverse=True):
            found = those(change | ({} if scaled_back else {"rescaled": False}))
            yield ", ".join(title + ["not scaled back"] * (not scaled_back)), 3, found
        if "schedule" in change:
            yield f"{', '.join(title)}: no layer pre-trained", 0, those(change, layers=0)


_TITLES = {
    "pretrain_rate": "rate {}",
    "schedule": "{} rate",
    "init_scale": "initial scale {}",
}


def _frame(rows):
    return pd.DataFrame(rows, columns=["way", "layers", "random_labels", *CELLS]).set_index("way")
