"""Do random labels of one domain harm alignment with another, and accuracy there? (Figure 16 and Table 1)"""

from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, rank_correlation, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, joined, listed, over_cases

from ..curve_order import percent_above
from .design import DOMAINS, NONE

# Table 1: start (the source), target, accuracy in percent.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
# data/plans/representation_alignment.yaml
TWENTIETH = "a twentieth of the area that is there could hardly be seen between two drawn curves"
PAPER_RATE = 0.001  # of fine-tuning, Appendix D
POINT = "some 400 to 1,000 test images give an accuracy to one or two points"


def pairs(parameters):
    """[(source, target)], all six ordered pairs of domains; the larger source of a target comes first."""
    return list(permutations(DOMAINS[parameters["domains"]], 2))


def named(parameters, start, target):
    """``street digits to coarse digits``"""
    names = DOMAINS[parameters["domains"]]
    return f"{names[start]} to {names[target]}"


def values(table, kind, column, target):
    """(seeds × sources) frame of ``column`` on one target; one of the sources is ``none``."""
    return curves(at(table, kind=kind, target=target), "start", column)


def accuracy_fall(table, parameters, start, target):
    """Accuracy without a source less that with one, in points, by seed."""
    found = values(table, "accuracy", "accuracy", target)
    return difference(found[NONE], found[start]) if {NONE, start} <= set(found) else None


def alignment_fall(table, parameters, start, target):
    """Area without a source less that with one, in percent of the former, by seed."""
    found = values(table, "area", "area", target)
    if not {NONE, start} <= set(found):
        return None
    return 100 * (difference(found[NONE], found[start]) / found[NONE]).dropna()


def falls(table, parameters, fall):
    """(seeds × pairs) frame of ``fall``, one of the two above."""
    found = {f"{s}-{t}": fall(table, parameters, s, t) for s, t in pairs(parameters)}
    found = {name: one for name, one in found.items() if one is not None}
    return pd.DataFrame(found).rename_axis("seed")


def by_size(table, parameters, fall, target):
    """How much more the larger of the two other domains harms a target than the smaller one, by seed."""
    larger, smaller = (start for start, one in pairs(parameters) if one == target)
    both = [fall(table, parameters, start, target) for start in (larger, smaller)]
    return None if any(one is None for one in both) else difference(*both)


def ranks(table, parameters, target):
    """How much more accuracy falls with the source that lowers a target's alignment more, by seed."""
    aligned, accurate = (by_size(table, parameters, fall, target) for fall in (alignment_fall, accuracy_fall))
    return None if aligned is None or accurate is None else (np.sign(aligned) * accurate).dropna()


def by_source(table, parameters):
    """(sources × ``area`` and ``accuracy``) frame of mean falls over the targets and runs."""
    columns = {"area": alignment_fall, "accuracy": accuracy_fall}
    means = {name: falls(table, parameters, fall).mean() for name, fall in columns.items()}
    return pd.DataFrame(means).groupby(lambda pair: pair.split("-")[0], sort=False).mean()


def order(table, parameters):
    """Whether sources that lower alignment more lower accuracy more, on average over their targets.

    ``"same"`` order, ``"reverse"``, or ``"mixed"``.
    """
    ranked = by_source(table, parameters).rank()
    if ranked["area"].equals(ranked["accuracy"]):
        return "same"
    return "reverse" if ranked["area"].equals(len(ranked) + 1 - ranked["accuracy"]) else "mixed"


def both_curves(table, start, target):
    """Two (seeds × thresholds) frames of alignment over ‖y‖²: without a source, and with one."""
    return [
        curves(at(table, kind="curve", target=target, start=one), "threshold", "alignment")
        for one in (NONE, start)
    ]


def curve_falls(table, start, target):
    """(seeds × thresholds) frame: alignment over ‖y‖² without a source less that with one."""
    without, after = both_curves(table, start, target)
    return (without - after).dropna()


def lower_at(table, start, target):
    """``67 %``: the thresholds at which a source lowers the curve, of those at which it changes it."""
    return percent_above(*both_curves(table, start, target))


def printed_fall(parameters, start, target):
    """The fall of accuracy in Table 1; None of domains that are not the paper's."""
    found = at(PRINTED, target=target).set_index("start")["accuracy"]
    return float(found[NONE] - found[start]) if start in found else None


def untouched(table, parameters, **given):
    """The lowest of the targets' mean accuracies without a source, percent."""
    targets = DOMAINS[parameters["domains"]]
    means = [sample(at(table, kind="accuracy", target=t, start=NONE), "accuracy").mean() for t in targets]
    return float(np.min(means))


def fitted(table, parameters, start=None, **given):
    """Mean share of the random labels learned on ``start``, percent; the least of all sources without it."""
    starts = DOMAINS[parameters["domains"]] if start is None else [start]
    return float(np.min([sample(at(table, kind="source", start=one), "fitted").mean() for one in starts]))


BASE = Requirement(
    "the base network was trained on ImageNet, as the paper's is",
    lambda t, p, **given: p["base"] == "imagenet",
    because="Otherwise, the paper says, all final accuracies would be low",
)  # fmt: skip
LEARNED = (
    BASE,
    Requirement("lowest accuracy without a source, in percent", untouched, at_least=50),
    Requirement("random labels that the network has learned on the source, in percent", fitted, at_least=95),
)
AREA = {"above": 0, "matters": 5.0, "because": TWENTIETH, "unit": "% of the area", "requires": LEARNED}
POINTS = {"above": 0, "matters": 1.0, "because": POINT, "unit": "points", "requires": LEARNED}


def each_pair(parameters):
    """Cases: the ordered pairs of domains."""
    return [
        Case(f"{s}-{t}", named(parameters, s, t), {"start": s, "target": t}) for s, t in pairs(parameters)
    ]


def each_target(fall):
    """Cases for ``each``: the targets, with one of the two falls."""
    return lambda p: [
        Case(key, f"target: {name}", {"fall": fall, "target": key})
        for key, name in DOMAINS[p["domains"]].items()
    ]


def targets(parameters):
    """Cases: the targets."""
    return [
        Case(key, f"target: {name}", {"target": key}) for key, name in DOMAINS[parameters["domains"]].items()
    ]


STATEMENTS = [
    Statement(
        "alignment", "Pre-training on random labels of another domain reduces alignment with the target.",
        source="Figure 16, Section 7.3", of=alignment_fall, each=each_pair, headline=True, **AREA,
    ),
    Statement(
        "accuracy", "It reduces the accuracy on the target after fine-tuning.",
        source="Table 1, Section 7.3", of=accuracy_fall, each=each_pair, paper=printed_fall, **POINTS,
    ),
    Statement(
        "ranks",
        "Of a target's two sources, the one that reduces alignment more reduces accuracy more.",
        source="Figure 16, Table 1, Section 7.3", of=ranks, each=targets, **POINTS, seen=6,
        post_hoc="a rank correlation over the six pairs was planned; its verdict was contradicted",
    ),
    Statement(
        "size-alignment", "Of two sources, the one with more images (Amazon most, DSLR fewest) reduces "
        "alignment more.",
        source="Figure 16, Section 7.3; that size tells is ours", of=by_size,
        each=each_target(alignment_fall), ours=True, **AREA,
    ),
    Statement(
        "size-accuracy", "Of two sources, the one with more images reduces accuracy more.",
        source="Table 1, Section 7.3; that size tells is ours", of=by_size,
        each=each_target(accuracy_fall), ours=True, **POINTS,
    ),
]  # fmt: skip

UNFIT = (
    "Our base network cannot test whether random labels of another domain harm alignment and accuracy: it "
    "was not trained on ImageNet, and {falls}. "
)


ACROSS = by_verdict(
    holds="of two sources, the one that lowers alignment more lowers accuracy more",
    contradicted="of two sources, the one that lowers alignment more lowers accuracy less",
    absent="of two sources, the one that lowers alignment more lowers accuracy no more than the other",
    undecided="whether the source that lowers alignment more also lowers accuracy more is undecided",
    not_judged="whether the source that lowers alignment more also lowers accuracy more is not judged",
)
# Fine-tuning ran at ten times the paper's rate in batches an eighth as large.
REPAIR = ", and our larger fine-tuning steps may repair harm."


def finding(table, parameters, claims):
    """In how many pairs alignment and accuracy fall; of a base network that cannot tell, why."""
    aligned, accurate = (falls(table, parameters, fall) for fall in (alignment_fall, accuracy_fall))
    if aligned.empty or accurate.empty:
        return "No run has finished."
    outcomes = [
        [claims[f"{id}-{case.id}"].outcome for case in each_pair(parameters)]
        for id in ("alignment", "accuracy")
    ]
    one, other = map(Counter, outcomes)
    if set(one) == {NOT_JUDGED}:
        most, printed = accurate.mean().max(), _printed_falls()
        harm = (
            f"a source costs it at most {most:.1f} points of accuracy" if most > 0 else "no source harms it"
        )
        said = f"{harm}, where the paper's loses at least {min(printed):.0f}"
        return UNFIT.format(falls=said) + _stand_in(parameters)
    said = _tallies(one, other, both=sum(pair == (HOLDS, HOLDS) for pair in zip(*outcomes, strict=True)))
    ids = [f"ranks-{case.id}" for case in targets(parameters)]
    text = joined(said, over_cases(claims, ids, ACROSS))
    plain = _stand_in(parameters)
    stands = [plain, plain.split(", ")[0].rstrip(".") + "."]
    if parameters["tune_learning_rate"] > PAPER_RATE:
        stands = [one.rstrip(".") + REPAIR for one in stands] + stands
    return fitting(*(f"{one}. {stand}" for one in (text, said) for stand in stands))


def _printed_falls():
    """The six falls of accuracy in Table 1, points."""
    domains = DOMAINS["office31"]
    return [printed_fall({"domains": "office31"}, *pair) for pair in permutations(domains, 2)]


def _stand_in(parameters):
    """``Digits stand in for Office-31, EfficientNet-Lite0 for ResNet-18.``"""
    network = "EfficientNet-Lite0" if parameters["base"] == "imagenet" else "A small network"
    if parameters["domains"] == "office31":
        return f"{network} stands in for ResNet-18."
    network = network.replace("A small", "a small")
    return f"Digits stand in for Office-31, {network} for ResNet-18."


def _tallies(one, other, both):
    """In how many pairs alignment falls and in how many accuracy, with what became of the others.

    both : in how many of the pairs both fall, which is said where it is fewer than either
    """
    (aligned, rest), (accurate, more) = map(_tally, (one, other))
    rest = rest * (rest != more)  # said once where it is the same
    together = f", both in {both}" * (both < min(one[HOLDS], other[HOLDS]))
    if not rest:
        accurate = accurate.removesuffix(f" of {other.total()} pairs")
    return (
        f"Learning another domain's random labels lowers alignment in {aligned}{rest} and "
        f"accuracy in {accurate}{more}{together}"
    )


REST = {CONTRADICTED: "raised", ABSENT: "unchanged", UNDECIDED: "undecided", NOT_JUDGED: "not judged"}


def _tally(counts):
    """``4 of 6 pairs`` and `` (raised or undecided in the rest)``; the latter is empty if there is none."""
    rest = [words for outcome, words in REST.items() if counts[outcome]]
    if not rest:
        return f"all {counts.total()} pairs", ""
    return f"{counts[HOLDS] or 'none'} of {counts.total()} pairs", f" ({' or '.join(rest)} in the rest)"


def key_numbers(table, parameters):
    """Mean falls over the pairs, and how much of the random labels the networks have fitted."""
    aligned, accurate = (falls(table, parameters, fall) for fall in (alignment_fall, accuracy_fall))
    if aligned.empty or accurate.empty:
        return []
    domains = DOMAINS[parameters["domains"]]
    printed = f"{-np.mean(_printed_falls()):+.1f}"
    fitted = [sample(at(table, kind="source", start=one), "fitted").mean() for one in domains]
    return [
        KeyNumber(
            "change of alignment (area under the curve), mean over the pairs",
            f"{-aligned.mean().mean():+.0f} %",
        ),
        KeyNumber(
            "change of accuracy, points, mean over the pairs (paper: of Office-31)",
            f"{-accurate.mean().mean():+.1f}",
            printed,
        ),
        KeyNumber(
            "random labels fitted, the source with fewest (%)",
            f"{min(fitted):.0f}",
        ),
    ]


def told_by_source(table, parameters):
    """How the sources compare, on average over their targets and for each target; prose, or nothing."""
    found = by_source(table, parameters)
    if found.empty:
        return ""
    names = DOMAINS[parameters["domains"]]
    order_of = {
        "same": "the source that lowers alignment more lowers accuracy more",
        "reverse": "the source that lowers alignment more lowers accuracy less",
        "mixed": "the two orders differ, but neither is the reverse of the other",
    }  # fmt: skip
    each = [f"{names[one]} {-a:+.0f} % and {-b:+.1f} points" for one, a, b in found.itertuples()]
    aligned, accurate = (falls(table, parameters, fall) for fall in (alignment_fall, accuracy_fall))
    planned = interval(rank_correlation(aligned, accurate), "{:.2f}")
    more = {one: ranks(table, parameters, one).mean() > 0 for one in names}
    targets_of = {so: listed(names[one] for one in more if more[one] == so) for so in {*more.values()}}
    within = ", and ".join(
        f"it lowers accuracy {word} with {targets_of[so]} as the target"
        for so, word in ((True, "more"), (False, "less")) if so in targets_of
    )  # fmt: skip
    return (
        f"On average over their targets, the sources change alignment and accuracy by: {'; '.join(each)}. By "
        f"these means, {order_of[order(table, parameters)]}. The rank correlation of the two falls over the "
        f"six pairs, which we had planned to judge, is {planned}. Both mix sources with targets, since each "
        "source has other targets. So we also take, in each run and for each target, the source that lowers "
        f"alignment more: on average, {within}. We looked at all this afterwards; it is not judged."
    )


def accuracy_table(table, parameters):
    """Table 1 of our domains: source by target, 95 % intervals; a frame for show."""
    domains = DOMAINS[parameters["domains"]]
    rows = {}
    for start, called in {NONE: "none", **domains}.items():
        rows[called] = {}
        for target, name in domains.items():
            found = values(table, "accuracy", "accuracy", target)
            rows[called][name] = interval(found[start], "{:.1f}", (0, 100)) if start in found else "–"
    return pd.DataFrame(rows).T.rename_axis("source \\ target")


def printed_table():
    """Table 1 as it is printed, a frame for show."""
    names = DOMAINS["office31"]
    wide = PRINTED.pivot(index="start", columns="target", values="accuracy")
    wide = wide.loc[[NONE, *names], list(names)].map(lambda value: f"{value:.1f}", na_action="ignore")
    return wide.rename(index=names, columns=names).rename_axis(index="source \\ target", columns=None)
