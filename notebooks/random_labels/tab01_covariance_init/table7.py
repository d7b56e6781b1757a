"""Table 7 of Maennel et al. 2020 with other ways to pre-train: a look at one run, which judges nothing."""

from companion.over_seeds import at

from .design import PRETRAINING, VARIATIONS
from .reading import accuracies, cells_of, fitted

COLUMN = "no layer pre-trained"  # the column {} under the same change
AS_THEY_ARE = {"precision": "float32", "rescaled": False}


def ways(parameters):
    """{way to pre-train: what differs from the page's own}, the page's own first."""
    rate, joint = (PRETRAINING[name][0] | {"precision": "float32"} for name in ("rate", "joint"))
    faster, constant = f"rate {rate['pretrain_rate']}", f"constant rate, initial scale {joint['init_scale']}"
    lengths = [change for change, *_ in VARIATIONS if "pretrain_epochs" in change]
    return {
        "as above: rate {pretrain_rate}, {pretrain_epochs} epochs, scaled back".format(**parameters): {},
        **{f"{change['pretrain_epochs']} epochs": change for change in lengths},
        faster: rate,
        f"{faster}, not scaled back": rate | AS_THEY_ARE,
        "not scaled back": AS_THEY_ARE,
        constant: joint,
        f"{constant}: {COLUMN}": joint,
    }


def other_pretraining(table, parameters):
    """(way to pre-train, accuracy by cell, share of random labels fitted): three layers of the first run.

    The cells are a column of Table 7, NaN where not run; the share is NaN where not stored.
    """
    first = at(table, seed=0)
    for way, change in ways(parameters).items():
        column = "standard" if way.endswith(COLUMN) else "pretrained"
        cells = cells_of(column, (3,), (1000, 100))
        reached = accuracies(first, parameters, **change).reindex([0], columns=cells).loc[0]
        change = {key: value for key, value in change.items() if key not in AS_THEY_ARE}
        yield way, reached, fitted(at(first, initialisation=column), parameters, **change)
