"""How much of pre-training's gain filters drawn from the learned covariance recover (Figure 5)."""

import pandas as pd

from companion.over_seeds import across, at, difference, once
from companion.statements import Number, Statement, least, over, pooled

from ..shared.gains import KINDS, VISIBLE, above, mean_accuracy
from .design import STARTS

MARGIN = 0.25  # of the gain, within which the effect counts as recovered; fixed before the first run
HALF_A_POINT = 0.005  # of accuracy: less than half of what rescaling takes away with real labels
POINT = 0.01  # of accuracy, on average over training


@once
def areas(table, labels):
    """(seeds × starts) frame: mean accuracy over training (Appendix B); only seeds with all starts."""
    found = across(at(table, labels=labels), "start", STARTS, mean_accuracy)
    return found if len(found) else pd.DataFrame()


def gains(table, labels):
    """(seeds × starts) frame of the gain over training from scratch in mean accuracy, points."""
    return above(areas(table, labels), "scratch").drop(columns="scratch", errors="ignore")


def gain(table, parameters, labels, one, other="scratch"):
    """Mean accuracy over training of start ``one`` less that of ``other``, by seed."""
    found = areas(table, labels)
    return difference(found[one], found[other]) if len(found) else None


def missed(table, parameters, labels):
    """Gain of drawn filters less that of the trained ones, over the latter's mean gain, by seed."""
    apart = gain(table, parameters, labels, "covariance", "no bias")
    return None if apart is None else apart / abs(gain(table, parameters, labels, "no bias").mean())


def known(table, parameters):
    """Share of the random labels that pre-training fits, by seed; None where it is not stored."""
    return table.groupby("seed")["fitted"].first() if "fitted" in table else None


def of_starts(one, other="scratch"):
    """Reading: :func:`gain` of two starts."""
    return lambda table, parameters, labels: gain(table, parameters, labels, one, other)


each_kind = over("labels", KINDS)
FIGURE = {"source": "Figure 5, Section 2.4", "unit": "of accuracy"}
FASTER = FIGURE | {"above": 0, "matters": POINT, "because": VISIBLE}
STATEMENTS = [
    Statement(
        "recovers",
        "Filters drawn from the learned covariance gain as much as the pre-trained filters alone, to within "
        "a quarter.",
        of=missed, near=0.0, within=MARGIN, headline=True,
        source="Figure 5, Section 2.4", unit="of the gain to be recovered", each=each_kind,
    ),
    Statement(
        "all", "They gain as much as the whole pre-trained network, to within a point.",
        near=0.0, within=POINT, of=of_starts("covariance", "pretrained"), each=each_kind, **FIGURE,
    ),
    Statement(
        "gains", "A pre-trained and rescaled network trains faster than one from scratch.",
        of=of_starts("pretrained"), each=each_kind, **FASTER,
    ),
    Statement(
        "filters",
        "With either kind of labels, pre-trained filters alone, without biases, already train faster.",
        of=least(of_starts("no bias"), each_kind), **FASTER,
    ),
    Statement(
        "scale", "Without rescaling, pre-training gains more: part of its effect is the weights' scale, "
        "mean over both kinds of labels.",
        of=pooled(of_starts("unscaled", "pretrained"), each_kind), **FASTER,
    ),
    Statement(
        "ell1", "Rescaling by ℓ1 norms gives results similar to rescaling by ℓ2 norms, mean over both "
        "kinds of labels.",
        of=pooled(of_starts("ell1", "pretrained"), each_kind), near=0.0, within=HALF_A_POINT,
        source="Section 2.4", unit="of accuracy",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        start.replace(" ", "-"),
        f"gain, {words} (points)",
        lambda t, p, labels, start=start: 100 * gain(t, p, labels, start) if len(areas(t, labels)) else None,
        each=each_kind,
    )
    for start, words in STARTS.items()
    if start in ("pretrained", "conv", "no bias", "covariance")
] + [Number("known", "share of its random labels that pre-training fits", known, bounds=(0, 1))]
