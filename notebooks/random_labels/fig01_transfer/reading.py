"""When pre-training on random labels speeds training up, and when it slows it down (Figure 1)."""

import pandas as pd

from alignbook.claims import HOLDS, NOT_JUDGED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, last, sample, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting

from .. import gains
from ..vgg_settings import SETTINGS

# Experiment of Figure 1 -> (its setting, downstream labels, sign of what pre-training does).
EXPERIMENTS = {
    1: ("1 and 2", "real", 1),
    2: ("1 and 2", "random", 1),
    3: ("3 and 4", "real", -1),
    4: ("3 and 4", "random", -1),
}
LEARNED = 0.95  # of the random labels: the share that chose the scale, see the page


def rows_of(table, experiment):
    """All rows of the setting of one experiment: the two differ in their random classes upstream (A.5)."""
    return at(table, classes=SETTINGS[EXPERIMENTS[experiment][0]].classes)


def curve(table, experiment, start, column="accuracy"):
    """(seeds × epochs) frame of one experiment: ``start`` "pretrained" or "scratch"."""
    rows = at(rows_of(table, experiment), start=start, labels=EXPERIMENTS[experiment][1])
    return curves(rows, "epoch", column)


def gain(table, experiment):
    """Mean accuracy over training, pre-trained less from scratch, by seed (points)."""
    return 100 * gains.gain(at(rows_of(table, experiment), labels=EXPERIMENTS[experiment][1]))


def as_printed(table, parameters, experiment):
    """The gain, its sign turned where the paper's is negative, by seed."""
    return EXPERIMENTS[experiment][2] * gain(table, experiment)


def all_four(table, parameters):
    """Of the four, as printed, the sample that shows its sign least."""
    return weakest(*(as_printed(table, parameters, number) for number in EXPERIMENTS))


def lost(table, parameters, experiment):
    """Test accuracy in the end, from scratch less pre-trained, by seed (points)."""
    ends = (last(curve(table, experiment, start, "test")) for start in ("scratch", "pretrained"))
    return 100 * difference(*ends)


def memorised(table, experiment):
    """Share of the random labels that pre-training fits in the end, by seed."""
    return sample(at(rows_of(table, experiment), start="upstream"), "accuracy")


def least_memorised(table, parameters, experiment=None):
    """Mean of :func:`memorised`; of all experiments the least, NaN where one is missing."""
    numbers = EXPERIMENTS if experiment is None else [experiment]
    return pd.Series([memorised(table, number).mean() for number in numbers]).min(skipna=False)


POINTS = {
    "above": 0, "matters": 1.0, "unit": "points", "because": gains.VISIBLE,
    "requires": (
        Requirement("share of the random labels that pre-training fits", least_memorised, at_least=LEARNED),
    ),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "signs", "Pre-training speeds up training in experiments 1 and 2 and slows it in 3 and 4.",
        source="Figure 1, A.5", of=all_four, headline=True, **POINTS,
    ),
    Statement(
        "experiment", "Pre-training changes the speed of training in the direction that the figure shows.",
        source="Figure 1, A.5", of=as_printed, **POINTS,
        each=lambda p: [
            Case(str(number), f"experiment {number}, {labels} labels, {'faster' if sign > 0 else 'slower'}",
                 {"experiment": number})
            for number, (_, labels, sign) in EXPERIMENTS.items()
        ],
    ),
    Statement(
        "test", "With real labels, pre-training lowers the test accuracy in the end.",
        source="Section 1.1", of=lost, **POINTS,
        each=lambda p: [
            Case(str(n), f"experiment {n}, at epoch {p['stops']}", {"experiment": n}) for n in (1, 3)
        ],
    ),
]  # fmt: skip

FILTERS = 64  # of the paper's first convolution (A.2)

SAID = by_verdict(
    holds="Pre-training on random labels speeds training up in both of the paper's positive experiments and "
    "slows it down in both negative ones",
    contradicted="Pre-training on random labels does not both help and hurt where the paper says",
    absent="In at least one experiment, pre-training on random labels changes the speed too little to matter",
    undecided="It is undecided whether pre-training helps and hurts where the paper says",
    not_judged="We do not judge whether pre-training on random labels helps and hurts as in the paper, since "
    "it did not fit its labels",
)


def finding(table, parameters, claims):
    """Whether all four signs are the paper's, and by how much at least; words follow the verdicts."""
    outcome = claims["signs"].outcome
    if outcome not in SAID:
        return "The four experiments are not all among the results."
    text = SAID[outcome]
    if outcome == HOLDS:
        least = min(abs(as_printed(table, parameters, number).mean()) for number in EXPERIMENTS)
        text += f", by at least {least:.0f} points of mean accuracy"
    elif outcome != NOT_JUDGED:
        text += f": {by_labels(claims)}"
    narrow = " Our VGG-16 is narrower than the paper's"
    if parameters["width"] >= FILTERS:
        return f"{text}."
    factor = parameters["scale_factor"]
    larger = f", and its initial weights are {'twice' if factor == 2 else f'{factor:g} times'} as large"
    return fitting(f"{text}.{narrow}{larger * (factor != 1)}.", f"{text}.{narrow}.")


BOTH = by_verdict(
    "both signs hold", "both signs are the opposite", "both effects are too small to matter",
    undecided="neither sign is decided", not_judged="neither sign is judged",
)  # fmt: skip


THIS = by_verdict(
    "holds", "is the opposite", "is too small", undecided="is undecided", not_judged="is not judged"
)


def by_labels(claims):
    """``with random labels both signs hold; with real labels neither sign is decided``."""
    found = {}
    for number, (_, labels, _) in EXPERIMENTS.items():
        found.setdefault(labels, []).append(claims[f"experiment-{number}"].outcome)
    words = {
        labels: BOTH[help] if help == hurt else f"the gain {THIS[help]} and the loss {THIS[hurt]}"
        for labels, (help, hurt) in found.items()
    }
    return f"with random labels {words['random']}; with real labels {words['real']}"


def key_numbers(table, parameters):
    """The areas with real labels, positive and negative, and test accuracy in the end."""
    made = []
    for number, word in ((1, "faster"), (3, "slower")):
        values = gain(table, number)
        if len(values):
            what = f"accuracy gain, averaged over training, experiment {number} (points)"
            made.append(KeyNumber(what, interval(values, "{:+.1f}"), word))
    change = -lost(table, parameters, 1)
    what = f"test accuracy at epoch {parameters['stops']}, experiment 1: pre-trained minus scratch (points)"
    return made + [KeyNumber(what, interval(change, "{:+.1f}"), "lower")] * bool(len(change))
