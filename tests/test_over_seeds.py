"""Each word against a plain loop over the records that the table was made of."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import pearsonr, spearmanr

from companion.claims import t_interval
from companion.over_seeds import (
    across,
    area,
    at,
    correlation,
    curves,
    difference,
    exponent,
    first,
    last,
    means,
    once,
    rank_correlation,
    ratio,
    sample,
    slope,
    strongest,
    value_at,
    weakest,
)

QUICK = settings(max_examples=15, deadline=None, derandomize=True, database=None)
NAN = math.nan
FLOATS = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda v: round(v, 3)) | st.just(NAN)
INTEGERS = st.integers(-9, 9)
XS = st.integers(-3, 5) | st.sampled_from([0.5, 1.25, 4.75])
ARMS = ("real", "random")


@st.composite
def records(draw, xs=XS):
    """{(arm, seed, x): value}, uneven: whatever seeds, whatever x of each; or none at all."""
    keys = st.tuples(st.sampled_from(ARMS), st.integers(0, 4), xs)
    return draw(st.dictionaries(keys, draw(st.sampled_from([FLOATS, INTEGERS])), max_size=24))


def table_of(found, order=None):
    """The table of ``found``, its rows shuffled by ``order``."""
    rows = pd.DataFrame(
        [(*key, value) for key, value in found.items()], columns=["arm", "seed", "x", "value"]
    )
    return rows if order is None else rows.sample(frac=1, random_state=order)


def rows_by_seed(found, arm="real"):
    """{seed: {x: value}} without missing values: what the loops go through."""
    rows = {}
    for (of, seed, x), value in sorted(found.items(), key=lambda item: item[0][1:]):
        if of == arm and not math.isnan(value):
            rows.setdefault(seed, {})[float(x)] = float(value)
    return rows


def frame_of(found, arm="real", order=0):
    return curves(at(table_of(found, order), arm=arm), "x", "value")


def same(found, expected):
    """``found`` (Series) has the seeds and, to rounding, the values of the dict ``expected``."""
    assert isinstance(found, pd.Series) and found.dtype == float
    assert sorted(found.index) == sorted(expected), (found, expected)
    for seed, value in expected.items():
        assert found[seed] == pytest.approx(value, rel=1e-9, abs=1e-9), (found, expected)


CASES = given(records(), st.integers(0, 99))


@QUICK
@CASES
def test_at(found, order):
    table = table_of(found, order)
    for arm, xs in (("real", 1), ("random", [0, 1.25]), (["real", "random"], range(2, 4)), ("neither", {1})):
        allowed = (xs,) if isinstance(xs, int) else tuple(xs)
        arms = [arm] if isinstance(arm, str) else arm
        expected = {(a, s, x) for a, s, x in found if a in arms and x in allowed}
        chosen = at(table, arm=arm, x=xs)
        assert {(r.arm, r.seed, r.x) for r in chosen.itertuples()} == expected
        assert len(chosen) == len(expected) and list(chosen) == list(table)
    assert at(table).equals(table)
    assert at(table, arm="real", width=3).empty and list(at(table, width=3)) == list(table)


@QUICK
@CASES
def test_sample(found, order):
    table = at(table_of(found, order), arm="real", x=1)
    by_hand = {seed: row[1.0] for seed, row in rows_by_seed(found).items() if 1.0 in row}
    values = sample(table, "value")
    same(values, by_hand)
    assert list(values.index) == sorted(by_hand)
    same(sample(table, "nothing"), {})
    same(sample(table.drop(columns="seed"), "value"), {})


def test_a_seed_with_two_rows_is_refused():
    twice = pd.DataFrame({"seed": [0, 7, 7], "x": [1, 2, 2], "value": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="seed 7 has several rows of value"):
        sample(twice, "value")
    with pytest.raises(ValueError):
        curves(twice, "x", "value")
    same(sample(twice.assign(value=[1.0, NAN, 3.0]), "value"), {0: 1.0, 7: 3.0})


@QUICK
@CASES
def test_curves(found, order):
    frame = frame_of(found, order=order)
    keys = [(s, x) for a, s, x in found if a == "real"]
    assert list(frame.index) == sorted({s for s, _ in keys})
    assert list(frame.columns) == sorted({x for _, x in keys})
    for seed in frame.index:
        for x in frame.columns:
            expected = found.get(("real", seed, x), NAN)
            assert frame.loc[seed, x] == expected or (math.isnan(expected) and math.isnan(frame.loc[seed, x]))
    assert curves(table_of(found), "nothing", "value").empty


@QUICK
@CASES
def test_first_and_last(found, order):
    frame, rows = frame_of(found, order=order), rows_by_seed(found)
    xs = sorted(x for a, _, x in found if a == "real")
    for word, x in ((first, xs[:1]), (last, xs[-1:])):
        same(word(frame), {seed: row[float(x[0])] for seed, row in rows.items() if x and float(x[0]) in row})


@QUICK
@CASES
def test_across(found, order):
    table = at(table_of(found, order), arm="real")
    for values in ([3, 0], [1], [5, 2, 1.25]):
        frame = across(table, "x", values, lambda rows: sample(rows, "value"))
        kept = {s: row for s, row in rows_by_seed(found).items() if all(float(v) in row for v in values)}
        assert list(frame.columns) == values
        assert {s: list(row) for s, row in frame.iterrows()} == {
            s: [row[v] for v in values] for s, row in kept.items()
        }
    nothing = across(table, "x", [], lambda rows: sample(rows, "value"))
    for word in (first, last, slope, area):
        same(word(nothing), {})


@QUICK
@given(records(), st.integers(0, 99), st.sampled_from([-3, -0.75, 0, 1, 2.6, 5, 6]))
def test_value_at(found, order, x):
    expected = {}
    for seed, row in rows_by_seed(found).items():
        below, above = [p for p in row if p <= x], [p for p in row if p >= x]
        if below and above:
            a, b = max(below), min(above)
            expected[seed] = row[a] if a == b else row[a] + (row[b] - row[a]) * (x - a) / (b - a)
    same(value_at(frame_of(found, order=order), x), expected)


def trapezoids(row, low, high):
    """Mean of the curve between ``low`` and ``high``, piece by piece; None where it does not reach them."""
    points = sorted(row)
    low, high = (min(points) if low is None else low), (max(points) if high is None else high)
    if len(points) < 2 or low < points[0] or high > points[-1] or low >= high:
        return None
    total = 0.0
    for a, b in zip(points, points[1:], strict=False):
        left, right = max(a, low), min(b, high)
        if left < right:
            steep = (row[b] - row[a]) / (b - a)
            total += (right - left) * (row[a] + steep * ((left + right) / 2 - a))
    return total / (high - low)


@QUICK
@given(records(), st.sampled_from([(None, None), (0, None), (None, 3), (-0.5, 2.2), (1, 1), (3, 1)]))
def test_area(found, ends):
    expected = {seed: trapezoids(row, *ends) for seed, row in rows_by_seed(found).items()}
    same(area(frame_of(found), *ends), {seed: value for seed, value in expected.items() if value is not None})


@QUICK
@CASES
def test_slope(found, order):
    expected = {}
    for seed, row in rows_by_seed(found).items():
        if len(row) > 1:
            expected[seed] = np.polyfit(list(row), list(row.values()), 1)[0]
    same(slope(frame_of(found, order=order)), expected)


def test_exponent_is_the_slope_of_the_logarithms():
    x = np.array([10.0, 20, 50, 100])
    assert exponent(x, 0.7 * x**0.9) == pytest.approx(0.9)
    assert exponent(x, [1, 1, 1, 2]) == pytest.approx(np.polyfit(np.log10(x), np.log10([1, 1, 1, 2]), 1)[0])


def test_a_curve_is_read_along_its_axis_whatever_the_order_of_its_columns():
    frame = pd.DataFrame({64: [4.0, 1.0], 16: [0.0, 1.0], 32: [2.0, 7.0]}, index=[3, 5])
    turned = frame[[16, 32, 64]]
    same(value_at(frame, 24), {3: 1.0, 5: 4.0})
    for word in (area, slope, lambda f: value_at(f, 48)):
        same(word(frame), word(turned).to_dict())
    same(first(frame), {3: 4.0, 5: 1.0})  # as the frame has them


@QUICK
@given(records(st.just(0)), st.sampled_from([0.0, 1.0]))
def test_difference_and_ratio(found, shift):
    one, other = (sample(at(table_of(found), arm=arm), "value") for arm in ARMS)
    rows = [{s: row[0.0] for s, row in rows_by_seed(found, arm).items()} for arm in ARMS]
    both = set(rows[0]) & set(rows[1])
    same(difference(one, other), {s: rows[0][s] - rows[1][s] for s in both})
    same(ratio(one, other), {s: rows[0][s] / rows[1][s] for s in both if rows[1][s] != 0})
    same(ratio(one, other * 0), {})
    same(difference(one, shift), {s: value - shift for s, value in rows[0].items()})


@given(st.integers(0, 2**32 - 1))
@QUICK
def test_rank_correlation(seed):
    """Of uneven curves, with ties and gaps."""
    rng = np.random.default_rng(seed)
    one, other = (
        pd.DataFrame(rng.integers(0, 6, (4, 7)).astype(float)).mask(rng.random((4, 7)) < 0.2)
        for _ in range(2)
    )
    for ranked, correlated in ((True, spearmanr), (False, pearsonr)):
        expected = {}
        for row in range(4):
            a, b = one.loc[row].to_numpy(), other.loc[row].to_numpy()
            kept = ~np.isnan(a) & ~np.isnan(b)
            if kept.sum() > 2 and np.ptp(a[kept]) and np.ptp(b[kept]):
                expected[row] = correlated(a[kept], b[kept]).statistic
        same(rank_correlation(one, other[[3, 1, 6, 0, 2, 5, 4]], ranked), expected)


@QUICK
@given(st.lists(st.lists(st.integers(-20, 20), max_size=5), min_size=1, max_size=4))
def test_weakest(several):
    samples = [pd.Series(values, dtype=float) for values in several]
    found = weakest(*samples)
    assert weakest().empty
    if any(not values for values in several):
        assert found.empty
        return
    ends = [t_interval(values)[2] for values in several]
    lower = [-math.inf if end is None else end[0] for end in ends]
    assert found is samples[lower.index(min(lower))]


def test_the_strongest_of_several_holds_by_chance_at_the_stated_rate():
    rng, held = np.random.default_rng(0), {4: 0, 1: 0}
    for _ in range(300):
        samples = [pd.Series(rng.standard_normal(6)) for _ in range(4)]
        for number in held:
            low = t_interval(strongest(*samples[:number]))[2][0]
            held[number] += low > 0
    assert held[4] / 300 < 0.04 and 0.01 < held[1] / 300 < 0.04  # one of forty
    clear, weak = pd.Series([1.0, 1.1, 0.9]), pd.Series([5.0, 0.5, 9.0])
    assert strongest(clear, weak).mean() == pytest.approx(1.0)
    assert strongest().empty and strongest(pd.Series([1.0])).tolist() == [1.0]


def test_correlation_within_a_seed_and_means_of_it():
    rng = np.random.default_rng(0)
    seeds = np.repeat([0, 1, 2, 3], [5, 2, 4, 4])
    rows = pd.DataFrame({"seed": seeds, "a": rng.random(15), "b": rng.random(15)})
    rows.loc[rows["seed"] == 2, "b"] = 7.0  # does not vary
    rows.loc[14, "a"] = NAN
    found, least = correlation(rows, "a", "b"), correlation(rows, "a", "b", least=4)
    assert list(found.index) == [0, 3] and list(least.index) == [0]
    for seed, value in found.items():
        pairs = [(a, b) for s, a, b in rows.to_numpy() if s == seed and not math.isnan(a)]
        (ma, mb), n = np.mean(pairs, axis=0), len(pairs)
        moment = sum((a - ma) * (b - mb) for a, b in pairs) / n
        spread = math.sqrt(sum((a - ma) ** 2 for a, _ in pairs) * sum((b - mb) ** 2 for _, b in pairs)) / n
        assert value == pytest.approx(moment / spread)
    for seed, value in means(rows, "a").items():
        kept = [a for s, a, _ in rows.to_numpy() if s == seed and not math.isnan(a)]
        assert value == pytest.approx(sum(kept) / len(kept))
    nothing = pd.DataFrame({"unit": []})
    assert correlation(nothing, "a", "b").empty and means(nothing, "a").empty


def test_a_table_is_measured_once():
    asked = []

    @once
    def doubled(table, times=1, **more):
        asked.append((times, more))
        return table["x"] * 2 * times

    tables = [pd.DataFrame({"x": [n]}) for n in (1, 2)]
    for table in (*tables, *tables):  # asked of another one in between
        doubled(table)
        doubled(table, times=2, more=0)
    assert asked == 2 * [(1, {}), (2, {"more": 0})]
    assert [int(doubled(table).iloc[0]) for table in tables] == [2, 4]
