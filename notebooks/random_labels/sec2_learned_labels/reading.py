"""What computed and pre-trained layers gain over a fresh start (Section 2.5): measures, then statements."""

import numpy as np

from companion.over_seeds import across, at, curves, difference, first, last, once
from companion.statements import Number, Statement

from ..shared.gains import above, mean_accuracy
from .design import COMPUTED, PRETRAINED, RANDOM, starts


def at_the_end(rows):
    """Accuracy on test images after the second task, by seed."""
    return last(curves(rows, "epoch", "test"))


@once
def gains(table, measure=mean_accuracy):
    """(seeds × starts) frame of ``measure`` above that of a fresh start, points; empty without results."""
    started = table["start"].unique() if "start" in table else []
    return above(across(table, "start", started, measure), RANDOM)


def shares(table, parameters):
    """(seeds × pre-trained starts) frame: share of the random labels that was learned, percent."""
    values = at(table, epoch=0).pivot(index="seed", columns="start", values="fitted")
    return 100 * values[starts(parameters["upstream_epochs"])[2:]]


def gain(table, parameters, one, other=RANDOM):
    """Gain of a start over another, points, by seed; "early" and "learned" are the ends of pre-training."""
    values, epochs = gains(table), parameters["upstream_epochs"]
    ends = {"early": PRETRAINED.format(min(epochs)), "learned": PRETRAINED.format(max(epochs))}
    return difference(values[ends.get(one, one)], values[ends.get(other, other)]) if len(values) else None


def of(*pair):
    """Reading: :func:`gain` of a start, over another one."""
    return lambda table, parameters: gain(table, parameters, *pair)


def crossing(level):
    """Reading: share of labels (%) at which pre-trained layers come to gain as much as the start ``level``.

    Mean curves over the seeds, linear between interruptions; of none where the gain does not cross.
    """

    def share(table, parameters):
        learned = shares(table, parameters).mean()
        above = (gains(table)[learned.index].mean() - gains(table)[level].mean()).to_numpy()
        (places,) = np.nonzero((above[:-1] < 0) & (above[1:] >= 0))
        if not len(places):
            return []
        pair = slice(places[-1], places[-1] + 2)
        return [np.interp(0, above[pair], learned.to_numpy()[pair])]

    return share


POINTS = {
    "above": 0, "matters": 2.0, "unit": "points",
    "because": "Tables 1 to 7 count accuracies within 0.02 as the same",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "matches", "Three computed layers gain as much as three that have learned their random labels.",
        source="Section 2.5; Tables 1 and 7", of=of(COMPUTED, "learned"), near=0, within=2.0, unit="points",
        because=POINTS["because"], headline=True,
        opposed_by="Tables 1 and 7, which print 0.68 and 0.78 on training images after 1000 steps",
    ),
    Statement(
        "computed", "Three computed layers are better than a fresh start.", source="Section 2.5; Table 1",
        of=of(COMPUTED), **POINTS,
    ),
    Statement(
        "learned", "So are three layers that have learned their random labels.",
        source="Section 2.5; Table 7", of=of("learned"), **POINTS,
    ),
    Statement(
        "early", "Three layers whose pre-training is interrupted early are worse than a fresh start.",
        source="ours", ours=True, of=lambda t, p: gain(t, p, RANDOM, "early"), **POINTS,
    ),
]  # fmt: skip
NUMBERS = [
    Number("helps", "random labels learned where pre-training begins to help (%)", crossing(RANDOM)),
    Number("early-share", "random labels learned at first (%)", lambda t, p: first(shares(t, p))),
    Number("learned-share", "random labels learned in the end (%)", lambda t, p: last(shares(t, p))),
    Number("costs", "loss by the layers interrupted first", lambda t, p: gain(t, p, RANDOM, "early")),
    Number("computed-gain", "gain of three computed layers (points)", of(COMPUTED)),
    Number("learned-gain", "gain of layers that have learned their labels (points)", of("learned")),
]  # fmt: skip
