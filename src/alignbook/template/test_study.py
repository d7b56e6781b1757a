"""PAPER/SLUG: what is computed against a plain reference, and the verdict of each statement."""

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN
from alignbook.statements import judged
from alignbook.studies.PAPER.SLUG import experiment, reading


def table(power):
    """Errors that change as the size to about this power."""
    rows = [(seed, size, size ** (power + 0.01 * seed)) for seed in range(3) for size in (4, 16, 64)]
    return pd.DataFrame(rows, columns=["seed", "size", "error"])


@pytest.mark.parametrize(
    ("made", "outcome"), [(table(-0.5), HOLDS), (table(0.5), CONTRADICTED), (pd.DataFrame(), NOT_RUN)]
)
def test_the_statement_comes_out_either_way(made, outcome):
    (claim,) = judged(reading.STATEMENTS, made, {})
    assert claim.outcome == outcome
    (number,) = reading.NUMBERS[0].measured(made, {})
    assert (number.measured is None) == (outcome == NOT_RUN)


def test_the_error_of_a_mean_is_that_of_theory():
    found = experiment.compute(sizes=[4, 400], seed=0, device="cpu", report=None).set_index("size")["error"]
    assert found.to_numpy() == pytest.approx(np.sqrt(2 / np.pi / np.array([4, 400])), rel=0.2)
