"""What the switch of tasks does to hidden layers (Figures 7, 10, 11 and 24): measures, then statements."""

from companion.over_seeds import at, curves, difference, first, last, once, value_at, weakest
from companion.statements import Number, Statement, among

from ..shared.gains import KINDS
from .design import CASES, LAST

SWITCH = 64  # steps of the second task: what has happened by then happened at the switch
MIDDLE = 7  # the layer that our figure shows beside the last


@once
def rows_of(table, network, control=False):
    """The rows of one network: "positive", "negative", or a number of convolutions.

    control : those of the runs without a first task instead.
    """
    rows = at(table, convolutions=network) if isinstance(network, int) else at(table, case=network)
    if not {"labels", "unit"} <= set(rows):
        return rows.iloc[:0]
    has_first = rows["labels"].eq("upstream").groupby(rows["unit"]).transform("any").to_numpy(dtype=bool)
    return rows[~has_first if control else has_first]


@once
def curve(table, network, labels, column="activation", layer=None, control=False):
    """(seeds × steps) frame of one network's hidden layer in one task.

    labels : "upstream", the first task, or those of the second; layer : from 1, None for the last.
    """
    rows = at(rows_of(table, network, control), of="curve", labels=labels)
    layer = rows["layer"].max() if layer is None and len(rows) else layer
    return curves(at(rows, layer=layer), "step", column)


def at_switch(table, network, labels, column="activation", control=False):
    """How much ``column`` of the last hidden layer rises in the first ``SWITCH`` steps, by seed."""
    frame = curve(table, network, labels, column, control=control)
    return difference(value_at(frame, SWITCH), first(frame))


def fall(frame):
    """How much a curve falls from its first step to its last, by seed."""
    return difference(first(frame), last(frame))


def apart(measure):
    """``measure(case)`` of the negative case less that of the positive one, by seed."""
    return difference(measure("negative"), measure("positive"))


def contrast(table, labels, layer, control=False):
    """How much less active a layer ends in the negative case than in the positive one, by seed."""
    return -apart(lambda case: last(curve(table, case, labels, layer=layer, control=control)))


def added(table, parameters, layer):
    """What the first task adds to :func:`contrast`, by seed; empty without the control."""
    return difference(*(contrast(table, "random", layer, without) for without in (False, True)))


def lost(table, network):
    """Activation in the end without a first task, less that of the network with one; empty without both."""
    return difference(*(last(curve(table, network, "random", control=without)) for without in (True, False)))


def later(table, case):
    """Fall of activation in pre-training, the last hidden layer less the first, by seed."""
    return difference(*(fall(curve(table, case, "upstream", layer=layer)) for layer in (LAST, 1)))


def in_order(parameters):
    """Labels of fine-tuning, random ones first: Figure 7 is about them."""
    return sorted(parameters["labels"], key=list(KINDS)[::-1].index)


def smallest(measure):
    """A statement's ``of``: ``measure`` of VGG-16 in the negative case or a simple network, as shows less."""
    return lambda t, p: weakest(*(measure(t, network) for network in ("negative", *p["cnn_convolutions"])))


each_layer = among("layer", {layer: f"layer {layer}" for layer in (MIDDLE, LAST)})  # the two shown
SHARE = {"above": 0, "matters": 0.05, "because": "5 points of 100 are a twentieth of the figure's axis"}
PAIRS = SHARE | {"unit": "of activation"}
STEP = "step 64 was chosen after three seeds had been seen"
STATEMENTS = [
    Statement(
        "ends", "After fine-tuning, neurons are active on fewer images in the negative case.",
        source="Section 3, Figure 7", of=lambda t, p, layer: contrast(t, "random", layer),
        headline=True, each=each_layer, **PAIRS,
    ),
    Statement(
        "added", "Pre-training adds to this difference between the two settings.", source="Section 3",
        of=added, ours=True, post_hoc="looked at after the verdict on the last layer",
        each=each_layer, **PAIRS,
    ),
    Statement(
        "dies", "At the switch of tasks, more neurons of the last hidden layer die in the negative case.",
        source="Section 3, Appendix F, Figure 24", unit="of the neurons", post_hoc=STEP,
        of=lambda t, p: apart(lambda case: at_switch(t, case, "random", "dead")), **SHARE,
    ),
    Statement(
        "drops",
        "In every network, activation in the last hidden layer drops right after the switch of tasks.",
        source="Section 3, Appendix F, Figure 24", post_hoc=STEP,
        of=smallest(lambda t, network: -at_switch(t, network, "random")), **PAIRS,
    ),
    Statement(
        "stays", "Activation ends lower than without a first task, in every network.",
        source="Section 3, Appendix F, Figure 24", of=smallest(lost), **PAIRS,
    ),
    Statement(
        "later", "Pre-training lowers activation more in the last hidden layer than in the first, in either "
        "setting.",
        source="Section 3, Appendix F", of=lambda t, p: weakest(*(later(t, case) for case in CASES)), **PAIRS,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "scratch", "difference between the two settings from scratch", each=each_layer,
        of=lambda t, p, layer: contrast(t, "random", layer, control=True),
    ),
]  # fmt: skip
