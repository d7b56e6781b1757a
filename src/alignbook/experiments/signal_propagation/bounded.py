"""Intervals of quantities that have bounds: a correlation is at most 1, an accuracy at most 100 %.

A t interval of few seeds knows nothing of that. What is shown ends at the bound; verdicts do not change.
"""

import math
from dataclasses import replace


def within(claim, low=-math.inf, high=math.inf):
    """The same :class:`alignbook.claims.Claim`, its interval cut to ``low`` … ``high``, and its test says so.

    The outcome stays: a bound lies beyond every value that the claim could be judged against.
    """
    if claim.interval is None or low <= claim.interval[0] and claim.interval[1] <= high:
        return claim
    cut = tuple(min(max(end, low), high) for end in claim.interval)
    return replace(claim, interval=cut, test=f"{claim.test}; shown up to the bound of the quantity")
