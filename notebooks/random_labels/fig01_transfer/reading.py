"""When pre-training on random labels speeds training up, and when it slows it down (Figure 1)."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import area, at, curves, difference, last, sample, weakest
from alignbook.statements import Case, Requirement, Statement

from ..vgg_settings import SETTINGS

# Experiment of Figure 1 -> (its setting, downstream labels, sign of what pre-training does).
EXPERIMENTS = {
    1: ("1 and 2", "real", 1),
    2: ("1 and 2", "random", 1),
    3: ("3 and 4", "real", -1),
    4: ("3 and 4", "random", -1),
}
LEARNED = 0.95  # of the random labels: the share that chose the scale, see the page
VISIBLE = "the panels show accuracy from 0 to 1: one point is the width of a line"


def rows_of(table, experiment):
    """All rows of the setting of one experiment: the two differ in their random classes upstream (A.5)."""
    return at(table, classes=SETTINGS[EXPERIMENTS[experiment][0]].classes)


def curve(table, experiment, start, column="accuracy"):
    """(seeds × epochs) frame of one experiment: ``start`` "pretrained" or "scratch"."""
    labels = EXPERIMENTS[experiment][1]
    return curves(at(rows_of(table, experiment), start=start, labels=labels), "epoch", column)


def gain(table, experiment):
    """Area between the learning curves, pre-trained less from scratch, by seed (points of accuracy).

    The mean over training of the difference (Appendix B).
    """
    areas = (area(curve(table, experiment, start)) for start in ("pretrained", "scratch"))
    return 100 * difference(*areas)


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


def _fitted(table, parameters, experiment=None):
    numbers = EXPERIMENTS if experiment is None else [experiment]
    return pd.Series([memorised(table, number).mean() for number in numbers]).min(skipna=False)


FITTED = Requirement("share of the random labels that pre-training fits", _fitted, at_least=LEARNED)
POINTS = {"above": 0, "matters": 1.0, "unit": "points", "because": VISIBLE, "requires": (FITTED,)}

STATEMENTS = [
    Statement(
        "signs", "Pre-training speeds up training in experiments 1 and 2 and slows it in 3 and 4.",
        source="Figure 1, A.5", of=all_four, headline=True, **POINTS,
    ),
    Statement(
        "experiment", "Pre-training changes the speed of training in the direction of the figure.",
        source="Figure 1, A.5", of=as_printed, **POINTS,
        each=lambda p: [
            Case(str(number), f"experiment {number}, {labels} labels, {'faster' if sign > 0 else 'slower'}",
                 {"experiment": number})
            for number, (_, labels, sign) in EXPERIMENTS.items()
        ],
    ),
    Statement(
        "test", "With real labels, test accuracy ends lower after pre-training.",
        source="Section 1.1", of=lost, **POINTS,
        each=lambda p: [Case(str(n), f"experiment {n}", {"experiment": n}) for n in (1, 3)],
    ),
]  # fmt: skip

SAID = {
    HOLDS: "Pre-training on random labels speeds training up in the paper's positive setting and slows it "
    "down in its negative one, in all four experiments",
    ABSENT: "At least one of the four effects of pre-training on random labels is too small to matter",
    CONTRADICTED: "Pre-training on random labels does not have the paper's sign in all four experiments",
    UNDECIDED: "Not all four signs of pre-training on random labels are decided",
}


def finding(table, parameters, claims):
    """Whether all four signs are the paper's, on average how many are, and which seeds stand apart."""
    outcome = claims["signs"].outcome
    if outcome not in SAID:
        return "The four experiments are not all among the results."
    found = {number: as_printed(table, parameters, number) for number in EXPERIMENTS}
    right = sum(values.mean() > 0 for values in found.values())
    text = SAID[outcome]
    if outcome == UNDECIDED:
        text += f": on average {'all' if right == len(found) else right} are the paper's"
        open_ = [n for n in found if claims[f"experiment-{n}"].outcome == UNDECIDED]
        if open_:
            values, number = found[open_[0]], open_[0]
            text += (
                f", but experiment {number} has {(values < 0).sum()} of {len(values)} seeds on the other side"
            )
            text += f", by up to {-values.min():.0f} points" * bool(values.min() < 0)
    return text + f". VGG-16 of width {parameters['width']} on {parameters['side']}-pixel images."


def key_numbers(table, parameters):
    """The areas of the positive and the negative experiments, and test accuracy in the end."""
    made = []
    for numbers, word in (((1, 2), "faster"), ((3, 4), "slower")):
        values = [gain(table, number) for number in numbers]
        if all(len(value) for value in values):
            here = " / ".join(f"{value.mean():+.1f}" for value in values)
            what = f"pre-trained less scratch, mean over training, experiments {numbers[0]} / {numbers[1]}"
            made.append(KeyNumber(f"{what} (points)", here, word))
    change = -lost(table, parameters, 1)
    if len(change):
        what = "test accuracy in the end, experiment 1: pre-trained less scratch (points)"
        made.append(KeyNumber(what, interval(change, "{:+.1f}"), "lower"))
    return made
