"""Which examples are read: a spread where the data have a length; and what forms examples may have."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import alignbook
from alignbook.probing.budget import positions
from alignbook.probing.data import gathered

N, MOST = 60, 12
SPREAD = torch.tensor(positions(N, MOST))
ONLY = ["features", "tangent", "curvature", "initialisation"]


def sorted_by_class():
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
    return x, torch.arange(N) // 20


class Rows(Dataset):
    """A dataset of dicts, as Hugging Face has it, which NumPy and lists fill."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i].tolist(), "label": int(self.y[i])}


class Stream(IterableDataset):
    def __iter__(self):
        return zip(*sorted_by_class(), strict=True)


def in_every_form():
    x, y = sorted_by_class()
    pairs = TensorDataset(x, y)
    parts = [(x[:7], y[:7]), (x[7:], y[7:])]
    named = [{"x": a, "labels": b, "nothing": None} for a, b in parts]
    return [
        ((x, y),), (x, y), (x.numpy(), y.numpy()),
        (pairs,), (DataLoader(pairs, 7),), (DataLoader(pairs, 7, shuffle=True),), (parts,), (tuple(parts),),
        (named,), ({"x": x, "y": y},), ({"x": x.tolist(), "y": y.tolist()},), (Rows(x, y),),
        (DataLoader(Rows(x, y), 7, collate_fn=list_of),), ([Rows(x, y)[i] for i in range(N)],),
        (list(pairs),), ({"x": x}, y),
        ((pd.DataFrame(x), pd.Series(y)),), (pd.DataFrame(x), pd.Series(y)),
        ({"x": pd.DataFrame(x), "y": pd.Series(y)},),
    ]  # fmt: skip


@given(count=st.integers(1, 400), n=st.integers(1, 100))
def test_one_example_of_each_of_equal_parts(count, n):
    found = positions(count, n)
    assert len(found) == min(count, n) and found[0] == 0
    if n < count:
        assert all(i * count // n <= k < (i + 1) * count // n for i, k in enumerate(found))


@pytest.mark.parametrize("classes", [2, 5, 10])
def test_classes_keep_their_shares_sorted_or_in_turn(classes):
    for labels in (np.arange(1000) % classes, np.sort(np.arange(1000) % classes)):
        shares = np.bincount(labels[positions(1000, 100)], minlength=classes) / 100
        np.testing.assert_allclose(shares, 1 / classes, atol=0.04)


def list_of(rows):
    return {"x": torch.tensor([r["x"] for r in rows]), "labels": torch.tensor([r["label"] for r in rows])}


@pytest.mark.parametrize("form", in_every_form())
def test_a_spread_of_whatever_has_a_length(form):
    x, y = sorted_by_class()
    found, total = gathered(*form, examples=MOST)
    inputs = found.inputs["x"] if isinstance(found.inputs, dict) else found.inputs
    assert torch.equal(inputs, x[SPREAD]) and torch.equal(found.targets, y[SPREAD]) and total == N
    assert found.said == ("12 of 60 examples are read, evenly from first to last",)
    whole, total = gathered(*form)
    assert torch.equal(whole.targets, y) and total == N and not whole.said
    assert gathered(*form, examples=MOST)[0].digest == found.digest


@pytest.mark.parametrize("form", [iter(list(zip(*sorted_by_class(), strict=True))), Stream()])
def test_the_first_of_what_has_none(form):
    x, y = sorted_by_class()
    found, total = gathered(form, examples=MOST)
    assert torch.equal(found.inputs, x[:MOST]) and total is None
    assert found.said == ("the first 12 examples are read: the data do not say how many there are",)


def test_as_few_as_were_asked_for_will_do():
    x, y = sorted_by_class()
    for many in (8, 9, N):
        found, total = gathered((x[:many], y[:many]), examples=8)
        assert (len(found), total) == (8, many)
    with pytest.raises(ValueError, match="7 inputs and 7 targets: at least 8"):
        gathered((x[:7], y[:7]), examples=8)
    with pytest.raises(ValueError, match="8 inputs and 8 targets: at least 10"):
        gathered((x[:8], y[:8]))


def test_the_note_says_how_many_of_how_many():
    x, y = sorted_by_class()
    net = nn.Linear(4, 3)
    found = alignbook.probe(net, x, y, examples=MOST, without=ONLY)
    assert found.notes["slice"] == found.notes["loss"] == "12 of 60 examples: as asked"
    loader = DataLoader(TensorDataset(x, y), 5, shuffle=True)
    again = alignbook.probe(net, loader, examples=MOST, without=ONLY)
    assert again.data == found.data
    first = alignbook.probe(net, iter([(x, y)]), examples=MOST, without=ONLY)
    assert first.notes["slice"] == "12 of the first 12 examples: as asked" and first.data != found.data
    assert alignbook.probe(net, x, y, without=ONLY).notes["slice"] == "60 examples, all there are"
    recorder = alignbook.Recorder((x, y), ["loss"], examples=MOST)
    assert torch.equal(recorder._data.inputs, x[SPREAD])
    assert recorder.said == ("12 of 60 examples are read, evenly from first to last",)


def test_what_takes_fewer_examples_takes_them_from_all_classes():
    """The tangent kernels of a probe and of a recorder, of examples that are sorted by class."""
    count, x = 400, torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y, net = torch.arange(count) * 3 // count, nn.Linear(4, 3)
    found = alignbook.probe(net, x, y, minutes=math.inf, without=[n for n in ONLY if n != "tangent"])
    assert found.examples["tangent"] == 100
    some = positions(count, 100)
    expected = alignbook.tangent_alignment(net, x[some], y[some])
    assert found.tables["tangent"]["alignment"].iloc[0] == pytest.approx(expected[0])

    recorder = alignbook.Recorder((x, y), ["tangent", "curvature"], examples=count, share=None)
    recorder.step(net, 0)
    values = recorder.table.set_index("instrument")["value"]
    some = positions(count, 64)
    expected = alignbook.tangent_alignment(net, x[some], y[some])
    assert values["tangent"] == pytest.approx(expected[0])
    some = positions(count, 128)
    whole = alignbook.Recorder((x[some], y[some]), ["curvature"], share=None)
    whole.step(net, 0)
    assert values["curvature"] == pytest.approx(whole.table["value"].iloc[0])


def test_examples_of_tokens_are_filled_up():
    rows = [{"input_ids": [3] * n, "attention_mask": [1] * n, "labels": [3] * n} for n in (2, 5) * 6]
    found, total = gathered(rows)
    assert total == 12 and found.inputs["input_ids"].shape == (12, 5) and found.key == "labels"
    assert found.inputs["attention_mask"][0].tolist() == [1, 1, 0, 0, 0]
    assert found.targets[0].tolist() == [3, 3, -100, -100, -100]
    classes, _ = gathered([{**row, "labels": i % 2} for i, row in enumerate(rows)])
    assert classes.targets.tolist() == [0, 1] * 6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([[1, 2], [3]] * 8, [0, 1] * 8), "with targets, data must be a tensor, array or dict, not list"),
        (([{"input_ids": [1] * n, "label": 1} for n in range(1, 13)],), "make them one, or pad them"),
        ((torch.zeros(2000, 3), torch.zeros(1999)), "2000 inputs and 1999 targets|1000 inputs"),
        (([{"text": "a", "label": 1}] * 12,), "holds text"),
        ((torch.zeros(N, 2),), "there are no targets"),
        (({"x": torch.zeros(N, 2)},), "a dict needs targets"),
        (({"labels": torch.zeros(N)},), "no inputs"),
        ((3,), "data must be"),
        ((torch.zeros(N, 2), torch.zeros(N, dtype=torch.bool)), "True or False"),
        ((torch.zeros(N, 2), torch.full((N,), -1)), "from 0 on, or -100"),
        ((torch.zeros(N, 2), torch.full((N,), -100)), "nothing is labelled"),
        ((torch.zeros(N, 2, dtype=torch.complex64), torch.zeros(N)), "complex64"),
    ],
)
def test_what_cannot_be_read_is_one_line(given, said):
    with pytest.raises(ValueError, match=said) as error:
        gathered(*given)
    assert "\n" not in str(error.value)


def test_several_inputs_stay_several():
    x, y = sorted_by_class()
    found, total = gathered((x, 2 * x), y, examples=MOST)
    assert total == N and torch.equal(found.inputs[1], 2 * x[SPREAD])
    nested = alignbook.Recorder([((x, 2 * x), y)], ["loss"], examples=MOST)
    assert torch.equal(nested._data.inputs[1], 2 * x[SPREAD])
    assert gathered((np.zeros((N, 2)), y.numpy()))[0].inputs.shape == (N, 2)
