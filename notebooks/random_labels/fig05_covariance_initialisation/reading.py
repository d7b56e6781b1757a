"""How much of pre-training's gain filters drawn from the learned covariance recover (Figure 5)."""

import pandas as pd

from alignbook.claims import UNDECIDED, KeyNumber, interval, t_interval
from alignbook.over_seeds import across, at, difference, once
from alignbook.statements import Requirement, Statement, over
from alignbook.wording import IT, by_verdict, first_unmet, fitting, others

from ..gains import KINDS, VISIBLE, mean_accuracy
from ..gains import gain as gain_of
from .design import STARTS

MARGIN = 0.25  # of the gain, within which the effect counts as recovered; fixed before the first run
HALF_A_POINT = 0.005  # of accuracy: less than half of what rescaling takes away with real labels
POINT = 0.01  # of accuracy, on average over training
LEARNED = 0.95  # of the random labels, as in Figures 1, 3 and 12 and Table 7


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


def missed(table, parameters, labels, whole):
    """The covariance's gain less that of the start ``whole``, over the latter's mean gain, by seed."""
    apart = gain(table, parameters, labels, "covariance", whole)
    return None if apart is None else apart / abs(gain(table, parameters, labels, whole).mean())


def by_covariance(values, parameters):
    """Means over the seeds that share a covariance; indexed by the number of the covariance."""
    return values.groupby(values.index // parameters["group"]).mean().rename_axis("covariance")


def missed_by_covariance(table, parameters, labels):
    """:func:`missed` of the pre-trained filters, one value per covariance, which are independent."""
    found = missed(table, parameters, labels, "no bias")
    return None if found is None else by_covariance(found, parameters)


def surely(table, parameters, labels, whole="no bias"):
    """Lower end of the 95 % interval of the gain of ``whole``, share of accuracy; None without one."""
    found = gain(table, parameters, labels, whole)
    ends = None if found is None else t_interval(found)[2]
    return ends and ends[0]


def known(table):
    """Share of the random labels that pre-training fits, by seed; empty where it is not stored."""
    return table.groupby("seed")["upstream_accuracy"].first() if "upstream_accuracy" in table else pd.Series()


def by_ell1(table, parameters, labels):
    """Mean accuracy over training: pre-trained and scaled back to ℓ1 norms, less ℓ2 norms, by seed."""
    return gain_of(at(table, labels=labels), "ell1", "pretrained")


PRETRAINED = Requirement(
    "share of the random labels that pre-training fits",
    lambda t, p, **given: known(t).mean(),
    at_least=LEARNED,
)


def recovered(id, text, of, whole, requires=(), **more):
    """The statement that drawn filters gain as much as the start ``whole``: an equivalence within MARGIN."""
    there = Requirement(
        "lower end of the 95 % interval of the gain to be recovered",
        lambda t, p, labels: surely(t, p, labels, whole),
        at_least=0.0,
    )
    return Statement(
        id, text, source="Figure 5, Section 2.4", of=of, near=0.0, within=MARGIN, matters=MARGIN,
        unit="of the gain to be recovered", because="fixed as the margin before the first run",
        requires=(there, *requires), each=over("labels", KINDS), **more,
    )  # fmt: skip


def faster(id, text, one, other="scratch", **more):
    """The statement that start ``one`` trains faster than ``other``."""
    return Statement(
        id, text, source="Figure 5, Section 2.4", of=lambda t, p, labels: gain(t, p, labels, one, other),
        above=0, matters=POINT, unit="of accuracy", because=VISIBLE,
        each=over("labels", KINDS), **more,
    )  # fmt: skip


STATEMENTS = [
    recovered(
        "recovers",
        "Filters drawn from the learned covariance gain as much as the pre-trained filters alone, to within "
        "a quarter.",
        lambda t, p, labels: missed(t, p, labels, "no bias"), "no bias", headline=True,
    ),
    recovered(
        "means",
        "With each covariance counted once, by the mean over its seeds, filters drawn from it gain as much "
        "as the pre-trained filters alone, to within a quarter.",
        missed_by_covariance, "no bias", ours=True,
    ),
    recovered(
        "all",
        "Filters drawn from the learned covariance gain as much as the whole pre-trained network, to within "
        "a quarter.",
        lambda t, p, labels: missed(t, p, labels, "pretrained"), "pretrained", requires=(PRETRAINED,),
    ),
    faster(
        "gains", "A pre-trained and rescaled network trains faster than one from scratch.", "pretrained",
        requires=(PRETRAINED,),
    ),
    faster("filters", "Pre-trained filters alone, without biases, already train faster.", "no bias"),
    faster(
        "scale", "Without rescaling, pre-training gains more: part of its effect is the weights' scale.",
        "unscaled", "pretrained", requires=(PRETRAINED,),
    ),
    Statement(
        "ell1", "Rescaling by ℓ1 norms gives results similar to rescaling by ℓ2 norms.", source="Section 2.4",
        of=by_ell1, near=0.0, within=HALF_A_POINT, unit="of accuracy", each=over("labels", KINDS),
        requires=(PRETRAINED,),
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="filters drawn from the learned covariance help as much as the trained ones",
    absent="filters drawn from the learned covariance do not gain less than the pre-trained ones",
    contradicted="filters drawn from the learned covariance and the trained ones do not help equally",
    undecided="it is undecided whether filters drawn from the learned covariance match the trained ones",
    not_judged="we do not judge whether drawn filters recover the gain of pre-training, since there is no "
    "clear gain",
)
BESIDE = IT | {UNDECIDED: "it is undecided, as seeds scatter too widely"}
WHOLE = by_verdict(
    holds="They also gain as much as the whole network",
    absent="They also gain no less than the whole network",
    contradicted="They and the whole network do not gain equally",
    undecided="Whether they gain as much as the whole network is undecided",
    not_judged="They are not compared with the whole network{}",
)


def finding(table, parameters, claims):
    """Whether the drawn filters gain as much as the trained ones, and as the whole network."""
    first, *rest = parameters["labels"]
    found, outcome = gains(table, first), claims[f"recovers-{first}"].outcome
    if outcome not in SAID or not len(found):
        return "No run has finished: there is nothing to compare."
    drawn, trained = (found[start].mean() for start in ("covariance", "no bias"))
    text = f"With {KINDS[first]}, {SAID[outcome]}: they gain {drawn:.1f} points of accuracy, the trained "
    text += f"ones {trained:.1f}{', too noisy for our margin' * (outcome == UNDECIDED)}"
    text += others(outcome, {KINDS[kind]: claims[f"recovers-{kind}"].outcome for kind in rest}, BESIDE) + "."
    whole = claims[f"all-{first}"]
    why = first_unmet(whole, {PRETRAINED.text: ", which fits too few random labels"}, "")
    beside = f" {WHOLE[whole.outcome]}." if whole.outcome in WHOLE else ""
    return fitting(text + beside.format(why), text + beside.format(""), text)


def key_numbers(table, parameters):
    """The gain of the drawn filters less that of the pre-trained ones, for each kind of labels."""
    found = {kind: gains(table, kind) for kind in parameters["labels"]}
    return [
        KeyNumber(
            f"gain by drawn filters less gain by pre-trained ones, {KINDS[kind]} (points)",
            interval(values["covariance"] - values["no bias"], "{:+.1f}"),
        )
        for kind, values in found.items()
        if len(values)
    ]
