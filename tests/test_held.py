"""What functions hold: taken, and put back into functions that were made anew."""

import functools
import itertools
from collections import deque
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from alignbook import held


def through_a_file(content, path):
    torch.save(content, path)
    return torch.load(path, weights_only=True)


def moved(make, change, tmp_path):
    """What a second ``make()`` holds after ``change`` came to the first: both, as (first, second)."""
    first, second = make(), make()
    _, written = held.digest((first,))
    change(first)
    content = through_a_file(held.taken((first,), written), tmp_path / "held.pt")
    held.put_back((second,), content)
    return first, second


def loop():
    """A function with everything that studies' functions hold, and its parts to look at."""
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        net[0].weight.fill_(1.0), net[0].bias.zero_()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    rows, best, queue, frames = [], {"loss": None}, deque(maxlen=3), []
    mean, counts, own = torch.zeros(()), np.zeros(2, dtype=np.int16), SimpleNamespace(velocity=None)
    count = 0

    def step(scale=1.0, *, names=("a", "b")):
        nonlocal count, mean
        count += 1
        x = torch.randn(4, 3, generator=generator) * scale
        optimiser.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.param_groups[0]["lr"] = 0.1 / count
        mean = mean + loss.detach()
        rows.append(
            {"loss": loss.item(), "what": names[count % 2], "kept": (net[0].weight.detach().clone(), None)}
        )
        frames.append(pd.DataFrame({"n": [count], "text": ["x"], "share": [np.float32(0.1)]}))
        queue.append(np.float32(count))
        counts[count % 2] += 1
        best["loss"] = min(best["loss"] or 9, loss.item())
        own.velocity = rows[-1]["kept"][0]  # two names for one tensor
        own.seen = {*getattr(own, "seen", ()), count}
        return loss.item()

    step.parts = lambda: (rows, best, queue, frames, mean, counts, own, count, net, optimiser, generator)
    return functools.partial(step, 2.0)


def test_it_goes_on_as_if_nothing_had_happened(tmp_path):
    first, second = moved(loop, lambda function: [function() for _ in range(3)], tmp_path)
    assert [first() for _ in range(3)] == [second() for _ in range(3)]
    one, other = first.func.parts(), second.func.parts()
    for a, b in zip(one[:3], other[:3], strict=True):
        assert repr(a) == repr(b)
    pd.testing.assert_frame_equal(pd.concat(one[3]), pd.concat(other[3]))
    assert (one[4] == other[4]) and (one[5] == other[5]).all() and one[5].dtype == other[5].dtype
    assert one[7] == other[7] == 6 and one[6].seen == other[6].seen
    assert other[6].velocity is other[0][-1]["kept"][0]  # still two names for one
    for a, b in zip(one[8].state_dict().values(), other[8].state_dict().values(), strict=True):
        assert torch.equal(a, b)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
        | st.sets(st.integers(), max_size=1)
    ),
    max_leaves=12,
)


@given(nested, nested)
def test_any_content_replaces_any_other(before, after):
    first, second = [after], [before]
    held.put_back((second,), held.taken((first,), {}))
    assert repr(second) == repr(first)


@pytest.mark.parametrize(
    "thing",
    [
        itertools.count(),
        np.random.default_rng(0),
        torch.eye(2).to_sparse(),
        {torch.zeros(1): 1},
        iter([]),
    ],
    ids=["iterator", "numpy's generator", "sparse", "a tensor as a key", "of a list"],
)
def test_what_is_not_known_is_refused(thing):
    with pytest.raises(held.Unknown):
        held.digest((thing,))


def test_a_builtin_function_is_known():
    held.digest((open,))


@pytest.mark.parametrize(
    "now",
    [
        [nn.Linear(3, 2), [0]],
        [nn.Sequential(nn.Linear(2, 2)), [0]],
        [None, [0]],
        [torch.zeros(1, 1).expand(2, 2), [0]],
    ],
    ids=["another shape", "another network", "none", "memory that is shared"],
)
def test_where_it_does_not_fit_nothing_is_changed(now):
    taken = [nn.Linear(2, 2), [1]]
    if isinstance(now[0], torch.Tensor):
        taken[0] = torch.ones(2, 2)
    content = held.taken((taken[1], taken[0]), {})
    with pytest.raises(held.Unknown):
        held.put_back((now[1], now[0]), content)
    assert now[1] == [0]


def test_large_data_is_recognised_and_not_taken(monkeypatch):
    monkeypatch.setattr(held, "LARGE", 64)
    data, weights = torch.arange(100.0), torch.zeros(100)
    _, written = held.digest((data, weights))
    weights += 1
    content = held.taken((data, weights), written)
    assert [node[0] for node in content[2]] == ["large", "tensor"]
    fresh = torch.zeros(100)
    held.put_back((torch.arange(100.0), fresh), content)
    assert fresh.tolist() == [1] * 100
    with pytest.raises(held.Unknown):  # not the data that it was trained on
        held.put_back((torch.arange(100.0) + 1, torch.zeros(100)), content)


def test_the_digest_tells_apart_what_differs():
    def of(value, seed=0, start=0):
        total = [start]

        def step():
            total[0] += value.sum()

        return held.digest((step, torch.Generator().manual_seed(seed)))[0]

    alike, others = (
        of(torch.zeros(3)),
        [of(torch.ones(3)), of(torch.zeros(4)), of(torch.zeros(3), 1), of(torch.zeros(3), 0, 1)],
    )
    assert alike == of(torch.zeros(3)) and len({alike, *others}) == 5
