"""Why an instrument measures nothing."""


class DoesNotApply(Exception):
    """The instrument has nothing to measure here; the message says why, in one line."""


class TooLong(DoesNotApply):
    """It would take more than the time that is left for it."""


class OutOfTime(DoesNotApply):
    """The probe's time is over."""
