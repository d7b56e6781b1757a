"""How much of the labels lies along the top singular vectors, and whether training raises it (Figure 2)."""

import pandas as pd

from companion.over_seeds import at, curves
from companion.statements import Case, Number, Statement

from .design import PANELS, TOP

MOSTLY = 0.5  # share of the labels: "mostly aligned" (Section 4.2)


def shares(table, top=TOP, column="share"):
    """Shares along the top singular vectors, frame of (seeds × panels); empty without runs."""
    return curves(at(table, kind="share", top=top), "panel", column)


def share(table, parameters, panel):
    """The share along the top singular vectors in one panel, by seed."""
    return shares(table).get(panel)


def over_chance(table, parameters):
    """Share along each direction after the first over what a random direction has, one value per direction.

    Of shuffled labels and the inputs or the untrained hidden layer.

    The first singular vector of features that are never negative is nearly constant, and balanced labels have
    no part along it.
    """
    rows = at(table, kind="spectrum", panel=["b", "c"])
    if rows.empty:
        return None
    shares = rows.loc[rows["index"] > 1, "share"] * (parameters["points"] - 1)
    return pd.Series(shares.to_numpy()).rename_axis("direction")


SHARE = {
    "matters": 0.05, "unit": "of the labels", "bounds": (0, 1),
    "because": "a twentieth of the labels: less would not change what “mostly” means",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "aligned-after",
        f"After training on shuffled labels, these labels lie mostly along the top {TOP} singular vectors of "
        "the last hidden layer.",
        source="Figure 2 (d), Section 4.2", of=lambda t, p: share(t, p, "d"), above=MOSTLY, headline=True,
        **SHARE,
    ),
    Statement(
        "real-labels", f"The real labels lie mostly along the top {TOP} singular vectors of the inputs.",
        source="Figure 2 (a), Section 4", of=lambda t, p: share(t, p, "a"), above=MOSTLY, **SHARE,
    ),
    Statement(
        "uniform", "Shuffled labels lie uniformly along all directions but the first: share over chance.",
        source="Figure 2 (b, c), Section 4", of=over_chance, near=1.0, within=0.25,
        post_hoc="a margin of 0.01 of the labels, eleven times chance, was planned",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "share", f"share along the top {TOP}", share, bounds=(0, 1),
        each=lambda p: [Case(name, "", {"panel": name}) for name in PANELS],
    ),
]  # fmt: skip
