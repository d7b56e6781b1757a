"""Where the growth of τ rises and where it falls, in the three settings of Figure 20 (E.1)."""

import numpy as np
import pandas as pd

from alignbook.claims import HOLDS, KeyNumber
from alignbook.over_seeds import at, curves, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import OTHERWISE, by_verdict, fitting, listed

from ..transfer_curves import FALL, RISE, change, growth, networks, percent
from .design import PRINTED, SAID, settings

SOURCE = "Figure 20, E.1"
SHARE, IN_WORDS = 1 / 5, "a fifth"  # of a panel's other change: less than this is no rise, or no fall
# The parts of the three shapes and, of each, the smallest effect that matters: data/plans/random_labels.yaml.
PARTS = {
    "left": {"no-rise": 0.004, "falls": 0.005},
    "middle": {"rises": 0.005, "falls": 0.005},
    "right": {"rises": 0.005, "no-fall": 0.02},
}
# What the figure calls them.
LETTERS = {"left": "(a)", "middle": "(b)", "right": "(c)"}
# The networks that were seen when the margin was fixed: groups 0 to 9 with these sizes.
SEEN_GROUPS = list(range(10))
SEEN = {
    "left": {"first_hidden": 512, "inputs": 1000},
    "middle": {"first_hidden": 512, "inputs": 1000},
    "right": {"inputs": 2000},
}


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


def measured(table, parameters, panel, part, of=grown):
    """What is to lie above 0 where the panel's curve has this ``part`` of its shape, by network.

    A rise or a fall itself; where the paper has none, a fifth of the panel's other change less this one.
    """
    frame = of(rows_of(table, panel))
    rise, fall = change(frame, RISE), change(frame, FALL)
    found = {"rises": rise, "falls": fall, "no-rise": SHARE * fall - rise, "no-fall": SHARE * rise - fall}
    return found[part]


def shapes(table, parameters):
    """Of the six parts the weakest, in units of the smallest effect that matters for it."""
    found = [
        measured(table, parameters, panel, name) / matters
        for panel, parts in PARTS.items()
        for name, matters in parts.items()
    ]
    return weakest(*found)


def unseen(table, parameters, panel=None, **given):
    """Share of the panel's networks that were drawn after the margin was fixed; of all panels the least."""
    if panel is None:
        return min(unseen(table, parameters, panel) for panel in PARTS)
    rows = rows_of(table, panel)
    if rows.empty or "seed" not in table:
        return float("nan")
    groups = rows.assign(seed=table["seed"])  # a job's seed is its group
    seen = at(groups, **SEEN[panel], seed=SEEN_GROUPS)
    return 1 - seen["network"].nunique() / rows["network"].nunique()


def learned(table, parameters, panel=None, **given):
    """Share of the panel's networks that reached the goal, as in Figure 4; of all panels the least."""
    if panel is None:
        return min(learned(table, parameters, panel) for panel in PARTS)
    return rows_of(table, panel).groupby("network")["converged"].first().mean()


LEARNED = Requirement("share of the networks that learned their labels", learned, at_least=0.95)
NEW = (Requirement("share of the networks drawn after the margin was fixed", unseen, at_least=1.0), LEARNED)
UNSEEN = f"half a percent of τ, or {IN_WORDS} of what the panel shows, cannot be seen in the figure"
MARGIN = f"the margin, {IN_WORDS} of the other change, was chosen after 50 networks per panel had been seen"
MARGINAL = {"ours": True, "post_hoc": MARGIN, "requires": NEW}
WORDS = {
    "rises": "it rises",
    "falls": "it falls",
    "no-rise": f"it does not rise by more than {IN_WORDS} of its fall",
    "no-fall": f"it does not fall by more than {IN_WORDS} of its rise",
}


def _parts(text, prefix="", of=grown, **own):
    """The six statements about ``of``, the curve that ``text`` names, each a case of its panel's."""
    return [
        Statement(
            f"{prefix}{panel}", f"Panel {LETTERS[panel]}: {text} {SAID[panel]}.", source=SOURCE, of=measured,
            above=0, matters=matters, unit="in ln τ", because=UNSEEN,
            each=lambda p, panel=panel, name=name: [
                Case(name, WORDS[name], {"panel": panel, "part": name, "of": of})
            ],
            **{"requires": (LEARNED,)} | own | (MARGINAL if name.startswith("no-") else {}),
        )
        for panel, parts in PARTS.items()
        for name, matters in parts.items()
    ]  # fmt: skip


STATEMENTS = [
    Statement(
        "shapes",
        "Depending on the setting, the growth of τ only falls, rises and then falls, or only rises: "
        "the weakest of the six parts.",
        source=SOURCE, of=shapes, above=0, matters=1.0, unit="of the smallest effect that matters",
        because="each part counts in units of its own smallest effect", requires=NEW, post_hoc=MARGIN,
        ours=True, headline=True,
    ),
    *_parts("the growth of τ by training"),
    *_parts("τ itself, as drawn,", "tau-", drawn, post_hoc="added after the first results"),
]  # fmt: skip

VERDICT = by_verdict(
    holds="What training adds to the transfer function has the paper's shape in all three settings",
    contradicted="In at least one of the three settings, what training adds does not have the paper's shape",
    absent="One part of the paper's three curves is too small to be seen",
    undecided="It is undecided whether what training adds to the transfer function has the paper's shape",
    not_judged="Whether the three settings give curves of the paper's shape is left to new networks, since "
    "“no fall” was defined after these had run",
)


def changes(table):
    """{panel: (rises, falls)} of the growth of every network, of panels with results."""
    frames = {panel: growth(rows_of(table, panel)) for panel in PARTS}
    return {panel: (change(f, RISE), change(f, FALL)) for panel, f in frames.items() if len(f)}


# What a key number says of the change that a panel should not have.
NO_CHANGE = by_verdict(
    holds=" and {verb}s by less than {share} of that",
    contradicted=" and {verb}s by more than {share} of that",
    absent=" and {verb}s by about {share} of that",
    undecided="; whether it {verb}s by more than {share} of that is undecided",
    not_judged="; whether it {verb}s by more than {share} of that is not judged",
)  # fmt: skip


def outcomes(table, parameters, panel):
    """{part: verdict} on a panel's growth."""
    return {
        claim.id.removeprefix(f"{panel}-"): claim.outcome
        for statement in STATEMENTS
        if statement.id == panel
        for claim in statement.claims(table, parameters)
    }


def in_words(rises, falls, found):
    """``rises by 10 % and then falls by 0.4 %``; of one of these alone, that there is no other.

    found : :func:`outcomes`; where they say that one is to be small, ``by less than a fifth`` of the other
    """
    rose, fell = rises.mean() > 0, falls.mean() > 0
    up = f"rises by {percent(rises)}" if rose else f"does not rise ({percent(rises)} down)"
    down = f"falls by {percent(-falls)}" if fell else f"does not fall ({percent(-falls)} up)"
    if rose and "no-fall" in found:
        return up + NO_CHANGE[found["no-fall"]].format(verb="fall", share=IN_WORDS)
    if fell and "no-rise" in found:
        return down + NO_CHANGE[found["no-rise"]].format(verb="rise", share=IN_WORDS)
    return f"{up} and {'then ' * bool(rose and fell)}{down}"


def finding(table, parameters, claims):
    """What became of the three curves, in growth and as drawn, and how large the networks are."""
    outcome = claims["shapes"].outcome
    if outcome not in VERDICT:
        return "The three panels are not all among the results: there is nothing to see."
    drawn_as = [claim.outcome for id, claim in claims.items() if id.startswith("tau-")]
    found = drawn_as.count(HOLDS)
    said = f"{VERDICT[outcome]}; the function as drawn rises and falls "
    said += f"where it should in {found} of {len(drawn_as)} checks"
    rest = [OTHERWISE[one] for one in drawn_as if one != HOLDS]
    said += f" (the sixth is {rest[0]})." if len(rest) == 1 else "."
    sizes = settings(parameters)
    ours = [panel for panel, setting in sizes.items() if setting != PRINTED[panel]]
    if not ours:
        return said
    width, inputs = (min(sizes[panel][k] / PRINTED[panel][k] for panel in ours) for k in (2, 4))
    where = f"panel{'s' * (len(ours) > 1)} {listed(LETTERS[panel] for panel in ours)}"
    smaller = ["are narrower"] * (width < 1) + ["learn fewer inputs"] * (inputs < 1)
    smaller = " and ".join(smaller) + " than the paper's" if smaller else "differ in size from the paper's"
    return fitting(f"{said} Networks of {where} {smaller}.", said)


def key_numbers(table, parameters):
    """Rise and fall of every panel beside the words of E.1."""
    return [
        KeyNumber(f"growth of τ by training from the smallest σ to the largest, panel {LETTERS[panel]}",
                  in_words(*found, outcomes(table, parameters, panel)), SAID[panel])
        for panel, found in changes(table).items()
    ]  # fmt: skip
