"""Which curve is the higher one, beside plain loops."""

import numpy as np
import pandas as pd
import pytest

from companion.studies.representation_alignment.shared import curve_order


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


def test_areas_by_layer_are_those_of_the_last_epoch_of_each_run():
    rows = pd.DataFrame(
        {"seed": seed, "epoch": epoch, "layer": float(layer), "area": 10 * seed + epoch + layer / 10}
        for seed, epochs in ((0, (0, 3)), (1, (0, 3, 5)))
        for epoch in epochs
        for layer in (0, 1)
    )
    assert curve_order.by_layer(rows).to_numpy().tolist() == [[3.0, 3.1], [15.0, 15.1]]
    assert curve_order.by_layer(rows, 3)[1].tolist() == [3.1, 13.1]
    assert curve_order.by_layer(rows.iloc[:0]).empty


def test_the_weakest_step_is_the_one_that_shows_a_rise_least():
    values = pd.DataFrame([[1.0, 2.0, 2.5], [1.0, 1.2, 2.2], [1.0, 1.9, 2.0]], columns=range(3))
    # Steps of the three seeds: 1.0, 0.2, 0.9 and 0.5, 1.0, 0.1; the second's interval begins lower.
    np.testing.assert_allclose(curve_order.weakest_step(values), [0.5, 1.0, 0.1])
    assert curve_order.weakest_step(pd.DataFrame()).empty
