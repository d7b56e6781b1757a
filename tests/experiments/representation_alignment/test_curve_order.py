"""Which curve is the higher one, beside plain loops."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED, Claim
from alignbook.studies.representation_alignment import curve_order


def test_the_share_of_thresholds_beside_a_loop():
    rng = np.random.default_rng(0)
    one, other = (pd.DataFrame(rng.integers(0, 4, (5, 40)).astype(float)) for _ in "ab")
    other.iloc[0, :30] = one.iloc[0, :30] + 1e-9  # the same, to rounding
    found = curve_order.share_above(one, other)
    for seed in range(5):
        above = sum(1 / x for x in range(1, 40) if one.loc[seed, x] > other.loc[seed, x] + 1e-6)
        below = sum(1 / x for x in range(1, 40) if one.loc[seed, x] < other.loc[seed, x] - 1e-6)
        assert found[seed] == pytest.approx(above / (above + below))
    same = curve_order.share_above(one, one)
    assert same.isna().all() and len(same) == 5
    assert curve_order.share_above(one.loc[1:], other.loc[:3]).index.tolist() == [1, 2, 3]
    assert curve_order.share_above(pd.DataFrame(), pd.DataFrame()).empty


def test_an_effect_is_told_beside_the_smallest_that_matters():
    def told(values):
        claim = Claim.greater("more", "It is more.", "Figure 1", values, 0.0, matters=5.0)
        return curve_order.beside_smallest(replace(claim, unit="%", matters=5.0), "The gain")

    wide, narrow = told([1.0, 3.0, 5.0, 7.0, 2.0]), told([3.5, 3.6, 3.7])
    assert wide.startswith(
        "The gain is 3.6 %, less than the 5 % that we call the smallest effect that matters. "
    )
    assert "a narrower interval" in wide  # it holds by its width
    assert narrow == "The gain is 3.6 %, less than the 5 % that we call the smallest effect that matters."
    assert told([8.0, 8.1, 8.2]).endswith(
        "no less than the 5 % that we call the smallest effect that matters."
    )
    assert (
        curve_order.beside_smallest(Claim.missing("more", "It is more.", "Figure 1", "not run"), "It") == ""
    )


def test_a_larger_area_is_not_a_wider_range():
    """What an area hides: a curve far above at one threshold and below at all others has more of it."""
    high = pd.DataFrame([[1.0, 1.0, 0.0, 0.0]] * 3, columns=[0, 1, 2, 3])
    wide = pd.DataFrame([[1.0, 0.2, 0.1, 0.1]] * 3, columns=[0, 1, 2, 3])
    assert (high.sum(axis=1) > wide.sum(axis=1)).all()
    assert curve_order.share_above(high, wide).tolist() == pytest.approx([1 / 3] * 3)
    assert curve_order.percent_above(high, wide) == "33 %"


def test_most_thresholds_decide_by_the_least_favourable_pair():
    by = curve_order.by_thresholds
    most, half, few = pd.Series([0.8, 0.9, 0.7]), pd.Series([0.5, 0.51, 0.49]), pd.Series([0.1, 0.2, 0.3])
    every, none = pd.Series([1.0, 1.0]), pd.Series([0.0])
    assert [by(one) for one in (most, half, few)] == [HOLDS, ABSENT, CONTRADICTED]
    assert by(pd.Series([0.2, 0.9, 0.7])) == UNDECIDED and by(pd.Series([0.5, 0.5])) == UNDECIDED
    assert by(most, every) == HOLDS and by(every) == HOLDS and by(none) == CONTRADICTED
    assert by(every, half) == ABSENT and by(most, none) == CONTRADICTED and by(most, few) == CONTRADICTED
    nowhere = pd.Series([np.nan, np.nan])  # curves that differ nowhere
    assert by() == NOT_RUN and by(every, nowhere) == ABSENT and by(every, pd.Series(dtype=float)) == ABSENT


def test_a_run_whose_curves_differ_nowhere_shows_neither_order():
    by, nan = curve_order.by_thresholds, np.nan
    assert by(pd.Series([1.0, nan, nan, nan, 1.0])) == UNDECIDED == by(pd.Series([0.0, nan, nan, nan, 0.0]))
    assert by(pd.Series([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, nan])) == HOLDS
    one = pd.DataFrame([[1.0, 0.6, 0.2], [1.0, 0.6, 0.2]])
    other = one - np.array([[0, 0.1, 0.1], [0, 0, 0]])
    assert curve_order.share_above(one, other).fillna(-1).tolist() == [1.0, -1.0]
    assert curve_order.percent_above(one, other) == "100 %"  # of the runs in which they differ


def test_areas_and_thresholds_must_say_the_same():
    def same(areas, *shares):
        return curve_order.same_by_thresholds(pd.Series(areas), *shares, matters=0.01)

    most, few = pd.Series([0.8, 0.9, 0.7]), pd.Series([0.1, 0.2, 0.3])
    assert same([0.2, 0.3, 0.25], most) and not same([0.2, 0.3, 0.25], few)
    assert same([-0.2, -0.3, -0.25], few) and not same([-0.2, -0.3, -0.25], most)
    assert same([-1.0, 1.0, 0.5], few)  # undecided: there is no verdict to compare
    alike = [0.001, -0.001, 0.0]
    nowhere = pd.Series([np.nan] * 3)  # curves that differ nowhere
    assert not same(alike, most) and same(alike, nowhere)
    assert not same([0.2, 0.3, 0.25], nowhere)
    assert curve_order.same_by_thresholds(None, most, matters=0.01) is None


def test_the_condition_rests_on_the_seeds_of_the_verdict():
    areas, shares = pd.Series([0.2, 0.3, 0.25, 0.2]), pd.Series([0.0, 0.9, 0.8, 0.9])

    def met(seen):
        need = curve_order.wide(lambda t, p: areas, lambda t, p: [shares], 0.01, seen)
        return need.check(None, {}, {})["met"]

    assert met(1) and not met(0)


def test_the_weakest_step_is_the_one_that_shows_a_rise_least():
    values = pd.DataFrame([[9, 1.0, 2.0, 2.5], [9, 1.0, 1.2, 2.2], [9, 1.0, 1.9, 2.0]], columns=range(4))
    # Steps of the three seeds: 1.0, 0.2, 0.9 and 0.5, 1.0, 0.1; the second's interval begins lower.
    np.testing.assert_allclose(curve_order.weakest_step(values), [0.5, 1.0, 0.1])
    assert curve_order.weakest_step(pd.DataFrame()).empty and curve_order.surest_fall(pd.DataFrame()).empty
    falling = pd.DataFrame([[9, 2.0, 1.0, 1.5], [9, 2.0, 1.1, 1.5], [9, 2.0, 0.9, 1.4]], columns=range(4))
    assert curve_order.surest_fall(falling).mean() == pytest.approx(1.0)  # by Bonferroni's wider spread
    assert curve_order.surest_fall(falling).std() > 0.1
    assert curve_order.monotone(values).tolist() == [True, True, True]
    assert curve_order.monotone(values[[0, 2, 1, 3]].set_axis(range(4), axis=1)).tolist() == [False] * 3
    assert curve_order.arrows(values, 1) == "1.0 → 1.7 → 2.2"
