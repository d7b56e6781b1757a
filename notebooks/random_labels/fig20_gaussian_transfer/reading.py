"""Where the growth of τ rises and where it falls, in the three settings of Figure 20 (E.1)."""

import numpy as np
import pandas as pd

from companion.over_seeds import curves, weakest
from companion.statements import Case, Number, Statement, among

from ..shared.transfer_curves import FALL, RISE, change, growth, networks
from .design import PRINTED, SAID

SHARE = 1 / 5  # of a panel's other change: less than this is no rise, or no fall
# The parts of the three shapes and, of each, the smallest effect that matters, in ln τ.
PARTS = {
    "left": {"no-rise": 0.004, "falls": 0.005},
    "middle": {"rises": 0.005, "falls": 0.005},
    "right": {"rises": 0.005, "no-fall": 0.02},
}
LETTERS = {"left": "(a)", "middle": "(b)", "right": "(c)"}  # what the figure calls them
WORDS = {"left": "only falls", "middle": "rises, then falls", "right": "only rises"}


def rows_of(table, panel):
    """The rows of one panel, a network's as a seed's. Figure 4's, in panel (c), have no ``lowest``."""
    if "network" not in table:
        return table.iloc[:0]
    lowest = table["lowest"] if "lowest" in table else pd.Series(np.nan, table.index)
    chosen = lowest.isna() if panel == "right" else lowest == PRINTED[panel][1]
    return networks(table[chosen])


def drawn(rows):
    """τ after training, as Figure 20 draws it: (networks × directions) frame, σ ascending."""
    return curves(rows, "index", "tau").rename_axis("network")


def grown(rows):
    """:func:`.transfer_curves.growth`, one row per network."""
    return growth(rows).rename_axis("network")


def measured(table, parameters, panel):
    """What is to lie above 0 where the panel's curve has its shape, by network: of two parts the lesser.

    A part is a rise or a fall; where the paper has none, a fifth of the panel's other change less this one.
    In units of the smallest effect that matters for it.
    """
    frame = grown(rows_of(table, panel))
    rise, fall = change(frame, RISE), change(frame, FALL)
    found = {"rises": rise, "falls": fall, "no-rise": SHARE * fall - rise, "no-fall": SHARE * rise - fall}
    return weakest(*(found[part] / matters for part, matters in PARTS[panel].items()))


def percent(table, parameters, panel, end):
    """By how many percent τ has grown more at the peak than at the smallest or the largest σ, by network."""
    return 100 * np.expm1(change(grown(rows_of(table, panel)), end))


STATEMENTS = [
    Statement(
        "shapes", "The growth of τ only falls (a), rises and then falls (b), or only rises (c).",
        source="Figure 20, E.1", of=measured, above=0, matters=1.0, headline=True,
        each=among("panel", {panel: f"{LETTERS[panel]} {words}" for panel, words in WORDS.items()}),
        unit="of the smallest effect that matters",
        because="half a percent of τ, or a fifth of what the panel shows, cannot be seen in the figure",
        post_hoc="that a fifth of the other change is none was chosen after 50 networks per panel",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        name, f"how much more τ grew at the peak than at the {words} σ (%)", percent,
        each=lambda p, end=end: [
            Case(panel, f"panel {LETTERS[panel]}: {SAID[panel]}", {"panel": panel, "end": end})
            for panel in PARTS
        ],
    )
    for name, end, words in (("rise", RISE, "smallest"), ("fall", FALL, "largest"))
]  # fmt: skip
