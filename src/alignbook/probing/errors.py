"""Why an instrument measures nothing."""


class DoesNotApply(Exception):
    """The instrument has nothing to measure here; the message says why, in one line."""


class OutOfTime(DoesNotApply):
    """The probe's time is over."""
