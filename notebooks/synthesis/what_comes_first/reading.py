"""What the stored table says of the paper's statements (to be replaced)."""

import numpy as np

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import curves, slope
from alignbook.statements import Statement


def errors(table):
    """(seeds × sizes) frame of the error."""
    return curves(table, "size", "error")


def rate(table, parameters):
    """Slope of log error over log size, one value per seed."""
    frame = np.log(errors(table))
    return slope(frame.set_axis(np.log(frame.columns.astype(float)), axis=1))


STATEMENTS = [
    Statement(
        "falls", "The error falls as the sample grows (slope of the logarithms).", source="Figure 0",
        of=rate, below=0, matters=0.05, because="a tenth of the slope that theory gives, -1/2", headline=True,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The error falls as the sample grows",
    CONTRADICTED: "The error grows with the sample, against the paper",
    ABSENT: "The error hardly changes with the size of the sample",
    UNDECIDED: "Whether the error falls as the sample grows is undecided",
    NOT_JUDGED: "Whether the error falls as the sample grows is not judged",
    NOT_RUN: "Nothing was measured",
}


def finding(table, parameters, claims):
    """The verdict in words, and the slope."""
    claim = claims["falls"]
    measured = "" if claim.measured is None else f": its slope is {claim.measured:.2f}"
    return f"{SAID[claim.outcome]}{measured}. Random numbers stand in for an experiment."


def key_numbers(table, parameters):
    """The slope beside that of theory."""
    values = rate(table, parameters)
    return [KeyNumber("slope", interval(values, "{:.2f}"), -0.5)] if len(values) else []
