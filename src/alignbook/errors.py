"""What a user can mend: the command prints the message as one line and exits with status 2."""

import math


class AlignbookError(RuntimeError):
    """Bad input or a fault outside the code; the message is one clear line."""


def on_one_line(text):
    """What went wrong, as one line of at most 300 characters."""
    return " ".join(str(text).split())[:300]


class Diverged(Exception):
    """The training loss of a unit stopped being finite; the unit is stored and counted as diverged."""

    def __init__(self, step):
        super().__init__(f"the loss is not finite after {step} steps")
        self.step = step


def require_finite(loss, step):
    """Raise :class:`Diverged` unless the float ``loss`` after ``step`` steps is finite."""
    if not math.isfinite(loss):
        raise Diverged(step)
