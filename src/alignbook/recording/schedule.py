"""At which steps a recorder looks, and for how long it may."""

import math
from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral, Real

from alignbook.errors import on_one_line

PER_DECADE = 8
FREE = 10.0  # seconds of recording that no share of the training bounds: a short run is recorded whole


def due(at):
    """The rule step → bool that ``at`` stands for: a period, any iterable of steps, or ``"logarithmic"``.

    Raises ValueError for anything else.
    """
    if isinstance(at, str) and at == "logarithmic":  # an array would be compared entry by entry
        return _logarithmic
    if _whole(at, 1):
        return lambda step: step % at == 0
    if isinstance(at, Iterable) and not isinstance(at, str):
        with suppress(TypeError):  # an array without dimensions has no entries
            steps = list(at.tolist() if hasattr(at, "tolist") else at)  # a tensor's entries are tensors
            if all(_whole(step, 0) for step in steps):
                return frozenset(map(int, steps)).__contains__
    raise ValueError(f"at must be a period, a list of steps or 'logarithmic', not {on_one_line(repr(at))}")


def _whole(value, least):
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def _logarithmic(step):
    """0, 1, 2, 3, 4, 6, 7, 10, 13, 18, …: eight to a decade."""
    if step < 1:
        return step == 0
    nearest = round(PER_DECADE * math.log10(step))
    return step == round(10 ** (nearest / PER_DECADE))


class Budget:
    """Seconds of recording, instrument by instrument, held to a share of the seconds of training.

    An instrument is used where what it took the last time still fits; one that has to be stopped is taken to
    need twice as long.
    """

    def __init__(self, share):
        number = isinstance(share, Real) and not isinstance(share, bool)
        if share is not None and not (number and 0 < share < math.inf):
            raise ValueError(f"share must be a number above 0, or None for no bound, not {share!r}")
        self.share, self.trained = share, 0.0
        self.seconds, self.last, self.records, self.skipped = {}, {}, {}, {}

    @property
    def left(self):
        """Seconds that recording may take now; below 0 where it has taken more than its share."""
        bound = math.inf if self.share is None else max(FREE, self.share * self.trained)
        return bound - sum(self.seconds.values())

    def allows(self, name):
        """Whether the last cost fits the remaining budget; a refusal is counted."""
        if self.last.get(name, 0.0) <= self.left:
            return True
        self.skipped[name] = self.skipped.get(name, 0) + 1
        return False

    def stop(self, name, seconds):
        """Count a record that was stopped after so many seconds."""
        self.last[name] = 2 * seconds
        self.skipped[name] = self.skipped.get(name, 0) + 1
        self.lose(name, seconds)

    def lose(self, name, seconds):
        """Count seconds that led to no record."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def spend(self, name, seconds):
        """Count one record of the instrument."""
        self.last[name] = seconds
        self.lose(name, seconds)
        self.records[name] = self.records.get(name, 0) + 1

    def state_dict(self):
        """Plain numbers."""
        return {name: value for name, value in vars(self).items() if name != "share"}
