"""Why an instrument measures nothing."""

from alignbook.errors import on_one_line


class DoesNotApply(Exception):
    """The instrument has nothing to measure here; the message says why, in one line."""


class OutOfTime(DoesNotApply):
    """The probe's time is over."""


def why(error):
    """One line; with the kind of error where the message alone says little."""
    plain = isinstance(error, DoesNotApply | ValueError | RuntimeError)
    return on_one_line(error if plain and str(error) else f"{type(error).__name__}: {error}").rstrip(".")
