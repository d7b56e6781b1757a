"""How much pre-training on random labels slows a second task, by the dense layer's width (Figure 8)."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import across, area, at, curves, difference, first, last
from alignbook.statements import Requirement, Statement, over

KINDS = {"real": "real labels", "random": "random labels"}
POINT = 0.01  # of accuracy, on average over training
VISIBLE = "the panels show accuracy from 0 to 1: one point is the width of a line"


def gap(rows):
    """Mean accuracy over training (Appendix B) from scratch less that of the pre-trained network, by seed.

    Positive where pre-training slows training down. rows : of one width, image size and kind of labels.
    """
    scratch, pretrained = (
        area(curves(at(rows, start=start), "epoch", "accuracy")) for start in ("scratch", "pretrained")
    )
    return difference(scratch, pretrained)


def dead(rows, start="pretrained"):
    """Share of the dense units that no held-out image activates: (seeds × epochs) frame."""
    return curves(at(rows, start=start), "epoch", "dead")


def dead_after(rows):
    """Share of dead dense units of the pre-trained network after fine-tuning, by seed."""
    return last(dead(rows))


def by_width(table, parameters, labels, measure):
    """(seeds × widths) frame of ``measure`` at the figure's image size; only seeds with all widths."""
    rows = at(table, labels=labels, side=parameters["side"])
    return across(rows, "dense_units", sorted(parameters["dense_units"]), measure)


def narrowest(table, parameters, labels, side=None):
    """The gap of the narrowest network, by seed, at the figure's image size or another."""
    side = parameters["side"] if side is None else side
    return gap(at(table, labels=labels, side=side, dense_units=min(parameters["dense_units"])))


def less(table, parameters, labels, measure):
    """``measure`` at the narrowest width less that at the widest; None where there is one width only."""
    found = by_width(table, parameters, labels, measure)
    return difference(first(found), last(found)) if found.shape[1] > 1 else None


SLOWER = Requirement(
    "mean gap of the narrowest network, as a share of accuracy: without one there is none to close",
    lambda t, p, labels: narrowest(t, p, labels).mean(),
    at_least=POINT,
)

STATEMENTS = [
    Statement(
        "closes", "The widest dense layer has a smaller gap to training from scratch than the narrowest.",
        source="Figure 8, Section 3", of=lambda t, p, labels: less(t, p, labels, gap), above=0, matters=POINT,
        unit="of accuracy", because=VISIBLE, requires=(SLOWER,), each=over("labels", KINDS), headline=True,
    ),
    Statement(
        "negative", "With the narrowest dense layer, pre-training slows training down.",
        source="Figure 8, Section 3", of=narrowest, above=0, matters=POINT, unit="of accuracy",
        because=VISIBLE, each=over("labels", KINDS),
    ),
    Statement(
        "dead", "The wider the dense layer, the fewer of its units are dead after fine-tuning (as a share).",
        source="Figure 8, Section 3", of=lambda t, p, labels: less(t, p, labels, dead_after), above=0,
        matters=0.05, unit="of the units", because="one unit in twenty hardly changes what a layer computes",
        each=over("labels", KINDS), ours=True,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The wider dense layer closes the gap to training from scratch",
    ABSENT: "The wider dense layer changes the gap to training from scratch too little to matter",
    CONTRADICTED: "The wider dense layer widens the gap to training from scratch",
    UNDECIDED: "It is undecided whether a wider dense layer closes the gap to training from scratch",
    NOT_JUDGED: "On average there is no gap to training from scratch that a wider dense layer could close",
}
SLOWED = {  # where only one width is among the results
    HOLDS: "Pre-training slows the narrowest network down",
    ABSENT: "Pre-training hardly changes how fast the narrowest network learns",
    CONTRADICTED: "Pre-training speeds the narrowest network up",
    UNDECIDED: "It is undecided whether pre-training slows the narrowest network down",
}


def finding(table, parameters, claims):
    """Whether width closes the gap, and whether there is one at all; words follow the verdicts."""
    kind = parameters["labels"][0]
    closes, negative = (claims[f"{id}-{kind}"].outcome for id in ("closes", "negative"))
    found = narrowest(table, parameters, kind)
    if found.empty:
        return "The narrowest network is not among the results: there is nothing to compare."
    said = SLOWED.get(negative, "Nothing is judged at this size")
    if closes in SAID and negative in SLOWED:
        said = SAID[closes]
    text = f"{said}: with {KINDS[kind]} the pre-trained network is "
    text += f"{abs(100 * found.mean()):.0f} points of accuracy "
    text += "behind" if found.mean() > 0 else "ahead"
    text += ", but the seeds scatter too widely to be sure." if negative == UNDECIDED else "."
    if claims[f"dead-{kind}"].outcome == HOLDS:
        text += " The wider layer ends with fewer dead units."
    return text + f" Small: {parameters['downstream_images']:,} images where the paper has 25,000."


def key_numbers(table, parameters):
    """The gap at the narrowest and the widest layer for the first kind of labels, and dead units."""
    kind = parameters["labels"][0]
    result = []
    for name, measure, form in (
        (f"slower by, {KINDS[kind]}, narrowest / widest layer (points)", gap, "{:+.1f}"),
        ("dead dense units after fine-tuning, narrowest / widest layer (%)", dead_after, "{:.1f}"),
    ):
        frame = 100 * by_width(table, parameters, kind, measure)
        if len(frame):
            ends = dict.fromkeys(frame.columns[[0, -1]])
            result.append(KeyNumber(name, " / ".join(interval(frame[width], form) for width in ends)))
    return result


def by_side(table, parameters, labels):
    """{side of the images: gaps of the narrowest network, by seed}, ascending."""
    sides = sorted({parameters["side"], *parameters["other_sides"]})
    found = {side: narrowest(table, parameters, labels, side) for side in sides}
    return {side: values for side, values in found.items() if len(values)}
