"""Intervals that end where a quantity does."""

import numpy as np

from alignbook.claims import HOLDS, INCONCLUSIVE, Claim, interval
from alignbook.experiments.signal_propagation.bounded import interval_within, within

NEAR_ONE = np.array([0.99, 0.9, 0.8])


def test_what_is_shown_ends_at_the_bound():
    assert interval(NEAR_ONE) == "0.90 (0.66 to 1.13)"
    assert interval_within(NEAR_ONE, high=1) == "0.90 (0.66 to 1.00)"
    assert interval_within(NEAR_ONE, low=0.7, high=1) == "0.90 (0.70 to 1.00)"
    assert interval_within(NEAR_ONE) == interval(NEAR_ONE)
    assert interval_within([], high=1) == "–" and interval_within([0.5], high=1) == "0.50"


def test_a_verdict_stays():
    for than, outcome in ((0.5, HOLDS), (0.85, INCONCLUSIVE)):
        claim = Claim.greater("a", "b", "c", NEAR_ONE, than=than)
        cut = within(claim, high=1.0)
        assert cut.outcome == outcome and cut.interval == (claim.interval[0], 1.0) and "bound" in cut.test
        assert within(claim, high=2.0) == claim
    missing = Claim.missing("a", "b", "c", "nothing")
    assert within(missing, high=1.0) == missing
