"""What the switch of tasks does to the last hidden layer (Figures 7, 10, 11 and 24)."""

import numpy as np

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, first, last, ratio, value_at
from alignbook.statements import Case, Statement, over

from ..seen_seeds import chosen_on
from .design import CASES, LAST

KINDS = {"real": "real labels", "random": "random labels"}
SWITCH = 64  # steps of the second task: what has happened by then happened at the switch
EARLY = 0.1  # share of the second task's steps, the moment between switch and end at which "intact" looks
KEPT = 0.5  # of the activation before the switch: what is above it is "not severely impacted" (Section 3)


def rows_of(table, network, control=False):
    """The rows of one network: "positive", "negative", or a number of convolutions.

    control : those of the runs without a first task instead.
    """
    rows = at(table, convolutions=network) if isinstance(network, int) else at(table, case=network)
    if not {"labels", "unit"} <= set(rows):
        return rows.iloc[:0]
    has_first = rows["labels"].eq("upstream").groupby(rows["unit"]).transform("any").to_numpy(dtype=bool)
    return rows[~has_first if control else has_first]


def curve(table, network, labels, column="activation", layer=None, control=False):
    """(seeds × steps) frame of one network's hidden layer in one task.

    labels : "upstream", the first task, or those of the second; layer : from 1, None for the last.
    """
    rows = at(rows_of(table, network, control), of="curve", labels=labels)
    layer = rows["layer"].max() if layer is None and len(rows) else layer
    return curves(at(rows, layer=layer), "step", column)


def at_switch(table, network, labels, column):
    """How much ``column`` of the last hidden layer rises in the first ``SWITCH`` steps, by seed."""
    frame = curve(table, network, labels, column)
    return difference(value_at(frame, SWITCH), first(frame))


def dies(table, parameters, labels):
    """Share of neurons that die at the switch, the negative case less the positive, by seed."""
    return difference(*(at_switch(table, case, labels, "dead") for case in ("negative", "positive")))


def falls(table, parameters, network, labels):
    """Fall of activation at the switch, by seed."""
    return -at_switch(table, network, labels, "activation")


def spared(table, parameters, labels):
    """Fall of activation at the switch, the negative case less the positive, by seed."""
    return difference(*(falls(table, parameters, case, labels) for case in ("negative", "positive")))


def ends(table, parameters, labels):
    """Activation in the end, the positive case less the negative, by seed."""
    return difference(*(last(curve(table, case, labels)) for case in ("positive", "negative")))


def stays(table, parameters, network, labels):
    """Activation in the end, less that of the network without a first task, by seed; empty without one."""
    return difference(*(last(curve(table, network, labels, control=without)) for without in (False, True)))


def left(table, parameters, labels, case="positive"):
    """Activation over that before the switch, the smaller of ``EARLY`` and the end, by seed.

    Seeds without any activation before the switch are left out.
    """
    frame = curve(table, case, labels)
    if frame.empty:
        return None
    moments = first(frame.loc[:, frame.columns >= EARLY * frame.columns[-1]]), last(frame)
    return np.minimum(*(ratio(moment, first(frame)) for moment in moments)).dropna()


def later(table, parameters, case):
    """Fall of activation in pre-training, the last hidden layer less the first, by seed."""
    frames = (curve(table, case, "upstream", layer=layer) for layer in (LAST, 1))
    return difference(*(difference(first(frame), last(frame)) for frame in frames))


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


SHARE = {"matters": 0.05, "because": "5 points of 100 are a twentieth of the figure's axis"}
PAIRS = SHARE | {"unit": "of the pairs of a neuron and an image"}
CHOSEN = {
    "post_hoc": "step 64 was chosen when three seeds had been seen; only new seeds are judged",
    "requires": (chosen_on("step 64"),),
}

STATEMENTS = [
    Statement(
        "dies", "At the switch of tasks, more neurons of the last hidden layer die in the negative case.",
        source="Section 3, Appendix F", of=dies, above=0, unit="of the neurons", each=over("labels", KINDS),
        headline=True, **SHARE, **CHOSEN,
    ),
    Statement(
        "ends", "After fine-tuning, fewer neurons of the last hidden layer are active in the negative case.",
        source="Section 3, Figure 7", of=ends, above=0, each=over("labels", KINDS), **PAIRS,
    ),
    Statement(
        "falls", "Activation in the last hidden layer falls right after the switch of tasks.",
        source="Section 3, Appendix F, Figure 24", of=falls, above=0, each=after_the_switch,
        **PAIRS, **CHOSEN,
    ),
    Statement(
        "stays", "It does not come back: activation ends lower than it does without a first task.",
        source="Section 3, Appendix F, Figure 24", of=stays, below=0, each=after_the_switch, **PAIRS,
    ),
    Statement(
        "spared", "Activation in the last hidden layer falls less at the switch in the positive case.",
        source="Section 3", of=spared, above=0, each=over("labels", KINDS), **PAIRS, **CHOSEN,
    ),
    Statement(
        "intact", "In the positive case more than half of the last hidden layer's activation is left.",
        source="Section 3", of=left, above=KEPT, unit="of the activation before", ours=True,
        each=over("labels", KINDS), **SHARE,
    ),
    Statement(
        "later", "Pre-training lowers activation more in the last hidden layer than in the first.",
        source="Section 3, Appendix F", of=later, above=0, **PAIRS,
        each=lambda p: [Case(case, f"the {case} case", {"case": case}) for case in CASES],
    ),
]  # fmt: skip

SAID = {
    HOLDS: "When the task changes, more neurons fall silent where pre-training hurts",
    ABSENT: "When the task changes, about as many neurons fall silent where pre-training hurts as elsewhere",
    CONTRADICTED: "When the task changes, fewer neurons fall silent where pre-training hurts",
    UNDECIDED: "Whether more neurons fall silent where pre-training hurts is undecided",
    NOT_JUDGED: "Whether more neurons fall silent where pre-training hurts is left to new seeds: these three "
    "suggested where to look",
}
SPARED = {
    HOLDS: " Activation falls less where it helps.",
    ABSENT: " Activation falls about as much in both.",
    CONTRADICTED: " Yet activation falls more where it helps.",
}


def finding(table, parameters, claims):
    """Whether the switch kills more neurons in the negative case, and how many in both."""
    kind = parameters["labels"][-1]
    outcome = claims[f"dies-{kind}"].outcome
    dead = {case: at_switch(table, case, kind, "dead") for case in CASES}
    if outcome not in SAID or not all(map(len, dead.values())):
        return "The two cases are not both among the results: there is nothing to compare."
    hurts, helps = (f"{100 * dead[case].mean():+.0f}" for case in ("negative", "positive"))
    text = f"{SAID[outcome]}. With {KINDS[kind]}, the dead share of the last layer changes by {hurts} points "
    text += f"where it hurts, {helps} where it helps.{SPARED.get(claims[f'spared-{kind}'].outcome, '')}"
    for other in parameters["labels"][:-1]:
        if claims[f"dies-{other}"].outcome != outcome:
            text += f" {KINDS[other].capitalize()}: {claims[f'dies-{other}'].outcome}."
    return text + f" Width {parameters['width']}."


def moments(table, network, labels, column):
    """Means over the seeds, per cent: before the switch → ``SWITCH`` steps later → in the end; or None."""
    frame = curve(table, network, labels, column)
    found = [100 * values.mean() for values in (first(frame), value_at(frame, SWITCH), last(frame))]
    return " → ".join(f"{value:.0f}" for value in found) if np.isfinite(found).all() else None


def key_numbers(table, parameters):
    """Dead neurons of both cases, and activation in the small network, around the switch."""
    kind, count = parameters["labels"][-1], parameters["cnn_convolutions"][0]
    when = f"before the switch → {SWITCH} steps later → in the end"
    asked = {
        f"dead neurons of VGG-16's last layer where pre-training helps (%), {when}": (
            "positive",
            kind,
            "dead",
        ),
        f"the same where it hurts (%), {when}": ("negative", kind, "dead"),
        f"activation in the simple network's dense layer (%), {when}": (count, "random", "activation"),
    }
    found = {what: moments(table, *which) for what, which in asked.items()}
    return [KeyNumber(what, here) for what, here in found.items() if here]


def known(table, network, labels):
    """Training accuracies (0..1) at the end of the first task and of that on ``labels``, by seed."""
    return [last(curve(table, network, task, "accuracy")) for task in ("upstream", labels)]
