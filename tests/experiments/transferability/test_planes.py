"""Landscapes as rows of a table, and their common scale in pictures."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from alignbook.metrics.landscape import Landscape
from companion.pages.planes import common_scale, draw_all
from companion.studies.transferability.shared.planes import grid, rows_of


def found():
    alpha, beta = np.linspace(-0.3, 0.3, 5), np.linspace(-0.1, 0.1, 3)
    return Landscape(alpha, beta, np.arange(15.0).reshape(5, 3))


def test_rows_and_back():
    rows = rows_of(found())
    alpha, beta, loss = grid(rows.sample(frac=1, random_state=0))
    assert np.allclose(alpha, found().alpha) and np.allclose(beta, found().beta)
    assert np.array_equal(loss, found().loss)
    with pytest.raises(ValueError, match="duplicate"):
        grid(pd.concat([rows, rows]))


@pytest.mark.parametrize(("high", "apart"), [(1.0, 0.05), (0.6, 0.05), (1.01, 0.1), (3.0, 0.2), (30.0, 2.0)])
def test_contours_lie_as_near_as_twenty_of_them_allow(high, apart):
    planes = [(None, None, np.array([[0.0, 0.5]])), (None, None, np.array([[high, np.inf]]))]
    norm, levels, step = common_scale(planes)
    assert (norm.vmin, norm.vmax) == (0.0, high) and step == pytest.approx(apart)
    assert np.allclose(np.diff(levels), apart) and len(levels) <= 21


def test_planes_beside_each_other_share_one_scale():
    fig, axes = plt.subplots(1, 2)
    low, high = ((found().alpha, found().beta, found().loss + shift) for shift in (0, 5))
    norm = draw_all(axes, [low, high], "loss")
    assert (norm.vmin, norm.vmax) == (0, 19)
    assert [ax.images[0].norm for ax in axes] == [norm, norm]
    assert fig.axes[2].get_xlabel() == "loss, contours 1 apart"
    plt.close(fig)
