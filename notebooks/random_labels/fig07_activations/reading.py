"""What the switch of tasks does to hidden layers (Figures 7, 10, 11 and 24): measures, then statements."""

from companion.over_seeds import area, at, curves, difference, first, last, once, sample, value_at
from companion.statements import Case, Number, Statement, among

from ..shared.gains import KINDS
from ..shared.vgg_settings import DOWNSTREAM_EPOCHS
from .design import CASES, LAST

SWITCH = 64  # steps of the second task: what has happened by then happened at the switch
MIDDLE = 7  # the layer that our figure shows beside the last
IN_FIGURE_1 = 80 / DOWNSTREAM_EPOCHS  # share of the second task after which the runs of Figure 1's page stop


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


def stays(table, parameters, network, labels):
    """Activation in the end, less that of the network without a first task, by seed; empty without one."""
    return difference(*(last(curve(table, network, labels, control=without)) for without in (False, True)))


def later(table, parameters, case):
    """Fall of activation in pre-training, the last hidden layer less the first, by seed."""
    return difference(*(fall(curve(table, case, "upstream", layer=layer)) for layer in (LAST, 1)))


def gains(table, case, labels, end=IN_FIGURE_1):
    """Training accuracy that the first task adds, mean over the share ``end`` of the second, by seed."""

    def mean(frame):
        return area(frame, 0, end * (frame.columns[-1] if frame.shape[1] else 0))

    curves_of = (curve(table, case, labels, "accuracy", control=without) for without in (False, True))
    return difference(*map(mean, curves_of))


def rarer(table, parameters, layer):
    """How many more neurons of a layer fire on under a tenth of the images in the negative case, by seed."""
    rows = at(table, of="neurons", stage="random", layer=layer, bin=0)
    return apart(lambda case: sample(at(rows, case=case), "share"))


def in_order(parameters):
    """Labels of fine-tuning, random ones first: Figure 7 is about them."""
    return sorted(parameters["labels"], key=list(KINDS)[::-1].index)


def each_network(parameters):
    """Cases: VGG-16 in the negative case, and the simple networks of Figure 24, all with random labels."""
    vgg = [Case("vgg", "VGG-16, negative case", {"network": "negative", "labels": "random"})]
    return vgg + [
        Case(f"cnn{n}", f"simple network, {n} convolution{'s' * (n > 1)}", {"network": n, "labels": "random"})
        for n in parameters["cnn_convolutions"]
    ]


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
        "rare", "After fine-tuning, more neurons fire on under a tenth of the images in the negative case.",
        source="Section 3, Figure 7; Appendix F", of=rarer, unit="of the neurons", ours=True,
        post_hoc="looked at after 39 seeds", each=each_layer, **SHARE,
    ),
    Statement(
        "spared", "Activation in the last hidden layer falls less at the switch in the positive case.",
        source="Section 3", of=lambda t, p: -apart(lambda case: at_switch(t, case, "random")),
        post_hoc=STEP, **PAIRS,
    ),
    Statement(
        "drops", "Activation in the last hidden layer drops right after the switch of tasks.",
        source="Section 3, Appendix F, Figure 24", each=each_network, post_hoc=STEP,
        of=lambda t, p, network, labels: -at_switch(t, network, labels), **PAIRS,
    ),
    Statement(
        "stays", "Activation ends lower than without a first task.",
        source="Section 3, Appendix F, Figure 24",
        of=lambda *given, **case: -stays(*given, **case), each=each_network, **PAIRS,
    ),
    Statement(
        "later", "Pre-training lowers activation more in the last hidden layer than in the first.",
        source="Section 3, Appendix F", of=later, **PAIRS,
        each=lambda p: [Case(case, f"the {case} case", {"case": case}) for case in CASES],
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "scratch", "difference between the two settings from scratch", each=each_layer,
        of=lambda t, p, layer: contrast(t, "random", layer, control=True),
    ),
    Number(
        "gain", "what pre-training adds to training accuracy over Figure 1's epochs, random labels",
        of=lambda t, p, case: gains(t, case, "random"),
        each=lambda p: [Case(case, case, {"case": case}) for case in CASES],
    ),
]  # fmt: skip
