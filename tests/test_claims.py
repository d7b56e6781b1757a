"""Verdicts come from a test on the seeds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from companion.claims import (
    CONTRADICTED,
    HOLDS,
    MOST_SEEDS,
    NO_EFFECT,
    NOT_JUDGED,
    NOT_RUN,
    OPEN,
    OUTCOMES,
    Claim,
    _power,
    needed,
)

WHAT, NAN = ("id", "statement", "Figure 1"), float("nan")


def test_interval_is_the_t_interval_of_scipy():
    values = np.array([0.3, 0.5, 0.9, 0.4])
    claim = Claim.greater(*WHAT, values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert claim.interval == pytest.approx((low, high), rel=1e-12)
    assert claim.measured == pytest.approx(values.mean()) and claim.seeds == 4


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.5, 0.6, 0.4], NO_EFFECT),  # 0.25 to 0.75: above 0, and less than what matters
        ([-0.5, -0.6, -0.4], NO_EFFECT),
        ([0.01, -0.02, 0.015], NO_EFFECT),
        ([0.9, 1.0, 0.8], OPEN),  # 0.65 to 1.15: not all of it within, and the estimate is
        ([-0.9, -1.0, -0.8], OPEN),
        ([1.0, 1.1, 0.9], HOLDS),
        ([-1.0, -1.1, -0.9], CONTRADICTED),
        ([2.0, 2.1, 1.9], HOLDS),
        ([0.5, -0.5, 0.1], OPEN),
        ([0.01, 0.02], OPEN),  # two seeds bound nothing
        ([0.01, 0.01, 0.01], OPEN),
    ],
)
def test_an_effect_counts_from_the_smallest_that_matters(values, outcome):
    claim = Claim.greater(*WHAT, np.add(values, 5.0), than=5.0, matters=1.0)
    assert claim.outcome == outcome and claim.matters == 1.0
    turned = Claim.less(*WHAT, np.subtract(5.0, values), than=5.0, matters=1.0)
    assert turned.outcome == outcome


def test_a_further_run_of_ours_in_place_of_the_papers_holds_at_the_stated_rate():
    draws = np.random.default_rng(0).standard_normal((2000, 6))
    share = np.mean([Claim.one_run(*WHAT, run[1:], run[0]).outcome == HOLDS for run in draws])
    assert abs(share - 0.95) < 0.02


def test_what_is_not_judged_or_missing_has_no_verdict():
    claim = Claim.greater(*WHAT, [1.0, 1.1, 0.9]).not_judged("smoke")
    assert (claim.outcome, claim.test) == (NOT_JUDGED, "smoke") and claim.measured is not None
    nothing = Claim.missing(*WHAT, "nothing there").not_judged("smoke")
    assert (nothing.outcome, nothing.test) == (NOT_RUN, "smoke")
    assert Claim.missing(*WHAT, "nothing there").outcome == NOT_RUN
    assert set(claim.as_dict()) >= {"id", "statement", "source", "paper", "interval", "outcome"}
    assert claim.outcome in OUTCOMES


@pytest.mark.parametrize("matters", [None, 1e-3, 2.0])
def test_a_true_null_is_decided_at_the_stated_rate(matters):
    """Holds or contradicted in 5 % without a smallest effect that matters; with one, never more often."""
    draws = np.random.default_rng(0).standard_normal((2000, 5))
    outcomes = [Claim.greater(*WHAT, values, matters=matters).outcome for values in draws]
    share = np.mean(np.isin(outcomes, (HOLDS, CONTRADICTED)))
    assert share < 0.07 and (share > 0.03 or matters > 0.1)
    assert (NO_EFFECT in outcomes) == (matters is not None and matters > 0.1)


# ---- what would decide ----

GREATER = {"rule": Claim.greater, "than": 0.0}
NEAR = {"rule": Claim.equals, "paper": 0.0}


def seen(mean, spread=1.0, rule=Claim.greater, count=4, **judged):
    """An undecided claim on ``count`` values with this mean and standard deviation."""
    base = np.linspace(-1, 1, count)
    claim = rule(*WHAT, mean + spread * base / base.std(ddof=1), **judged)
    assert claim.outcome == OPEN, claim
    return claim


@pytest.mark.parametrize(
    ("mean", "judged"),
    [
        (0.5, GREATER),
        (1.2, GREATER),
        (0.0, GREATER | {"matters": 0.5}),  # absent: both ends of the interval must come within
        (0.25, GREATER | {"matters": 0.5}),  # either verdict
        (0.0, NEAR | {"tolerance": 0.5}),
        (0.9, NEAR | {"tolerance": 0.5}),
    ],
)
def test_the_seeds_that_are_needed_decide_in_four_of_five(mean, judged):
    claim = seen(mean, **judged)
    count = needed(claim)["seeds"]
    draws = mean + np.random.default_rng(0).standard_normal((2000, count))
    rule = {key: value for key, value in judged.items() if key != "rule"}
    decided = [judged["rule"](*WHAT, values, **rule).outcome != OPEN for values in draws]
    assert abs(np.mean(decided) - 0.8) < (0.03 if count > 12 else 0.06)  # a whole number of seeds


def test_what_is_needed_scales_with_the_spread_alone():
    counts = [needed(seen(0.5 * s, s, than=0.0, matters=0.5 * s))["seeds"] for s in (1e-9, 1.0, 1e9)]
    assert len(set(counts)) == 1
    assert [needed(seen(0.5 + shift, than=shift))["seeds"] for shift in (-3.0, 40.0)] == [34, 34]


@pytest.mark.parametrize("effect", [5.0, 50.0, 1e9, 1e150])
@pytest.mark.parametrize("count", [3, 100, MOST_SEEDS])
def test_the_power_of_an_extreme_effect_is_a_number(effect, count):
    """The noncentral t distribution of scipy gives NaN from an effect of about 1e9 on."""
    claim = Claim.greater(*WHAT, [0.0, 1.0])
    for judged in ({}, {"matters": 1.0}, {"tolerance": 1.0}):
        found = _power(replace(claim, measured=effect, spread=1.0, **judged), count)
        assert 0.6 < found <= 1.0
    assert _power(replace(claim, measured=effect, spread=1.0), MOST_SEEDS) == 1.0


def test_the_power_rises_from_too_few_to_enough():
    claim = seen(0.5, **GREATER)
    count = needed(claim)["seeds"]
    powers = [_power(claim, n) for n in range(3, count + 1)]
    assert powers == sorted(powers) and powers[-2] < 0.8 <= powers[-1]


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim.greater(*WHAT, [1.0]), "one seed"),
        (Claim.greater(*WHAT, [2.0, 2.0, 2.0]), "no spread"),
        (Claim.one_run(*WHAT, [1.0, 2.0, 3.0], 2.0, tolerance=0.1), "does not narrow"),
        (seen(0.02), "more than 10,000"),
        (seen(0.5, **NEAR, tolerance=0.5), "more than 10,000"),  # at the very margin
    ],
)
def test_where_no_number_of_seeds_is_planned_it_says_why(claim, why):
    need = needed(claim)
    assert need["seeds"] is None and why in need["why"]


def test_what_is_decided_or_not_judged_needs_nothing():
    undecided = Claim.greater(*WHAT, [1.0, -1.0, 0.5])
    assert needed(undecided)["seeds"]
    for claim in (
        Claim.greater(*WHAT, [1.0, 1.1, 0.9]),
        Claim.greater(*WHAT, [-1.0, -1.1, -0.9]),
        Claim.greater(*WHAT, [0.01, -0.01, 0.02], matters=1.0),
        undecided.not_judged("smoke"),
        Claim.missing(*WHAT, "nothing"),
    ):
        assert needed(claim) is None


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (lambda: Claim.greater(*WHAT, [1.0, NAN, 2.0]), "leave diverged runs out"),
        (lambda: Claim.equals(*WHAT, [1.0, NAN, 2.0], paper=1.0, tolerance=0.1), "leave diverged runs out"),
        (lambda: Claim.computed(*WHAT, measured=NAN, paper=1.0, tolerance=0.1), "leave diverged runs out"),
        (lambda: Claim.greater(*WHAT, [1.0, 2.0, 4.0], than=NAN), "finite"),
        (lambda: Claim.equals(*WHAT, [1.0, 2.0, 4.0], paper=NAN, tolerance=0.1), "finite"),
        (lambda: Claim.equals(*WHAT, [1.0, 2.0, 4.0], paper=1.0, tolerance=-0.1), "at least 0"),
        (lambda: Claim.computed(*WHAT, measured=1.0, paper=1.0, tolerance=float("inf")), "finite"),
        (lambda: Claim.greater(*WHAT, np.ones((2, 40))), "one value per seed"),
    ],
)
def test_what_cannot_be_judged_is_refused(judge, why):
    with pytest.raises(ValueError, match=why):
        judge()
