"""How much and how often pre-training on random labels helps over many settings (Figures 12 to 18, B)."""

from dataclasses import replace

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import agree, at
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, listed, sentences, unmet

from .. import sweep_analysis as sweep
from ..gains import KINDS
from ..initial_scales import within
from .design import ARCHITECTURES, SECOND, SWEEPS

FIGURES = (*SWEEPS, *SECOND)
DECIDED = (HOLDS, CONTRADICTED, ABSENT)  # where a finding says how large the gain is
GUESS = {"12": 0.1, "13": 0.1, "14": 0.01, "15": 0.01, "17": 0.01}  # of CIFAR-10's and CIFAR-100's labels
NO_GAIN = 1.0  # points of area over the epochs that are run: a mean gain below this is none
OFTEN = 0.5  # share of the groups above which pre-training often helps: by chance half of them gain
RARELY = 0.1  # share of the groups below which pre-training hurts rarely
SLOWER = 1.0  # points of area over the epochs that are run: a group that loses more is slower
SEEN = {"design": "balanced", "groups": 20, "width": 8}  # the groups seen when "rarely" became their share
NEW = 3  # groups beyond those; fewer are not judged
ARRIVED = 0.9  # training accuracy in the end from which on a comparison is not of the start of learning alone
SAME = f"the verdict is the same over groups all of whose points end at {100 * ARRIVED:g} %"
LEARNS = 0.5  # training accuracy in the end below which Figure 18's networks have hardly begun


def fitted(table, *figures, what="train", **values):
    """The points of ``figures``, seed by seed, of which pre-training has learned its labels."""
    return sweep.fitted(sweep.per_seed(table), *figures, what=what, **values)


def compared(table, parameters, *figures, **values):
    """Of the :func:`fitted` points those that are judged: in new groups, where one network has arrived.

    The plan of the groups beside ``SEEN`` asks that the better network end at ``ARRIVED``. Held-out images
    have no such condition.
    """
    return that_arrive(fitted(table, *figures, **values), parameters)


def that_arrive(points, parameters, entire=False):
    """``points`` without those of which neither network ends at ``ARRIVED``, where that is a condition.

    entire : without their groups, too
    """
    if is_seen(parameters) or points.empty:
        return points
    elsewhere = ~points["figure"].isin(list(SWEEPS))  # the plan is of Figures 12 and 13
    there = elsewhere | points["reached"].isna() | (points["reached"] >= ARRIVED)
    return points[there.groupby([points["seed"], points["group"]]).transform("all") if entire else there]


def is_seen(parameters):
    """Whether these are the groups that had been seen when conditions and "rarely" were chosen."""
    return all(parameters[name] == value for name, value in SEEN.items())


def over_groups(measure, *figures, **values):
    """Reading: mean of ``measure(points)``, over the groups that are :func:`compared`, by seed."""
    return lambda t, p, **given: sweep.by_seed(compared(t, p, *figures, **values | given), measure)


def entire(measure, matters, above=0, sign=1, **values):
    """The condition that groups which keep all of their points give a reading's verdict, too.

    What :func:`that_arrive` leaves of a group is some of its points, whose labels and numbers of layers then
    decide what the group's gain is. sign : -1 where the statement is "below ``above``"
    """

    def same(table, parameters, **given):
        points = fitted(table, *SWEEPS, **values | given)
        ways = (that_arrive(points, parameters, whole) for whole in (False, True))
        found = (sign * sweep.by_seed(way, measure) for way in ways)
        return agree(*found, matters=matters, above=sign * above)

    return Requirement(
        SAME, same,
        because="Of the other groups only some points count, and with them the mean can change its sign",
    )  # fmt: skip


def gains(*figures, **values):
    """Reading: mean gain (points) of the groups of ``figures`` that are :func:`compared`, by seed."""
    return over_groups(sweep.by_group, *figures, **values)


def helped(points):
    """Whether pre-training gains, by group."""
    return sweep.by_group(points) > 0


def slowed(points, more_than=SLOWER):
    """Whether pre-training costs more than ``SLOWER`` points, or another number of them, by group."""
    return sweep.by_group(points) < -more_than


def unseen(table, parameters, **given):
    """How many groups had not been seen when "rarely" became a share of them: of another design, all."""
    return 0 if is_seen(parameters) else len(slowed(compared(table, parameters, *SWEEPS, **given)))


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

    def exceeds(table, parameters, **given):
        return sweep.above_guess(points(table, **given), GUESS[figure])

    what = "test accuracy above chance, mean over training"
    return Requirement(what, exceeds, at_least=sweep.HELD_OUT)


# Mean gains of the groups that learned their labels took the place of shares of all groups when 52 groups
# with a fifth of the printed epochs had been seen: they are judged on groups with all of the epochs alone.
LONGER = Requirement(
    "share of the printed epochs upstream", lambda t, p, **given: p["epoch_share"], at_least=1.0
)
POST_HOC = "chosen after groups with a fifth of the printed epochs were seen; only longer ones are judged"


def share_drawn(table, parameters, architecture=None, **given):
    """The lesser share of Figures 12 and 13's initial scales from which an architecture is drawn."""
    if architecture != "vgg":
        return 1.0
    ranges = [parameters[f"scales_{figure}"] for figure in SWEEPS]
    return min(_length(within(parameters, scales)) / _length(scales) for scales in ranges)


def _length(scales):
    return scales[1] - scales[0]


DRAWN = Requirement(
    "share of the paper's initial scales that are drawn", share_drawn, at_least=0.5,
    because="In the paper the scale decides whether pre-training helps; we draw VGG-16 from a part of them",
)  # fmt: skip
VGG_DRAWN = replace(DRAWN, of=lambda t, p, **given: share_drawn(t, p, "vgg"))  # where no case names it


def share_run(table, parameters, architecture):
    """Share of Figures 12 and 13's epochs downstream that an architecture's areas are over."""
    return min(1.0, parameters[f"{architecture}_stops"] / parameters["epochs"])


WHOLE = Requirement(
    "share of the epochs downstream that the areas are over", share_run, at_least=0.95,
    because="A point of area over the first epochs alone may be less than a tenth of the paper's",
)  # fmt: skip
POINTS = {
    "matters": 1.0, "unit": "points",
    "because": "fixed as the size of the symbols in the paper's figures, whose areas are over all epochs; "
    "over the first ones alone, as at profile quick, a point is a smaller effect if the curves meet later",
}  # fmt: skip
LATER = POINTS | {"requires": (LONGER, DRAWN), "post_hoc": POST_HOC}


def pooled(measure, sign=1):
    """What a statement needs that is about all labels and layers together; arguments as of :func:`entire`."""
    return LATER | {"requires": (LONGER, DRAWN, entire(measure, POINTS["matters"], sign=sign))}


def effect_of(factor):
    """The measure :func:`.sweep_analysis.effect` of one factor."""
    return lambda points: sweep.effect(points, factor)


LABELS = {"each": lambda p: [Case(kind, words, {"labels": kind}) for kind, words in KINDS.items()]}
FASTER = LABELS | {"above": 0}
# Architectures are design variables: none is averaged with another.
EACH = {"each": lambda p: [Case(key, name, {"architecture": key}) for key, name in ARCHITECTURES.items()]}


def labels_and(*architectures):
    """Cases for ``each``: a kind of labels and an architecture."""
    return {
        "each": lambda p: [
            Case(f"{kind}-{key}", f"{ARCHITECTURES[key]}, {words}", {"labels": kind, "architecture": key})
            for kind, words in KINDS.items()
            for key in architectures
        ]
    }


ONE_VGG = {"what": "test", "architecture": "vgg", "layers": "one"}

STATEMENTS = [
    Statement("faster", "Networks pre-trained on random labels train faster than networks from scratch.",
              "Section 4; Figures 12 and 13", gains(*SWEEPS), above=0, headline=True, **EACH,
              **pooled(sweep.by_group)),
    Statement("often", "It often helps: more than half of the groups train faster after pre-training.",
              "Section 4", over_groups(helped, *SWEEPS), above=OFTEN, matters=0.1, unit="of the groups",
              because="one group of ten", requires=(LONGER, DRAWN, entire(helped, 0.1, OFTEN)),
              post_hoc=POST_HOC, bounds=(0, 1), ours=True, **EACH),
    Statement("rarely-hurts",
              "It rarely hurts: fewer than a tenth of the groups are slower by more than a point, on average "
              "over the epochs that are run.",
              "Section 4", over_groups(slowed, *SWEEPS), below=RARELY, matters=0.05, bounds=(0, 1),
              unit="of the groups", because="half of the tenth", ours=True, **EACH,
              requires=(LONGER, DRAWN, WHOLE,
                        Requirement("groups that had not been seen when this statement was chosen",
                                    unseen, at_least=NEW),
                        entire(slowed, 0.05, RARELY, sign=-1)),
              post_hoc="chosen when 91 groups had been seen; only groups of another design are judged"),
    *(Statement(f"faster-{figure}", f"{name} on CIFAR-10, all layers: pre-trained networks train faster.",
                f"Figure {figure}", gains(figure, layers="all"), above=0, **labels_and(*ARCHITECTURES),
                **LATER)
      for figure, name in SWEEPS.items()),
    Statement("more-layers",
              "Generally, that is on average over the groups, transferring all layers helps more than "
              "transferring one.", "B.5",
              over_groups(sweep.layers_add, *SWEEPS), above=0, **EACH, **pooled(sweep.layers_add)),
    Statement("resnet", "On CIFAR-10, ResNet-18 trains faster after pre-training, all layers.",
              "B.5; Figures 12 and 13", gains(*SWEEPS, architecture="resnet", layers="all"), above=0,
              **LATER | {"requires": (LONGER, entire(sweep.by_group, POINTS["matters"],
                                                     architecture="resnet", layers="all"))}),
    Statement("resnet-second", "On ImageNet's stand-in, ResNet-18 trains faster after pre-training.",
              "B.3 to B.5", gains(*SECOND, architecture="resnet", layers="all"), **FASTER, **LATER),
    Statement("others-second",
              "On ImageNet's stand-in with fewer examples, SimpleCNN and VGG-16 gain nothing.",
              "B.4; Figure 15", gains("15", layers="all"), below=NO_GAIN, **labels_and("cnn", "vgg"),
              **LATER),
    Statement("figure-16", "Figure 16's ResNet-18 trains faster after pre-training.", "B.6, Figure 16",
              detail_gains("16"), requires=(detail_fitted("16"),), **FASTER, **POINTS),
    Statement("figure-18", "Figure 18's VGG-16 trains more slowly after pre-training.", "B.6, Figure 18",
              detail_gains("18"), requires=(detail_fitted("18"), VGG_DRAWN, learns("18")), below=0, **LABELS,
              **POINTS),
    Statement("test-12-vgg", "Transferring one layer of VGG-16 improves test accuracy on real labels.",
              "B.1, Figure 12", gains("12", **ONE_VGG), above=0, ours=True, post_hoc=POST_HOC, **POINTS,
              requires=(LONGER, VGG_DRAWN, beyond_guess("12", lambda t: fitted(t, "12", **ONE_VGG)))),
    Statement("test-13-none", "In Experiments B (Figure 13) pre-training does not improve test accuracy.",
              "B.2, Figure 13", gains("13", what="test"), below=NO_GAIN, ours=True, post_hoc=POST_HOC,
              requires=(LONGER, DRAWN,
                        beyond_guess("13", lambda t, **given: fitted(t, "13", what="test", **given))),
              **EACH, **POINTS),
    Statement("test-17", "Figure 17's VGG-16 has a better test accuracy after pre-training.",
              "B.6, Figure 17", detail_gains("17", labels="real", what="test"), above=0, ours=True,
              requires=(detail_fitted("17"), VGG_DRAWN,
                        beyond_guess("17", lambda t: sweep.detail(t, "17", "real", what="test"))), **POINTS),
    *(Statement(f"decides-{factor.replace('_', '-')}", f"{word} makes the effect more negative.",
                "Section 1.1", over_groups(effect_of(factor), *SWEEPS), below=0, ours=True, **EACH,
                **pooled(effect_of(factor), sign=-1))
      for factor, word in (("init_scale", "A larger initial scale"),
                           ("upstream_classes", "A larger number of classes"))),
]  # fmt: skip

SAID = by_verdict(
    holds="it speeds up {}", contradicted="it slows {}", absent="it changes {} too little to matter",
    undecided="whether it speeds up {} is undecided",
    not_judged="whether it speeds up {} is not judged",
)  # fmt: skip
THEN = SAID | {UNDECIDED: "for {} this is undecided", NOT_JUDGED: "for {} it is not judged"}
RARE = {HOLDS: "it slows only", CONTRADICTED: "it slows"}


def arrived(points):
    """{architecture: (points of which the better network ends at ``ARRIVED``, points)}."""
    if points.empty:
        return {}
    there = (points["reached"] >= ARRIVED).groupby(points["architecture"])
    return {name: (int(part.sum()), len(part)) for name, part in there}


def by_outcome(claims, id, names):
    """{outcome: names} of a statement's architectures, in the order of the verdicts' strength."""
    found = {}
    for key, name in names.items():
        found.setdefault(claims[f"{id}-{key}"].outcome, []).append(name)
    return {outcome: found[outcome] for outcome in SAID if outcome in found}


def finding(table, parameters, claims):
    """Which architectures train faster, by how much on average, and which are often slowed."""
    measured = {key: claims[f"faster-{key}"].measured for key in ARCHITECTURES}
    named = {key: ARCHITECTURES[key] for key, gain in measured.items() if gain is not None}
    if not named:
        return "No network of the sweeps learned both tasks: there is nothing to compare."
    decided = {key for key in named if claims[f"faster-{key}"].outcome in DECIDED}
    words = THEN if decided else SAID
    texts = []
    for over in (first_epochs, lambda parameters, key: ""):  # the second where the first gets too long
        names = named | {key: named[key] + _points(measured[key], over(parameters, key)) for key in decided}
        found = by_outcome(claims, "faster", names)
        said = "; ".join(words[one].format(listed(those)) for one, those in found.items())
        texts.append(f"Where pre-training learned its random labels, {said}")
    shares = {key: _share(claims[f"rarely-hurts-{key}"], key) for key in named}
    slows = by_outcome(claims, "rarely-hurts", shares)
    rare = [
        f"{words} {listed(slows[one])} settings by over a point"
        for one, words in RARE.items()
        if one in slows
    ]
    there, points = arrived(fitted(table, *SWEEPS)).get("vgg", (0, 0))
    share = share_drawn(table, parameters, "vgg")
    draws = compared(table, parameters, *SWEEPS)["seed"].nunique()
    caveat = f"verdicts rest on {draws} draws of images and labels"
    if there < points / 2:
        caveat = "VGG-16 is stopped before it has learned"
    elif "vgg" in named and share < DRAWN.at_least:
        caveat = f"VGG-16 is drawn from {100 * share:.0f} % of the paper's initial scales"
    turn = [name for key, name in named.items() if SAME in unmet(claims[f"faster-{key}"])]
    turns = f"{listed(turn)}'s gain depends on which points of a setting count" if turn else caveat
    long = "; ".join([*rare, turns])  # joined here, since VGG-16 keeps its capitals
    ends = [long, *(["; ".join(rare)] if rare else []), caveat, None]
    return fitting(*(sentences(text, end) for end in ends for text in texts))


def _share(claim, architecture):
    """``46 % of SimpleCNN's``."""
    return f"{100 * claim.measured:.0f} % of {ARCHITECTURES[architecture]}'s"


def first_epochs(parameters, architecture):
    """`` in the first 15 of 200 epochs``: what the areas are over, "" where it is all of them."""
    stops, epochs = parameters[f"{architecture}_stops"], parameters["epochs"]
    return f" in the first {stops} of {epochs} epochs" * (stops < epochs)


def _points(gain, over):
    """`` (−6.0 points of accuracy in the first 15 of 200 epochs)``."""
    return f" ({f'{gain:+.1f}'.replace('-', '−')} points of accuracy{over})"


def key_numbers(table, parameters):
    """By architecture: the gain, how many groups gain, and what all layers add to one."""
    found = compared(table, parameters, *SWEEPS)
    if found.empty:
        return []
    parts = {name: at(found, architecture=key) for key, name in ARCHITECTURES.items()}
    parts = {name: part for name, part in parts.items() if len(part)}

    def row(what, measure, form, paper=None):
        means = [sweep.by_seed(part, measure).mean() for part in parts.values()]
        return KeyNumber(f"{what}: {' / '.join(parts)}", " / ".join(map(form.format, means)), paper)

    return [
        row("gain where pre-training learned its labels (points)", sweep.by_group, "{:+.1f}"),
        row("groups that train faster", helped, "{:.0%}", "very often"),
        row("further gain from all layers instead of one (points)", sweep.layers_add, "{:+.1f}", "positive"),
    ]
