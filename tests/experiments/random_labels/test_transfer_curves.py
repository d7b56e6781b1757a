"""Rise and fall of curves: known ones, and noise."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, Claim
from companion.studies.random_labels.shared.transfer_curves import rise_and_fall


def test_rise_and_fall_of_a_known_curve():
    curve = np.array([1.0, 2, 4, 3])
    rise, fall = rise_and_fall([curve, 2 * curve, 3 * curve])
    assert rise == pytest.approx(np.full(3, np.log(4)))
    assert fall == pytest.approx(np.full(3, np.log(4 / 3)))
    _, fall = rise_and_fall([np.array([1.0, 2, 3])] * 2)
    assert fall == pytest.approx(np.full(2, np.log(2 / 3)))  # only rises: the last point is no peak


@pytest.mark.parametrize("networks", [5, 50])
def test_noise_gets_a_verdict_as_rarely_as_the_interval_says(networks):
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        for values in rise_and_fall(np.exp(rng.normal(0, 0.1, size=(networks, 30)))):
            outcomes.append(Claim.greater("id", "statement", "source", values).outcome)
    # 2.5 % on either side; a rule that takes the peak from all other networks has 12 and 18 %.
    assert outcomes.count(HOLDS) < 0.06 * len(outcomes)
    assert outcomes.count(CONTRADICTED) < 0.06 * len(outcomes)
