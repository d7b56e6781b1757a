"""Landscapes as rows of a table, and their common scale in pictures."""

import numpy as np
import pandas as pd
import pytest

from alignbook.metrics.landscape import Landscape
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
