"""The runs on images that Figures 2 and 4 share: which rows of a table are whose (Maennel et al. 2020)."""

from companion.over_seeds import at

from .filter_design import SWEEP_SEED

KNOWN = (
    "kind epoch step seed labels init_scale epochs precision misalignment basis_mean loss displacement "
    "dead_units index sigma tau tau_start network inputs"
).split()


def complete(table):
    """``table`` with all columns that figures look at; runs that diverged leave some out."""
    return table.reindex(columns=[*table.columns, *(name for name in KNOWN if name not in table)])


def figure_rows(table, labels, kind="score"):
    """Rows of one ``kind``, "score" or "transfer", of the figure's runs with these labels."""
    rows = at(complete(table), kind=kind, labels=labels)
    return rows[rows["seed"] < SWEEP_SEED]


def trial_rows(table, **values):
    """Score rows of trial runs whose columns have these values."""
    rows = at(complete(table), kind="score", **values)
    return rows[rows["seed"] >= SWEEP_SEED]


def ends(rows):
    """The last recorded row of each seed."""
    return rows.sort_values("epoch").groupby("seed").tail(1)
