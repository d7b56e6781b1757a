import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from alignbook.data import peaks
from alignbook.data.peaks import PeaksFunction


def test_a_peaks_function_is_an_if_then_else():
    #                        A    B    C    D    E    F
    values = torch.tensor([[0.6, 0.1, 0.2, 0.3, 0.4, 0.9], [0.5, 0.1, 0.2, 0.3, 0.4, 0.9]])
    assert PeaksFunction("A", "B", "C")(values).tolist() == pytest.approx([0.1, 0.2])  # 0.5 is not above
    assert PeaksFunction("F", "D", "A")(values).tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("names", [("A", "A", "B"), ("A", "B", "G"), ("A", "B", "CD"), ("A", "B", "")])
def test_refuses_anything_but_three_distinct_variables(names):
    with pytest.raises(ValueError, match="three different letters"):
        PeaksFunction(*names)


def test_encoding_against_the_formula_written_out():
    values = peaks.sample_variables(7, torch.Generator().manual_seed(1))
    inputs = peaks.encode(values)
    for row, given_values in zip(inputs, values.tolist(), strict=True):
        plain = [
            0.5 * math.exp(-((value - centre / 10) ** 2) / (2 * 0.1**2))
            for value in given_values
            for centre in range(10)
        ]
        length = math.sqrt(sum(feature**2 for feature in plain))
        assert row.tolist() == pytest.approx([feature / length for feature in plain], rel=1e-12)
    assert inputs.shape == (7, 60) and inputs.dtype == torch.float64


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31))
def test_tasks_are_related_as_the_paper_says(seed):
    tasks = peaks.draw_tasks(torch.Generator().manual_seed(seed))
    source, related, unrelated = (str(tasks[name]) for name in ("source", "related", "unrelated"))
    assert set(related) == set(source) and related != source
    assert set(unrelated) == set(peaks.VARIABLES) - set(source)


def test_every_source_and_every_reordering_is_drawn():
    generator = torch.Generator().manual_seed(0)
    drawn = [peaks.draw_tasks(generator) for _ in range(2000)]
    assert len({str(tasks["source"]) for tasks in drawn}) == 120
    order = {tuple(str(t["source"]).index(v) for v in str(t["related"])) for t in drawn}
    assert len(order) == 5


def test_variables_are_uniform_and_reproducible():
    first, again = (peaks.sample_variables(20000, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.min() >= 0 and first.max() < 1
    # Mean 1/2 and variance 1/12 of each variable, five standard errors; independent of each other.
    assert (first.mean(0) - 0.5).abs().max() < 5 * math.sqrt(1 / 12 / 20000)
    assert (first.T.cov() - torch.eye(6) / 12).abs().max() < 5 / 12 / math.sqrt(20000)
