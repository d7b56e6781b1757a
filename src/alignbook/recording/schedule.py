"""At which steps a recorder looks, and for how long it may."""

import math
import operator
from collections import defaultdict
from collections.abc import Iterable

from alignbook.errors import on_one_line
from alignbook.metrics.checks import above, integer

PER_DECADE = 8
FREE = 10.0  # seconds of recording that no share of the training bounds: a short run is recorded whole


def due(at):
    """The rule step → bool that ``at`` stands for: a period, any iterable of steps, or ``"logarithmic"``.

    Raises ValueError for anything else.
    """
    if isinstance(at, str) and at == "logarithmic":  # an array would be compared entry by entry
        return _logarithmic
    try:
        if not isinstance(at, Iterable):
            integer(at, "at", 1)
            return lambda step: step % at == 0
        return frozenset(map(operator.index, at)).__contains__
    except (TypeError, ValueError):
        what = on_one_line(repr(at))
        raise ValueError(f"at must be a period, a list of steps or 'logarithmic', not {what}") from None


def _logarithmic(step):
    """0, 1, 2, 3, 4, 6, 7, 10, 13, 18, …: eight to a decade."""
    if step < 1:
        return step == 0
    nearest = round(PER_DECADE * math.log10(step))
    return step == round(10 ** (nearest / PER_DECADE))


class Budget:
    """Seconds of recording, held to a share of the seconds of training.

    An instrument is used where what it took the last time still fits; one that has to be stopped is taken to
    need twice as long.
    """

    def __init__(self, share, trained=0.0, seconds=0.0, last=()):
        if share is not None:
            above(share, "share")
        self.share, self.trained, self.seconds = share, trained, seconds
        self.last = defaultdict(float, last)

    @property
    def left(self):
        """Seconds that recording may take now; below 0 where it has taken more than its share."""
        bound = math.inf if self.share is None else max(FREE, self.share * self.trained)
        return bound - self.seconds

    def allows(self, name):
        """Whether the last cost of an instrument fits the remaining budget."""
        return self.last[name] <= self.left

    def state(self):
        """Plain numbers, for a run that goes on."""
        return {"trained": self.trained, "seconds": self.seconds, "last": dict(self.last)}
