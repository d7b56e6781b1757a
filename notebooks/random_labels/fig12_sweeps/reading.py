"""How much and how often pre-training on random labels helps over many settings (Figures 12 to 18, B)."""

import pandas as pd

from alignbook.claims import KeyNumber, interval
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting

from .. import sweep_analysis as sweep
from ..gains import KINDS
from .design import SECOND, SWEEPS

FIGURES = (*SWEEPS, *SECOND)
GUESS = {"12": 0.1, "13": 0.1, "14": 0.01, "15": 0.01, "17": 0.01}  # of CIFAR-10's and CIFAR-100's labels
NO_GAIN = 1.0  # points of area: a mean gain below this is none
OFTEN = 0.5  # share of the groups above which pre-training often helps: by chance half of them gain
RARELY = 0.1  # share of the groups below which pre-training hurts rarely
SLOWER = 1.0  # points of area: a group that loses more is slower
SEEN = {"design": "balanced", "groups": 20, "width": 8}  # the groups seen when "rarely" became their share
NEW = 3  # groups beyond those; fewer are not judged
ARRIVED = 0.9  # training accuracy in the end from which on a comparison is not of the start of learning alone
LEARNS = 0.5  # training accuracy in the end below which Figure 18's networks have hardly begun


def fitted(table, *figures, what="train", **values):
    """The points of ``figures`` of which pre-training has learned its labels."""
    return sweep.fitted(sweep.comparisons(table), *figures, what=what, **values)


def compared(table, parameters, *figures, **values):
    """Of the :func:`fitted` points those that are judged: in new groups, where one network has arrived.

    The plan of the groups beside ``SEEN`` asks that the better network end at ``ARRIVED``. Held-out images
    have no such condition.
    """
    return that_arrive(fitted(table, *figures, **values), parameters)


def that_arrive(points, parameters):
    """``points`` without those of which neither network ends at ``ARRIVED``, where that is a condition."""
    if is_seen(parameters) or points.empty:
        return points
    elsewhere = ~points["figure"].isin(list(SWEEPS))  # the plan is of Figures 12 and 13
    return points[elsewhere | points["reached"].isna() | (points["reached"] >= ARRIVED)]


def is_seen(parameters):
    """Whether these are the groups that had been seen when conditions and "rarely" were chosen."""
    return all(parameters[name] == value for name, value in SEEN.items())


def gains(*figures, **values):
    """Reading: mean gain (points) of the groups of ``figures`` that are :func:`compared`, by group."""
    return lambda t, p, **given: sweep.by_group(compared(t, p, *figures, **values | given))


def with_four(wins):
    """``wins``, by group, as 1.0 or 0.0, with two groups of either kind added.

    With these four the interval of a share is right for few groups, too, and where all are alike (A. Agresti
    and B. Coull, The American Statistician 52, 1998).
    """
    added = pd.Series([True, True, False, False]).rename_axis(wins.index.name)
    return pd.concat([wins, added]).astype(float) if len(wins) else wins


def helped(table, parameters):
    """Whether pre-training gains, by group: :func:`with_four`."""
    return with_four(sweep.by_group(compared(table, parameters, *SWEEPS)) > 0)


def slowed(table, parameters):
    """Whether pre-training costs more than ``SLOWER`` points, by group that is :func:`compared`."""
    return sweep.by_group(compared(table, parameters, *SWEEPS)) < -SLOWER


def unseen(table, parameters):
    """How many groups had not been seen when "rarely" became a share of them: of another design, all."""
    return 0 if is_seen(parameters) else len(slowed(table, parameters))


def detail_gains(figure, **values):
    """Reading: gain (points) in one of Figures 16 to 18, by seed."""
    return lambda t, p, **given: sweep.detail_gains(t, figure, **values | given)


def detail_fitted(figure):
    """The requirement that pre-training learned its labels, in one of Figures 16 to 18."""

    def known(table, parameters, labels="real"):
        points = sweep.detail(table, figure, labels)
        return points["known"].mean() if len(points) else None

    return Requirement("share of the random labels that pre-training fits", known, at_least=sweep.FITTED)


def learns(figure):
    """The requirement that networks learn the second task, in one of Figures 16 to 18 (ours)."""

    def reached(table, parameters, labels):
        points = sweep.detail(table, figure, labels)
        return points["reached"].mean() if len(points) else None

    return Requirement("training accuracy in the end, the better network", reached, at_least=LEARNS)


def beyond_guess(figure, points):
    """The requirement that held-out images of ``points(table)`` are told better than by a guess (ours)."""

    def exceeds(table, parameters):
        return sweep.above_guess(points(table), GUESS[figure])

    what = "test accuracy above chance, mean over training"
    return Requirement(what, exceeds, at_least=sweep.HELD_OUT)


# Mean gains of the groups that learned their labels took the place of shares of all groups when 52 groups
# with a fifth of the printed epochs had been seen: they are judged on groups with all of the epochs alone.
LONGER = Requirement(
    "share of the printed epochs upstream", lambda t, p, **given: p["epoch_share"], at_least=1.0
)
POST_HOC = "chosen after groups with a fifth of the printed epochs were seen; only longer ones are judged"
POINTS = {"matters": 1.0, "unit": "points", "because": "one point is the size of the figures' symbols"}
LATER = POINTS | {"requires": (LONGER,), "post_hoc": POST_HOC}
LABELS = {"each": lambda p: [Case(kind, words, {"labels": kind}) for kind, words in KINDS.items()]}
FASTER = LABELS | {"above": 0}
ONE_VGG = {"what": "test", "architecture": "vgg", "layers": "one"}

STATEMENTS = [
    Statement("faster", "Networks pre-trained on random labels train faster than networks from scratch.",
              "Section 4; Figures 12 and 13", gains(*SWEEPS), above=0, headline=True, **LATER),
    Statement("often", "It often helps: more than half of the groups train faster after pre-training.",
              "Section 4", helped, above=OFTEN, matters=0.1, unit="of the groups", ours=True,
              because="one group of ten", requires=(LONGER,), post_hoc=POST_HOC),
    Statement("rarely-hurts",
              "It rarely hurts: fewer than a tenth of the groups are slower by more than a point.",
              "Section 4", lambda t, p: with_four(slowed(t, p)), below=RARELY, matters=0.05, bounds=(0, 1),
              unit="of the groups", because="half of the tenth", ours=True,
              requires=(LONGER, Requirement("groups that had not been seen when this statement was chosen",
                                            unseen, at_least=NEW)),
              post_hoc="chosen when 91 groups had been seen; only groups of another design are judged"),
    *(Statement(f"faster-{figure}", f"{name} on CIFAR-10, all layers: pre-trained networks train faster.",
                f"Figure {figure}", gains(figure, layers="all"), **FASTER, **LATER)
      for figure, name in SWEEPS.items()),
    Statement("more-layers", "Transferring all layers helps more than transferring one.", "B.5",
              lambda t, p: sweep.layers_add(compared(t, p, *SWEEPS)), above=0, **LATER),
    Statement("resnet", "On CIFAR-10, ResNet-18 trains faster after pre-training, all layers.",
              "B.5; Figures 12 and 13", gains(*SWEEPS, architecture="resnet", layers="all"), above=0,
              **LATER),
    Statement("resnet-second", "On ImageNet's stand-in, ResNet-18 trains faster after pre-training.",
              "B.3 to B.5", gains(*SECOND, architecture="resnet", layers="all"), **FASTER, **LATER),
    Statement("others-second",
              "On ImageNet's stand-in with fewer examples, SimpleCNN and VGG-16 gain nothing.",
              "B.4; Figure 15", gains("15", architecture=["cnn", "vgg"], layers="all"), below=NO_GAIN,
              **LABELS, **LATER),
    Statement("figure-16", "Figure 16's ResNet-18 trains faster after pre-training.", "B.6, Figure 16",
              detail_gains("16"), requires=(detail_fitted("16"),), **FASTER, **POINTS),
    Statement("figure-18", "Figure 18's VGG-16 trains more slowly after pre-training.", "B.6, Figure 18",
              detail_gains("18"), requires=(detail_fitted("18"), learns("18")), below=0, **LABELS,
              **POINTS),
    Statement("test-12-vgg", "Transferring one layer of VGG-16 improves test accuracy on real labels.",
              "B.1, Figure 12", gains("12", **ONE_VGG), above=0, ours=True, post_hoc=POST_HOC, **POINTS,
              requires=(LONGER, beyond_guess("12", lambda t: fitted(t, "12", **ONE_VGG)))),
    Statement("test-13-none", "In Experiments B (Figure 13) pre-training does not improve test accuracy.",
              "B.2, Figure 13", gains("13", what="test"), below=NO_GAIN, ours=True, post_hoc=POST_HOC,
              requires=(LONGER, beyond_guess("13", lambda t: fitted(t, "13", what="test"))), **POINTS),
    Statement("test-17", "Figure 17's VGG-16 has a better test accuracy after pre-training.",
              "B.6, Figure 17", detail_gains("17", labels="real", what="test"), above=0, ours=True,
              requires=(detail_fitted("17"),
                        beyond_guess("17", lambda t: sweep.detail(t, "17", "real", what="test"))), **POINTS),
    *(Statement(f"decides-{factor.replace('_', '-')}", f"{word} makes the effect more negative.",
                "Section 1.1, Figure 1",
                lambda t, p, factor=factor: sweep.effect(compared(t, p, *SWEEPS), factor),
                below=0, ours=True, **LATER)
      for factor, word in (("init_scale", "A larger initial scale"),
                           ("upstream_classes", "A larger number of classes"))),
]  # fmt: skip

SAID = by_verdict(
    holds="Where pre-training has learned its random labels, networks train faster afterwards",
    contradicted="Where pre-training has learned its random labels, networks train more slowly afterwards",
    absent="Where pre-training has learned its random labels, it makes too little difference to matter",
    undecided="It is undecided whether networks train faster after learning random labels",
    not_judged="Whether pre-training often helps is left to longer runs, in which more networks learn "
    "their labels",
)


def arrived(points):
    """{architecture: (points of which the better network ends at ``ARRIVED``, points)}."""
    if points.empty:
        return {}
    there = (points["reached"] >= ARRIVED).groupby(points["architecture"])
    return {name: (int(part.sum()), len(part)) for name, part in there}


def finding(table, parameters, claims):
    """Whether networks train faster, by how much on average, and how many groups are faster or slower."""
    outcome, good = claims["faster"].outcome, compared(table, parameters, *SWEEPS)
    if outcome not in SAID:
        return "No network of the sweeps learned both tasks: there is nothing to compare."
    if good.empty:
        return f"{SAID[outcome]}."
    gain, slower = sweep.by_group(good), slowed(table, parameters)
    text = f"{SAID[outcome]}: pre-training {'adds' if gain.mean() > 0 else 'takes'} {abs(gain.mean()):.1f} "
    text += "points of accuracy on average and slows "
    text += f"{100 * slower.mean():.0f} % of our groups of networks by more than a point."
    there, points = arrived(fitted(table, *SWEEPS)).get("vgg", (0, 0))
    caveat = ""
    if parameters["vgg_scales"][0] > parameters["scales_12"][0]:
        caveat = " VGG-16 ran at large initial scales only."
    if there < points / 2:
        caveat = " VGG-16 is stopped before it has learned."
    return fitting(text + caveat, text)


def key_numbers(table, parameters):
    """The gain of the groups that learned their labels, how many of their points gain, what layers add."""
    found = compared(table, parameters, *SWEEPS)
    if found.empty:
        return []
    share, more = sweep.exact(found["below"])[0], interval(sweep.layers_add(found), "{:+.1f}")
    return [
        KeyNumber(
            "gain where pre-training learned its labels (points)", interval(sweep.by_group(found), "{:+.1f}")
        ),
        KeyNumber(
            "share of these comparisons in which pre-training is faster", f"{100 * share:.0f} %", "very often"
        ),
        KeyNumber("further gain from transferring all layers instead of one (points)", more, "positive"),
    ]
