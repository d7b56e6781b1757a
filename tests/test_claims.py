"""Verdicts come from a test on the seeds."""

import json

import numpy as np
import pytest
from scipy import stats

from alignbook.claims import (
    CONTRADICTED,
    HOLDS,
    NOT_JUDGED,
    NOT_RUN,
    OPPOSED,
    OUTCOMES,
    UNDECIDED,
    Claim,
)

WHAT = ("id", "statement", "Figure 1")


def test_interval_is_the_t_interval_of_scipy():
    values = np.array([0.3, 0.5, 0.9, 0.4])
    claim = Claim.greater(*WHAT, values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert claim.interval == pytest.approx((low, high), rel=1e-12)
    assert claim.measured == pytest.approx(values.mean()) and claim.seeds == 4


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([1.0, 1.1, 0.9], HOLDS),
        ([-1.0, -1.1, -0.9], CONTRADICTED),
        ([1, -1, 0.1], UNDECIDED),
        ([5, 5], UNDECIDED),
        ([1e-9, 1e-9, 1e-9], UNDECIDED),  # no spread to judge by
        ([0.3, 0.1 + 0.2, 0.3], UNDECIDED),  # nor is rounding one
    ],
)
def test_greater(values, outcome):
    assert Claim.greater(*WHAT, values).outcome == outcome


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.50, 0.51, 0.49], HOLDS),
        ([0.70, 0.71, 0.69], CONTRADICTED),
        ([0.50, 0.60, 0.40], UNDECIDED),
        ([0.5], UNDECIDED),
    ],
)
def test_equals(values, outcome):
    assert Claim.equals(*WHAT, values, paper=0.5, tolerance=0.1).outcome == outcome


@pytest.mark.parametrize(
    ("interval", "outcome"), [((0.55, 0.65), HOLDS), ((0.3, 0.5), CONTRADICTED), ((0.1, 1.1), UNDECIDED)]
)
def test_covers(interval, outcome):
    claim = Claim.covers(*WHAT, measured=0.6, interval=interval, paper=0.6, tolerance=0.2, seeds=3)
    assert claim.outcome == outcome


@pytest.mark.parametrize(
    ("values", "paper", "outcome"),
    [
        ([0.50, 0.51, 0.49], 0.53, HOLDS),  # beyond the interval of the mean, 0.475 to 0.525
        ([0.50, 0.51, 0.49], 0.56, CONTRADICTED),
        ([0.50, 0.51], 0.505, UNDECIDED),
        ([0.50, 0.50, 0.50], 0.50, UNDECIDED),
    ],
)
def test_one_run(values, paper, outcome):
    assert Claim.one_run(*WHAT, values, paper).outcome == outcome


def test_one_run_whose_interval_is_wider_than_asked_says_little():
    values = [0.50, 0.51, 0.49]  # ± 0.0497
    assert Claim.one_run(*WHAT, values, 0.53, tolerance=0.05).outcome == HOLDS
    assert Claim.one_run(*WHAT, values, 0.53, tolerance=0.04).outcome == UNDECIDED
    assert Claim.one_run(*WHAT, values, 0.56, tolerance=0.04).outcome == CONTRADICTED


def test_a_further_run_of_ours_in_place_of_the_papers_holds_at_the_stated_rate():
    draws = np.random.default_rng(0).standard_normal((2000, 6))
    share = np.mean([Claim.one_run(*WHAT, run[1:], run[0]).outcome == HOLDS for run in draws])
    assert abs(share - 0.95) < 0.02


def test_computed():
    assert Claim.computed(*WHAT, measured=0.61, paper=0.6, tolerance=0.02).outcome == HOLDS
    assert Claim.computed(*WHAT, measured=0.65, paper=0.6, tolerance=0.02).outcome == CONTRADICTED


def test_a_diverged_run_is_never_averaged_in():
    nan = float("nan")
    for judge in (
        lambda: Claim.greater(*WHAT, [1.0, nan, 2.0]),
        lambda: Claim.equals(*WHAT, [1.0, nan, 2.0], paper=1.0, tolerance=0.1),
        lambda: Claim.covers(*WHAT, measured=1.0, interval=(nan, nan), paper=1.0, tolerance=0.1, seeds=5),
        lambda: Claim.covers(*WHAT, measured=nan, interval=(0.9, 1.1), paper=1.0, tolerance=0.1, seeds=5),
        lambda: Claim.computed(*WHAT, measured=nan, paper=1.0, tolerance=0.1),
    ):
        with pytest.raises(ValueError, match="leave diverged runs out"):
            judge()


def test_several_values_per_seed_are_no_seeds():
    with pytest.raises(ValueError, match="one value per seed"):
        Claim.greater(*WHAT, np.ones((2, 40)))


def test_what_is_not_judged_or_missing_has_no_verdict():
    claim = Claim.greater(*WHAT, [1.0, 1.1, 0.9]).not_judged("smoke")
    assert (claim.outcome, claim.test) == (NOT_JUDGED, "smoke") and claim.measured is not None
    nothing = Claim.missing(*WHAT, "nothing there").not_judged("smoke")
    assert (nothing.outcome, nothing.test) == (NOT_RUN, "smoke")
    assert claim.opposed("Figure 1 against Figure 2").outcome == OPPOSED
    tagged = claim.tagged(group="one statement", ours=True)
    assert (tagged.group, tagged.ours, tagged.outcome) == ("one statement", True, NOT_JUDGED)
    assert Claim.missing(*WHAT, "nothing there").outcome == NOT_RUN
    assert set(claim.as_dict()) >= {"id", "statement", "source", "paper", "interval", "outcome"}
    assert claim.outcome in OUTCOMES


def test_a_true_null_is_called_inconclusive_at_the_stated_rate():
    draws = np.random.default_rng(0).standard_normal((2000, 5))
    share = np.mean([Claim.greater(*WHAT, values).outcome == UNDECIDED for values in draws])
    assert abs(share - 0.95) < 0.02


@pytest.mark.parametrize(
    "judge",
    [
        lambda: Claim.greater(*WHAT, [1.0, 2.0, 4.0], than=float("nan")),
        lambda: Claim.equals(*WHAT, [1.0, 2.0, 4.0], paper=float("nan"), tolerance=0.1),
        lambda: Claim.equals(*WHAT, [1.0, 2.0, 4.0], paper=1.0, tolerance=-0.1),
        lambda: Claim.covers(*WHAT, measured=1.0, interval=(2.0, 0.0), paper=1.0, tolerance=3.0, seeds=4),
        lambda: Claim.computed(*WHAT, measured=1.0, paper=1.0, tolerance=float("inf")),
    ],
)
def test_what_cannot_be_judged_is_refused(judge):
    with pytest.raises(ValueError):
        judge()


def test_numbers_of_every_kind_become_json():
    values = np.array([1.0, 1.1, 0.9], dtype=np.float32)
    for claim in (
        Claim.equals(*WHAT, values, np.float32(1.0), np.float32(0.1)),
        Claim.computed(*WHAT, values[0], values[0], values[1]),
        Claim.covers(*WHAT, values[0], values[[2, 1]], values[0], values[1], np.int64(3)),
    ):
        assert json.loads(json.dumps(claim.as_dict()))["id"] == claim.id


def test_an_interval_ends_where_its_quantity_does_and_the_verdict_stays():
    near_one = np.array([0.99, 0.9, 0.8])
    for than, outcome in ((0.5, HOLDS), (0.85, UNDECIDED)):
        claim = Claim.greater("a", "b", "c", near_one, than=than)
        cut = claim.within(high=1.0)
        assert cut.outcome == outcome and cut.interval == (claim.interval[0], 1.0) and "bound" in cut.test
        assert claim.within(high=2.0) == claim
    missing = Claim.missing("a", "b", "c", "nothing")
    assert missing.within(high=1.0) == missing
