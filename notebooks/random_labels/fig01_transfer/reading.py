"""When pre-training on random labels speeds training up, and when it slows it down (Figure 1)."""

from companion.over_seeds import at, curves, difference, last, sample, weakest
from companion.statements import Case, Number, Statement

from ..shared import gains
from ..shared.vgg_settings import SETTINGS

# Experiment of Figure 1 -> (its setting, downstream labels, sign of what pre-training does).
EXPERIMENTS = {
    1: ("1 and 2", "real", 1),
    2: ("1 and 2", "random", 1),
    3: ("3 and 4", "real", -1),
    4: ("3 and 4", "random", -1),
}


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


def lost(table, experiment):
    """Test accuracy in the end, from scratch less pre-trained, by seed (points)."""
    ends = (last(curve(table, experiment, start, "test")) for start in ("scratch", "pretrained"))
    return 100 * difference(*ends)


def memorised(table, experiment):
    """Share of the random labels that pre-training fits in the end, by seed."""
    return sample(at(rows_of(table, experiment), start="upstream"), "accuracy")


def late(table, parameters, experiment):
    """Whether the pre-trained network ends with under 90 % of its training images right, by seed."""
    return (last(curve(table, experiment, "pretrained")) < 0.9).astype(float)


def each(parameters):
    return [
        Case(
            str(number),
            f"experiment {number}, {labels} labels, {'faster' if sign > 0 else 'slower'}",
            {"experiment": number},
        )
        for number, (_, labels, sign) in EXPERIMENTS.items()
    ]


POINTS = {"above": 0, "matters": 1.0, "unit": "points", "because": gains.VISIBLE}
STATEMENTS = [
    Statement(
        "experiment", "Pre-training changes the speed of training in the direction that the figure shows.",
        source="Figure 1, A.5", of=as_printed, headline=True, each=each, **POINTS,
    ),
    Statement(
        "test", "With real labels, pre-training lowers the test accuracy in the end, in either setting.",
        source="Section 1.1", of=lambda t, p: weakest(lost(t, 1), lost(t, 3)), **POINTS,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "gain", "gain by pre-training (points)", lambda t, p, experiment: gain(t, experiment), each=each,
        paper=lambda p, experiment: "faster" if EXPERIMENTS[experiment][2] > 0 else "slower",
    ),
    Number(
        "against", "share of seeds that go the other way",
        lambda t, p, experiment: (as_printed(t, p, experiment) < 0).astype(float), each=each, bounds=(0, 1),
    ),
    Number("lost", "test accuracy lost, experiment 1 (points)", lambda t, p: lost(t, 1)),
]  # fmt: skip
