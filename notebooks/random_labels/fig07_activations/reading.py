"""What the switch of tasks does to the last hidden layer (Figures 7, 10, 11 and 24)."""

import numpy as np

from alignbook.claims import HOLDS, NOT_JUDGED, KeyNumber, interval, t_interval
from alignbook.over_seeds import area, at, curves, difference, first, last, once, ratio, sample, value_at
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, listed, others, sentences, unmet

from ..gains import KINDS
from ..seen_seeds import WIDTH, seen
from ..vgg_settings import DOWNSTREAM_EPOCHS
from .design import CASES, LAST

SWITCH = 64  # steps of the second task: what has happened by then happened at the switch
REVIEWED = 15  # seeds that had been seen when the fall at the switch was held against the control's
ALL_SEEN = 39  # seeds that had been seen when neurons that fire rarely were compared
NEWEST = 63  # seeds that had been seen when the activation of the middle layer was judged beside the last's
RARE_LAYERS = (7, LAST)  # where they are judged: the two layers of our first figure
IN_FIGURE_1 = 80 / DOWNSTREAM_EPOCHS  # share of the second task after which the runs of Figure 1's page stop
EARLY = 0.1  # share of the second task's steps, the moment between switch and end at which "intact" looks


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


def beyond(table, network, labels, column="activation"):
    """:func:`at_switch` less that of the network without a first task, by seed; empty without one."""
    return difference(*(at_switch(table, network, labels, column, without) for without in (False, True)))


def apart(measure):
    """``measure(case)`` of the negative case less that of the positive one, by seed."""
    return difference(measure("negative"), measure("positive"))


def rare(table, case, labels, layer):
    """Share of a layer's neurons that fire on under a tenth of the held-out images in the end, by seed."""
    return sample(at(table, case=case, of="neurons", stage=labels, layer=layer, bin=0), "share")


def rarer(table, labels, layer):
    """:func:`rare` of the negative case less that of the positive one, by seed."""
    return apart(lambda case: rare(table, case, labels, layer))


def contrast(table, labels, layer=None, control=False):
    """How much less active a layer ends in the negative case than in the positive one, by seed.

    layer, control : as of :func:`curve`
    """
    return -apart(lambda case: last(curve(table, case, labels, layer=layer, control=control)))


def added(table, labels, layer):
    """What the first task adds to :func:`contrast`, by seed; empty without the control."""
    return difference(*(contrast(table, labels, layer, without) for without in (False, True)))


def fall_upstream(table, case, layer):
    """How much a layer's activation falls in pre-training, by seed."""
    return fall(curve(table, case, "upstream", layer=layer))


def clearly(measure, sign=1, layers=range(1, LAST + 1)):
    """Of ``layers`` those of which the 95 % interval of ``measure(layer)`` lies above 0; -1: below it."""
    ends = {layer: t_interval(sign * measure(layer))[2] for layer in layers}
    return [layer for layer, end in ends.items() if end and end[0] > 0]


def named(layers):
    """``layers 4, 5 and 7``, ``layer 4``, ``no layer``."""
    return f"layer{'s' * (len(layers) > 1)} {listed(map(str, layers))}" if layers else "no layer"


def where_the_contrast_is(table, labels):
    """Sentences on which layers clearly show the paper's contrast, and what the first task adds to it."""
    early = range(1, LAST)
    trained, scratch = (
        clearly(lambda layer, without=without: contrast(table, labels, layer, without), layers=early)
        for without in (False, True)
    )
    more, less = (clearly(lambda layer: added(table, labels, layer), sign) for sign in (1, -1))
    return (
        f"With {KINDS[labels]}, the negative case ends clearly less active in {len(trained)} of the "
        f"{len(early)} earlier layers after pre-training, and in {len(scratch)} without it. Pre-training "
        f"clearly adds to the paper's contrast in {named(more)}, and clearly takes from it in {named(less)}."
    )


def where_pre_training_raises(table):
    """A sentence on the layers in which activation clearly rises during pre-training."""
    up = {case: clearly(lambda layer, case=case: fall_upstream(table, case, layer), -1) for case in CASES}
    said = (f"in {len(up[case])} of {LAST} layers in the {case} case ({named(up[case])})" for case in CASES)
    return f"During pre-training, activation clearly rises {listed(said)}."


def left_at_switch(table, network, labels, control=False):
    """What step ``SWITCH`` leaves of the last hidden layer's activation, as a share of it, by seed."""
    frame = curve(table, network, labels, control=control)
    return ratio(value_at(frame, SWITCH), first(frame))


def stays(table, parameters, network, labels, layer=None):
    """Activation in the end, less that of the network without a first task, by seed; empty without one."""
    ends = (last(curve(table, network, labels, layer=layer, control=without)) for without in (False, True))
    return difference(*ends)


def left(table, case, labels):
    """Activation of one case over that before the switch, the smaller of ``EARLY`` and the end.

    By seed; seeds without any activation before the switch are left out.
    """
    frame = curve(table, case, labels)
    if frame.empty:
        return first(frame)
    moments = first(frame.loc[:, frame.columns >= EARLY * frame.columns[-1]]), last(frame)
    return np.minimum(*(ratio(moment, first(frame)) for moment in moments)).dropna()


def gains(table, case, labels, start=0.0, end=1.0):
    """Training accuracy that the first task gives a case, in points, by seed.

    Mean over the second task, or from its share ``start`` to its share ``end``.
    """

    def mean(frame):
        steps = frame.columns[-1] if frame.shape[1] else 0
        return area(frame, start * steps, end * steps)

    curves_of = (curve(table, case, labels, "accuracy", control=without) for without in (False, True))
    return 100 * difference(*map(mean, curves_of))


def gained(table, case, labels):
    """Mean over the seeds of :func:`gains` over the epochs in Figure 1."""
    return gains(table, case, labels, end=IN_FIGURE_1).mean()


def later(table, parameters, case):
    """Fall of activation in pre-training, the last hidden layer less the first, by seed."""
    return difference(*(fall_upstream(table, case, layer) for layer in (LAST, 1)))


def known(table, network, labels):
    """Training accuracies (0..1) at the end of the first task and of that on ``labels``, by seed."""
    return [last(curve(table, network, task, "accuracy")) for task in ("upstream", labels)]


def in_order(parameters):
    """Labels of fine-tuning, random ones first: Figure 7 is about them."""
    return sorted(parameters["labels"], key=list(KINDS)[::-1].index)


def after_the_switch(parameters):
    """Cases of what is said of one network: VGG-16 in the negative case, the small networks."""
    vgg = [
        Case(kind, f"VGG-16, negative case, {KINDS[kind]}", {"network": "negative", "labels": kind})
        for kind in parameters["labels"]
    ]
    small = [
        Case(f"cnn{n}", f"simple network, {n} convolution{'s' * (n > 1)}", {"network": n, "labels": "random"})
        for n in parameters["cnn_convolutions"]
    ]
    return vgg + small


def by_layer(parameters):
    """Cases of what is said of one layer in both cases: a kind of labels and one of ``RARE_LAYERS``."""
    return [
        Case(f"{kind}-{layer}", f"layer {layer}, {KINDS[kind]}", {"labels": kind, "layer": layer})
        for kind in in_order(parameters)
        for layer in RARE_LAYERS
    ]


SHARE = {"matters": 0.05, "because": "5 points of 100 are a twentieth of the figure's axis"}
PAIRS = SHARE | {"unit": "of the pairs of a neuron and an image"}
CHOSEN = {
    "post_hoc": "step 64 was chosen after three seeds had been seen; only new seeds are judged",
    "seen": seen,
}
CONTROLLED = {
    "post_hoc": "held against the control after all seeds had been seen; only new seeds are judged",
    "seen": lambda p: REVIEWED if p["width"] == WIDTH else 0,
}
HURTS = Requirement(
    "points of training accuracy that pre-training costs the negative case, mean over the epochs in Figure 1",
    lambda t, p, labels, **_: -gained(t, "negative", labels), at_least=1.0,
)  # fmt: skip
HELPS = Requirement(
    "points of training accuracy that pre-training gives the positive case, mean over the same epochs",
    lambda t, p, labels, **_: gained(t, "positive", labels), at_least=1.0,
)  # fmt: skip
BY_LABELS = {
    "each": lambda p: [Case(kind, KINDS[kind], {"labels": kind}) for kind in in_order(p)],
    "requires": (HURTS, HELPS),
}

STATEMENTS = [
    Statement("ends",
              "After fine-tuning, neurons of the last hidden layer are active on fewer images in the "
              "negative case.",
              "Section 3, Figure 7", above=0, headline=True,
              of=lambda t, p, labels: contrast(t, labels), **BY_LABELS, **PAIRS),
    Statement("ends-middle",
              f"After fine-tuning, neurons of layer {RARE_LAYERS[0]} are active on fewer images in the "
              "negative case.",
              "Section 3, Figure 7", above=0, seen=lambda p: NEWEST if p["width"] == WIDTH else 0,
              of=lambda t, p, labels: contrast(t, labels, RARE_LAYERS[0]),
              post_hoc="judged beside the last layer when all seeds had been seen; only new ones count",
              **BY_LABELS, **PAIRS),
    Statement("dies",
              "At the switch of tasks, more neurons of the last hidden layer die in the negative case.",
              "Section 3, Appendix F, Figure 24", above=0, unit="of the neurons",
              of=lambda t, p, labels: apart(lambda case: at_switch(t, case, labels, "dead")),
              **BY_LABELS, **SHARE, **CHOSEN),
    Statement("drops", "Activation in the last hidden layer drops right after the switch of tasks.",
              "Section 3, Appendix F, Figure 24", above=0, each=after_the_switch,
              of=lambda t, p, network, labels: -at_switch(t, network, labels), **PAIRS, **CHOSEN),
    Statement("lasts", "The drop lasts: activation ends lower than before the switch of tasks.",
              "Section 3, Appendix F, Figure 24", above=0, each=after_the_switch,
              of=lambda t, p, network, labels: fall(curve(t, network, labels)), **PAIRS),
    Statement("falls", "Activation in the last hidden layer falls right after the switch of tasks, "
              "further than without a first task.",
              "Section 3, Appendix F, Figure 24", above=0, each=after_the_switch, ours=True,
              of=lambda t, p, network, labels: -beyond(t, network, labels), **PAIRS, **CONTROLLED),
    Statement("stays", "It does not come back: activation ends lower than it does without a first task.",
              "Section 3, Appendix F, Figure 24", stays, below=0, each=after_the_switch, ours=True, **PAIRS),
    Statement("spared", "Activation in the last hidden layer falls less at the switch in the positive case.",
              "Section 3", above=0, of=lambda t, p, labels: -apart(lambda case: at_switch(t, case, labels)),
              **BY_LABELS, **PAIRS, **CHOSEN),
    Statement("intact", "More of the last hidden layer's activation is left in the positive case.",
              "Section 3", above=0, unit="of the activation before", ours=True,
              of=lambda t, p, labels: -apart(lambda case: left(t, case, labels)), seen=seen,
              post_hoc="compared with the negative case after three seeds were seen; only new ones count",
              **BY_LABELS, **SHARE),
    Statement("rare", "After fine-tuning, more neurons fire on under a tenth of the images in the negative "
              "case.", "Section 3, Figure 7; Appendix F", above=0, unit="of the neurons", ours=True,
              requires=(HURTS, HELPS),
              of=lambda t, p, labels, layer: rarer(t, labels, layer), each=by_layer, **SHARE,
              post_hoc="looked at after all stored seeds had been seen; only new seeds are judged",
              seen=lambda p: ALL_SEEN if p["width"] == WIDTH else 0),
    Statement("later", "Pre-training lowers activation more in the last hidden layer than in the first.",
              "Section 3, Appendix F", later, above=0, **PAIRS,
              each=lambda p: [Case(case, f"the {case} case", {"case": case}) for case in CASES]),
]  # fmt: skip

SAID = by_verdict(
    holds="Where pre-training hurts, the last hidden layer ends less active with random labels",
    contradicted="Where pre-training hurts, the last hidden layer ends more active, not less, with random "
    "labels",
    absent="Where pre-training hurts, the last hidden layer ends about as active with random labels",
    undecided="It is undecided whether the last hidden layer ends less active where pre-training hurts",
    not_judged="We do not judge whether the last hidden layer ends less active in the paper's negative "
    "setting than in its positive one",
)

BESIDE = by_verdict(
    "it is less active", "it is more active", "it is about as active",
    undecided="it is undecided", not_judged="it is not judged",
)  # fmt: skip


def finding(table, parameters, claims):
    """Whether the last hidden layer ends less active in the negative case, and whether neurons die."""
    kind, *rest = in_order(parameters)
    claim = claims[f"ends-{kind}"]
    if claim.outcome not in SAID:
        return "The two cases are not both among the results: there is nothing to compare."
    width = f"our VGG-16 is scaled down to width {parameters['width']}"
    if claim.outcome == NOT_JUDGED:
        return sentences(f"{SAID[claim.outcome]}: {_unmet(table, kind, claim)}", width)
    hurts, helps = (100 * last(curve(table, case, kind)).mean() for case in ("negative", "positive"))
    text = f"{SAID[claim.outcome]}: a neuron fires on {hurts:.0f} % of images, "
    text += f"against {helps:.0f} % where it helps"
    text += others(claim.outcome, {KINDS[other]: claims[f"ends-{other}"].outcome for other in rest}, BESIDE)
    die = None
    if claim.outcome != HOLDS and claims[f"dies-{kind}"].outcome == HOLDS:  # the claim's other part
        die = "more of its neurons do die at the switch of tasks"
    return fitting(sentences(text, die, width), sentences(text, die or width))


def _unmet(table, labels, claim):
    """Why the two cases are not compared: pre-training does not hurt, or not help, in its setting."""
    if HURTS.text in unmet(claim):
        return "these runs do not show that pre-training hurts in the negative one"
    points = f"{gained(table, 'positive', labels):+.1f}".replace("-", "−")
    return (
        f"pre-training does not help in the positive one ({points} points of accuracy over Figure 1's epochs)"
    )


def key_numbers(table, parameters):
    """Activation of both cases before the first task and in the end, as means over the seeds."""
    kind, made = in_order(parameters)[0], []
    for case in CASES:
        ends = 100 * last(curve(table, case, kind))
        if len(ends) and np.isfinite(ends).all():
            what = f"images on which a neuron of the last hidden layer is active in the end, {case} case (%)"
            made.append(KeyNumber(what, interval(ends, "{:.1f}", (0, 100))))
    return made
