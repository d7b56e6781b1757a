"""Random labels and disjoint splits."""

import pytest
import torch

from alignbook.data import disjoint_splits, random_labels
from alignbook.seeding import torch_stream


def test_random_labels_are_uniform_and_seeded():
    labels = random_labels(20_000, 10, torch_stream(0, "labels"))
    assert labels.dtype == torch.int64 and labels.shape == (20_000,)
    # Five standard deviations of a binomial count.
    assert (labels.bincount(minlength=10) - 2000).abs().max() < 5 * (20_000 * 0.1 * 0.9) ** 0.5
    assert torch.equal(labels, random_labels(20_000, 10, torch_stream(0, "labels")))
    assert not torch.equal(labels, random_labels(20_000, 10, torch_stream(1, "labels")))


def test_splits_are_disjoint_and_random():
    first, empty, second = disjoint_splits(50, [20, 0, 30], torch_stream(0, "splits"))
    assert (len(first), len(empty), len(second)) == (20, 0, 30)
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(50))
    assert first.dtype == torch.int64 and first.tolist() != sorted(first.tolist())
    again = disjoint_splits(50, [20, 0, 30], torch_stream(0, "splits"))
    assert torch.equal(again[2], second)
    assert len(disjoint_splits(50, [7], torch_stream(0, "splits"))[0]) == 7
    assert disjoint_splits(50, [], torch_stream(0, "splits")) in ([], [pytest.approx([])])


@pytest.mark.parametrize("sizes", [[30, 21], [-1, 3]])
def test_impossible_splits(sizes):
    with pytest.raises(ValueError, match="disjoint"):
        disjoint_splits(50, sizes, torch_stream(0, "splits"))
