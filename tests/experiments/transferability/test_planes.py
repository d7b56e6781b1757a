"""Landscapes as rows of a table, and their common scale in pictures."""

import numpy as np
import pandas as pd
import pytest

from alignbook.metrics.landscape import Landscape
from companion.studies.transferability.shared.planes import grid, rows_of


def test_rows_and_back():
    landscape = np.linspace(-0.3, 0.3, 5), np.linspace(-0.1, 0.1, 3), np.arange(15.0).reshape(5, 3)
    rows = rows_of(Landscape(*landscape))
    for ours, own in zip(grid(rows.sample(frac=1, random_state=0)), landscape, strict=True):
        np.testing.assert_allclose(ours, own)
    with pytest.raises(ValueError, match="duplicate"):
        grid(pd.concat([rows, rows]))
