"""What a user can mend: the command prints the message as one line and exits with status 2."""

import math
import traceback
from pathlib import Path

from alignbook import paths


class AlignbookError(RuntimeError):
    """An error that the user can mend: bad input, or a fault outside the code.

    The message is one clear line. Raised by :func:`alignbook.load`, :func:`companion.run` and
    :func:`alignbook.probe`; the command prints it and exits with status 2.

    Examples
    --------
    >>> import alignbook
    >>> try:
    ...     alignbook.load("cifar")
    ... except alignbook.AlignbookError as error:
    ...     print(str(error).partition(" at ")[0])
    no image set 'cifar'
    """


def on_one_line(text):
    """What went wrong, as one line of at most 300 characters."""
    return " ".join(str(text).split())[:300]


def fault(error):
    """``FILE, line N: KeyError: 'value'``: where in the studies ``error`` was raised, and what it is.

    The file is the last one in the traceback that an experiment may have written wrong; of a SyntaxError it
    is the one that cannot be read.
    """
    what = on_one_line(f"{type(error).__name__}: {error}")
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        what = on_one_line(f"{type(error).__name__}: {error.msg}")
        return f"{paths.shown(error.filename)}, line {error.lineno}: {what}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(paths.root() / "notebooks")]
    return f"{paths.shown(own[-1].filename)}, line {own[-1].lineno}: {what}" if own else what


def logged(name, text):
    """``; traceback in FILE``, where ``text`` was written under ``name``; empty where it cannot be."""
    log = paths.build() / "logs" / f"{name.replace('/', '-')}.txt"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text, encoding="utf-8")
    except OSError:
        return ""
    return f"; traceback in {paths.shown(log)}"


class Diverged(Exception):
    """The training loss of a job stopped being finite; the job is stored and counted as diverged."""

    def __init__(self, step):
        super().__init__(f"the loss is not finite after {step} steps")
        self.step = step


def require_finite(loss, step):
    """Raise :class:`Diverged` unless the float ``loss`` after ``step`` steps is finite."""
    if not math.isfinite(loss):
        raise Diverged(step)
