"""How much pre-training on random labels slows a second task, by the dense layer's width (Figure 8)."""

from companion.over_seeds import across, at, curves, difference, first, last, means
from companion.statements import Statement, over

from ..shared.gains import KINDS, VISIBLE, gain


def gap(rows):
    """Mean accuracy over training from scratch less that of the pre-trained network, by seed.

    Positive where pre-training slows training down. rows : of one width, image size and kind of labels.
    """
    return gain(rows, "scratch", "pretrained")


def dead_at_switch(rows, start):
    """Share of the dense units that no held-out image activates after the second task's first epoch."""
    return means(at(rows, start=start, epoch=1), "dead")


def dead_at_end(rows, start):
    """The same share at the end of the second task, by seed."""
    return last(curves(at(rows, start=start), "epoch", "dead"))


def narrow(table, parameters, labels, side=None):
    """The rows of the narrowest network, at the figure's image size or another."""
    side = parameters["side"] if side is None else side
    return at(table, labels=labels, side=side, dense_units=min(parameters["dense_units"]))


def slowed(table, parameters, labels):
    """The gap of the narrowest network, by seed."""
    return gap(narrow(table, parameters, labels))


def closed(table, parameters, labels):
    """The gap at the narrowest width less that at the widest, of seeds with all; None of one width only."""
    rows = at(table, labels=labels, side=parameters["side"])
    found = across(rows, "dense_units", sorted(parameters["dense_units"]), gap)
    return difference(first(found), last(found)) if found.shape[1] > 1 else None


def more_dead(share):
    """Reading: ``share(rows, start)`` of the narrowest pre-trained network less that from scratch."""

    def less(table, parameters, labels):
        rows = narrow(table, parameters, labels)
        return difference(share(rows, "pretrained"), share(rows, "scratch"))

    return less


GAP = {
    "source": "Figure 8, Section 3", "above": 0, "matters": 0.01, "unit": "of accuracy", "because": VISIBLE,
    "each": over("labels", KINDS),
}  # fmt: skip
DEAD = {
    "source": "Section 3, Appendix F", "above": 0, "matters": 0.05, "unit": "of the units",
    "because": "one unit in twenty hardly changes what a layer computes", "each": over("labels", KINDS),
    "post_hoc": "chosen when these runs had been seen",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "closes", "The widest dense layer has a smaller gap to training from scratch than the narrowest.",
        of=closed, headline=True, **GAP,
    ),
    Statement(
        "negative", "With the narrowest dense layer, pre-training slows training down.", of=slowed, **GAP
    ),
    Statement(
        "abrupt", "After one epoch more of its units are dead than from scratch.",
        of=more_dead(dead_at_switch), **DEAD,
    ),
    Statement("permanent", "In the end, too, more of them are.", of=more_dead(dead_at_end), **DEAD),
]  # fmt: skip
