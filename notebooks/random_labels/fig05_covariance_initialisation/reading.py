"""How much of pre-training's gain filters drawn from the learned covariance recover (Figure 5)."""

import pandas as pd

from companion.over_seeds import across, at, difference, once
from companion.statements import Case, Number, Statement, over

from ..shared.gains import KINDS, VISIBLE, gain as gain_of, mean_accuracy
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
    found = areas(table, labels)
    return found.drop(columns="scratch").sub(found["scratch"], axis=0).mul(100) if len(found) else found


def gain(table, parameters, labels, one, other="scratch"):
    """Mean accuracy over training of start ``one`` less that of ``other``, by seed."""
    found = areas(table, labels)
    return difference(found[one], found[other]) if len(found) else None


def missed(table, parameters, labels, by="seed"):
    """Gain of drawn filters less that of the trained ones, over the latter's mean gain.

    by : "seed", or "covariance": means over the seeds that share one
    """
    apart = gain(table, parameters, labels, "covariance", "no bias")
    if apart is None:
        return None
    share = apart / abs(gain(table, parameters, labels, "no bias").mean())
    return share if by == "seed" else by_covariance(share, parameters)


def by_covariance(values, parameters):
    """Means over the seeds that share a covariance; indexed by the number of the covariance."""
    return values.groupby(values.index // parameters["group"]).mean().rename_axis("covariance")


def known(table, parameters):
    """Share of the random labels that pre-training fits, by seed; None where it is not stored."""
    return table.groupby("seed")["upstream_accuracy"].first() if "upstream_accuracy" in table else None


def by_ell1(table, parameters, labels):
    """Mean accuracy over training: pre-trained and scaled back to ℓ1 norms, less ℓ2 norms, by seed."""
    return gain_of(at(table, labels=labels), "ell1", "pretrained")


def each_unit(parameters):
    """Cases: a kind of labels, by seed and with each covariance counted once."""
    return [
        Case(kind + end, KINDS[kind] + words, {"labels": kind, "by": by})
        for by, end, words in (("seed", "", ""), ("covariance", "-covariances", ", each covariance once"))
        for kind in parameters["labels"]
    ]


FIGURE = {"source": "Figure 5, Section 2.4", "unit": "of accuracy", "each": over("labels", KINDS)}
FASTER = FIGURE | {"above": 0, "matters": POINT, "because": VISIBLE}
STATEMENTS = [
    Statement(
        "recovers",
        "Filters drawn from the learned covariance gain as much as the pre-trained filters alone, to within "
        "a quarter.",
        of=missed, near=0.0, within=MARGIN, headline=True,
        **FIGURE | {"unit": "of the gain to be recovered", "each": each_unit},
    ),
    Statement(
        "all", "They gain as much as the whole pre-trained network, to within a point.", near=0.0,
        within=POINT, of=lambda t, p, labels: gain(t, p, labels, "covariance", "pretrained"), **FIGURE,
    ),
    Statement(
        "gains", "A pre-trained and rescaled network trains faster than one from scratch.",
        of=lambda t, p, labels: gain(t, p, labels, "pretrained"), **FASTER,
    ),
    Statement(
        "filters", "Pre-trained filters alone, without biases, already train faster.",
        of=lambda t, p, labels: gain(t, p, labels, "no bias"), **FASTER,
    ),
    Statement(
        "scale", "Without rescaling, pre-training gains more: part of its effect is the weights' scale.",
        of=lambda t, p, labels: gain(t, p, labels, "unscaled", "pretrained"), **FASTER,
    ),
    Statement(
        "ell1", "Rescaling by ℓ1 norms gives results similar to rescaling by ℓ2 norms.", of=by_ell1, near=0.0,
        within=HALF_A_POINT, **FIGURE | {"source": "Section 2.4"},
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        start.replace(" ", "-"), f"gain, {words} (points)",
        lambda t, p, labels, start=start: 100 * gain(t, p, labels, start) if len(areas(t, labels)) else None,
        each=over("labels", KINDS),
    )
    for start, words in STARTS.items()
    if start != "scratch"
] + [Number("known", "share of its random labels that pre-training fits", known, bounds=(0, 1))]  # fmt: skip
