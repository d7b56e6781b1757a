"""Intervals that end where a quantity does."""

import numpy as np

from alignbook.claims import HOLDS, INCONCLUSIVE, Claim
from alignbook.experiments.signal_propagation.bounded import within

NEAR_ONE = np.array([0.99, 0.9, 0.8])


def test_a_verdict_stays():
    for than, outcome in ((0.5, HOLDS), (0.85, INCONCLUSIVE)):
        claim = Claim.greater("a", "b", "c", NEAR_ONE, than=than)
        cut = within(claim, high=1.0)
        assert cut.outcome == outcome and cut.interval == (claim.interval[0], 1.0) and "bound" in cut.test
        assert within(claim, high=2.0) == claim
    missing = Claim.missing("a", "b", "c", "nothing")
    assert within(missing, high=1.0) == missing
