"""How much pre-training on random labels slows a second task, by the dense layer's width (Figure 8)."""

from alignbook.claims import ABSENT, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import across, area, at, curves, difference, first, last, means
from alignbook.statements import Requirement, Statement, over
from alignbook.wording import IT, by_verdict, fitting, others

from ..gains import KINDS, VISIBLE, gain

STARTS = ("scratch", "pretrained")
POINT = 0.01  # of accuracy, on average over training
FILTERS, SEEN = 8, 3  # of profile quick's networks; seeds of these seen before dead units were compared


def gap(rows):
    """Mean accuracy over training from scratch less that of the pre-trained network, by seed.

    Positive where pre-training slows training down. rows : of one width, image size and kind of labels.
    """
    return gain(rows, "scratch", "pretrained")


def dead(rows, start="pretrained"):
    """Share of the dense units that no held-out image activates: (seeds × epochs) frame."""
    return curves(at(rows, start=start), "epoch", "dead")


def dead_at_switch(rows, start="pretrained"):
    """The same share after the first epoch of the second task, by seed."""
    return means(at(rows, start=start, epoch=1), "dead")


def dead_after(rows):
    """Share of dead dense units of the pre-trained network after fine-tuning, by seed."""
    return last(dead(rows))


def lost(rows):
    """:func:`dead_after` less the same share of the network from scratch, by seed."""
    return difference(dead_after(rows), last(dead(rows, "scratch")))


def lost_at_switch(rows):
    """:func:`dead_at_switch` less the same share of the network from scratch, by seed."""
    return difference(dead_at_switch(rows), dead_at_switch(rows, "scratch"))


def arrival(rows):
    """The first recorded epoch from which on both mean curves of ``rows`` are at 1.00, or None."""
    if rows.empty:
        return None
    lower = rows.groupby(["start", "epoch"])["accuracy"].mean().groupby("epoch").min().round(2)
    late = lower[::-1].ge(1).cummin()[::-1]
    return int(late.idxmax()) if late.any() else None


def gap_until(rows, epoch):
    """:func:`gap` over the epochs up to ``epoch`` alone, by seed."""
    ends = (area(curves(at(rows, start=start), "epoch", "accuracy"), 0, epoch) for start in STARTS)
    return difference(*ends)


def by_width(table, parameters, labels, measure):
    """(seeds × widths) frame of ``measure`` at the figure's image size; only seeds with all widths."""
    rows = at(table, labels=labels, side=parameters["side"])
    return across(rows, "dense_units", sorted(parameters["dense_units"]), measure)


def narrow(table, parameters, labels, side=None):
    """The rows of the narrowest network, at the figure's image size or another."""
    side = parameters["side"] if side is None else side
    return at(table, labels=labels, side=side, dense_units=min(parameters["dense_units"]))


def narrowest(table, parameters, labels, side=None):
    """The gap of the narrowest network, by seed, at the figure's image size or another."""
    return gap(narrow(table, parameters, labels, side))


def by_side(table, parameters, labels):
    """{side of the images: gaps of the narrowest network, by seed}, ascending."""
    sides = sorted({parameters["side"], *parameters["other_sides"]})
    found = {side: narrowest(table, parameters, labels, side) for side in sides}
    return {side: values for side, values in found.items() if len(values)}


def less(table, parameters, labels, measure):
    """``measure`` at the narrowest width less that at the widest; None where there is one width only."""
    found = by_width(table, parameters, labels, measure)
    return difference(first(found), last(found)) if found.shape[1] > 1 else None


SLOWER = Requirement(
    "mean gap of the narrowest network, as a share of accuracy",
    lambda t, p, labels: narrowest(t, p, labels).mean(),
    at_least=POINT,
    because="Without a gap there is none to close",
)
GAP = {
    "source": "Figure 8, Section 3", "above": 0, "matters": POINT, "unit": "of accuracy", "because": VISIBLE,
    "each": over("labels", KINDS),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "closes", "The widest dense layer has a smaller gap to training from scratch than the narrowest.",
        of=lambda t, p, labels: less(t, p, labels, gap), requires=(SLOWER,), headline=True, **GAP,
    ),
    Statement(
        "negative", "With the narrowest dense layer, pre-training slows training down.", of=narrowest, **GAP
    ),
    Statement(
        "dead",
        "The wider the dense layer, the smaller the share of its units that are dead after fine-tuning "
        "beyond those that are dead from scratch.",
        source="Figure 8, Section 3", of=lambda t, p, labels: less(t, p, labels, lost), above=0,
        matters=0.05, unit="of the units", because="one unit in twenty hardly changes what a layer computes",
        each=over("labels", KINDS), ours=True,
        post_hoc="held against the network from scratch after three seeds had been seen; to be judged on new "
        "seeds",
        seen=lambda p: SEEN if p["filters"] == FILTERS else 0,
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="A wider dense layer takes away the harm that pre-training on random labels does to a narrow one",
    contradicted="A wider dense layer makes the harm that pre-training does worse",
    absent="A wider dense layer changes the harm of pre-training by too little to matter",
    undecided="It is undecided whether a wider dense layer takes away the harm that pre-training does",
    not_judged="We do not judge if width undoes the harm of pre-training, as our runs show no clear harm",
)
SLOWED = by_verdict(
    holds="Pre-training slows the narrowest network down",
    contradicted="Pre-training speeds the narrowest network up",
    absent="Pre-training hardly changes how fast the narrowest network learns",
    undecided="It is undecided whether pre-training slows the narrowest network down",
    not_judged="We do not judge whether pre-training slows the narrowest network down",
)


def finding(table, parameters, claims):
    """Whether width closes the gap, and whether there is one at all; words follow the verdicts.

    How large the gap is comes from the runs that judge it, which may be others than those of ``table``.
    """
    kinds = parameters["labels"]
    judged = (kind for kind in kinds if claims[f"closes-{kind}"].outcome not in (NOT_JUDGED, NOT_RUN))
    kind = next(judged, kinds[0])
    closes, negative = (claims[f"{id}-{kind}"] for id in ("closes", "negative"))
    if negative.outcome == NOT_RUN:
        return "The narrowest network is not among the results: there is nothing to compare."
    if closes.outcome == NOT_JUDGED and (slowed := harmed(parameters, claims)):
        return slowed
    text = SAID.get(closes.outcome) or SLOWED[negative.outcome]  # of one width nothing closes
    points = abs(100 * negative.measured)
    text += f": {size(negative)} with" if negative.runs else ": with"
    text += f" {KINDS[kind]} the narrowest pre-trained network is {points:{'.1f' if points < 1 else '.0f'}} "
    text += f"points of mean accuracy {'behind' if negative.measured > 0 else 'ahead'}"
    if negative.outcome == ABSENT:
        text += ", too little to matter"
    text += ", but the seeds scatter widely" * (negative.outcome == UNDECIDED)
    rest = {
        words: claims[f"negative-{other}"].outcome
        for other, words in KINDS.items()
        if other != kind and other in parameters["labels"]
    }
    caveat = f" We trained on {parameters['downstream_images']:,} images, the paper on 25,000."
    if negative.outcome == ABSENT and negative.runs:
        # tests/experiments/random_labels/test_fig08_width.py looks at the stored runs
        caveat = " Both starts reach 100 % early, diluting any gap."
    rest = others(negative.outcome, rest)
    short = f"{text}{rest}.".replace(" of mean accuracy", "")
    return fitting(f"{text}{rest}.{caveat}", short + caveat, short)


def size(claim):
    """What the planned runs are that judge a claim."""
    return "at the paper's size" if claim.runs.startswith("profile paper") else "in longer runs (not drawn)"


# tests/experiments/random_labels/test_fig08_width.py looks at the stored runs.
DILUTED = "over all epochs, mostly at 100 % from either start, it is too small to matter"


def harmed(parameters, claims):
    """The finding where planned runs of the narrowest network alone show that it is slowed; else ""."""
    found = {kind: claims[f"negative-{kind}"] for kind in parameters["labels"]}
    kind = next((kind for kind, claim in found.items() if claim.outcome == HOLDS and claim.runs), None)
    if kind is None:
        return ""
    text = f"Pre-training slows the narrowest network down with {KINDS[kind]}, by "
    text += f"{100 * found[kind].measured:.1f} points of mean accuracy {size(found[kind])}"
    beside = {KINDS[other]: claim.outcome for other, claim in found.items() if other != kind}
    text += others(HOLDS, beside, IT | {ABSENT: DILUTED})
    return f"{text}. We do not judge whether width undoes this harm, as no wider layer has run there."


def key_numbers(table, parameters):
    """Over the epochs shown, the gap at the narrowest and the widest layer; the narrowest's dead units.

    Of one width, the gap with each kind of labels.
    """
    kinds, over, made = parameters["labels"], f" over {parameters['epochs']} epochs", []
    one = len(parameters["dense_units"]) == 1
    for kind in kinds if one else kinds[:1]:
        frame = 100 * by_width(table, parameters, kind, gap)
        for width in dict.fromkeys(frame.columns[[0, -1]]) if len(frame) else ():
            words = "narrowest" if width == min(parameters["dense_units"]) else "widest"
            what = f"gap{over}, from scratch minus pre-trained, {KINDS[kind]}, {words} layer (points)"
            made.append(KeyNumber(what, interval(frame[width], "{:+.1f}", (-100, 100))))
    slowed = max(kinds, key=lambda kind: narrowest(table, parameters, kind).mean())
    rows = narrow(table, parameters, slowed)
    scratch, dead = (dead_at_switch(rows, start) for start in STARTS)
    if len(dead):
        what = f"dead dense units after one epoch of the second task, {KINDS[slowed]}, narrowest layer (%; "
        what += f"from scratch {100 * scratch.mean():.0f})"
        made.append(KeyNumber(what, interval(100 * dead, "{:.0f}", (0, 100))))
    return made
