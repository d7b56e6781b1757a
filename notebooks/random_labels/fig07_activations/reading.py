"""What the switch of tasks does to the last hidden layer (Figures 7, 10, 11 and 24)."""

import numpy as np

from alignbook.claims import KeyNumber
from alignbook.over_seeds import at, curves, difference, first, last, ratio, value_at
from alignbook.statements import Case, Statement, over
from alignbook.wording import by_verdict, others

from ..gains import KINDS
from ..seen_seeds import seen
from .design import CASES, LAST

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


def at_switch(table, network, labels, column="activation"):
    """How much ``column`` of the last hidden layer rises in the first ``SWITCH`` steps, by seed."""
    frame = curve(table, network, labels, column)
    return difference(value_at(frame, SWITCH), first(frame))


def apart(measure):
    """``measure(case)`` of the negative case less that of the positive one, by seed."""
    return difference(measure("negative"), measure("positive"))


def stays(table, parameters, network, labels):
    """Activation in the end, less that of the network without a first task, by seed; empty without one."""
    return difference(*(last(curve(table, network, labels, control=without)) for without in (False, True)))


def left(table, parameters, labels):
    """Activation of the positive case over that before the switch, the smaller of ``EARLY`` and the end.

    By seed; seeds without any activation before the switch are left out.
    """
    frame = curve(table, "positive", labels)
    if frame.empty:
        return None
    moments = first(frame.loc[:, frame.columns >= EARLY * frame.columns[-1]]), last(frame)
    return np.minimum(*(ratio(moment, first(frame)) for moment in moments)).dropna()


def later(table, parameters, case):
    """Fall of activation in pre-training, the last hidden layer less the first, by seed."""
    frames = (curve(table, case, "upstream", layer=layer) for layer in (LAST, 1))
    return difference(*(difference(first(frame), last(frame)) for frame in frames))


def known(table, network, labels):
    """Training accuracies (0..1) at the end of the first task and of that on ``labels``, by seed."""
    return [last(curve(table, network, task, "accuracy")) for task in ("upstream", labels)]


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
    "seen": seen,
}
BY_LABELS = {"each": over("labels", KINDS)}

STATEMENTS = [
    Statement("dies",
              "At the switch of tasks, more neurons of the last hidden layer die in the negative case.",
              "Section 3, Appendix F", above=0, headline=True, unit="of the neurons",
              of=lambda t, p, labels: apart(lambda case: at_switch(t, case, labels, "dead")),
              **BY_LABELS, **SHARE, **CHOSEN),
    Statement("ends",
              "After fine-tuning, fewer neurons of the last hidden layer are active in the negative case.",
              "Section 3, Figure 7", above=0,
              of=lambda t, p, labels: -apart(lambda case: last(curve(t, case, labels))),
              **BY_LABELS, **PAIRS),
    Statement("falls", "Activation in the last hidden layer falls right after the switch of tasks.",
              "Section 3, Appendix F, Figure 24", above=0, each=after_the_switch,
              of=lambda t, p, network, labels: -at_switch(t, network, labels), **PAIRS, **CHOSEN),
    Statement("stays", "It does not come back: activation ends lower than it does without a first task.",
              "Section 3, Appendix F, Figure 24", stays, below=0, each=after_the_switch, **PAIRS),
    Statement("spared", "Activation in the last hidden layer falls less at the switch in the positive case.",
              "Section 3", above=0, of=lambda t, p, labels: -apart(lambda case: at_switch(t, case, labels)),
              **BY_LABELS, **PAIRS, **CHOSEN),
    Statement("intact", "In the positive case more than half of the last hidden layer's activation is left.",
              "Section 3", left, above=KEPT, unit="of the activation before", ours=True,
              **BY_LABELS, **SHARE),
    Statement("later", "Pre-training lowers activation more in the last hidden layer than in the first.",
              "Section 3, Appendix F", later, above=0, **PAIRS,
              each=lambda p: [Case(case, f"the {case} case", {"case": case}) for case in CASES]),
]  # fmt: skip

SAID = by_verdict(
    holds="When the task changes, more neurons fall silent where pre-training hurts than where it helps",
    contradicted="When the task changes, fewer neurons fall silent where pre-training hurts",
    absent="When the task changes, about as many neurons fall silent where pre-training hurts as elsewhere",
    undecided="It is undecided whether more neurons fall silent where pre-training hurts",
    not_judged="We do not judge yet whether more neurons fall silent where pre-training hurts: we chose the "
    "measure after seeing these seeds",
)


def finding(table, parameters, claims):
    """Whether the switch kills more neurons in the negative case, and how many in both."""
    kind, *rest = parameters["labels"]
    outcome = claims[f"dies-{kind}"].outcome
    hurts, helps = (100 * at_switch(table, case, kind, "dead").mean() for case in ("negative", "positive"))
    if outcome not in SAID:
        return "The two cases are not both among the results: there is nothing to compare."
    text = f"{SAID[outcome]}. With {KINDS[kind]} the share of dead neurons changes by {hurts:+.0f} points "
    text += f"where pre-training hurts and by {helps:+.0f} where it helps."
    text += others(outcome, {KINDS[other]: claims[f"dies-{other}"].outcome for other in rest})
    return text + f" VGG-16 is scaled down to width {parameters['width']}."


def key_numbers(table, parameters):
    """Dead neurons of both cases before, right after and long after the switch, as means over the seeds."""
    kind, made = parameters["labels"][0], []
    for case, word in (("positive", "helps"), ("negative", "hurts")):
        frame = curve(table, case, kind, "dead")
        found = [100 * values.mean() for values in (first(frame), value_at(frame, SWITCH), last(frame))]
        if np.isfinite(found).all():
            what = f"dead neurons, pre-training {word} (%): before the switch → {SWITCH} steps later → end"
            made.append(KeyNumber(what, " → ".join(f"{value:.0f}" for value in found)))
    return made
