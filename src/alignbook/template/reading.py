"""What the stored table says of the paper's statements (to be replaced)."""

import numpy as np

from alignbook.over_seeds import curves, slope
from alignbook.statements import Number, Statement


def errors(table):
    """(seeds × sizes) frame of the error."""
    return curves(table, "size", "error")


def rate(table, parameters):
    """Slope of log error over log size, one value per seed."""
    frame = np.log(errors(table))
    return slope(frame.set_axis(np.log(frame.columns.astype(float)), axis=1))


def largest(table, parameters):
    """Error of the largest samples, one value per seed."""
    frame = errors(table)
    return frame.iloc[:, -1] if frame.size else None


STATEMENTS = [
    Statement(
        "falls", "The error falls as the sample grows (slope of the logarithms).", source="Figure 0",
        of=rate, below=0, matters=0.05, because="a tenth of the slope that theory gives, -1/2", paper=-0.5,
        headline=True,
    ),
]  # fmt: skip
# What the page tells without a verdict.
NUMBERS = [Number("least", "error of the largest samples", largest)]
