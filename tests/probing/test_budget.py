"""The probe's budget: fewer examples where time or memory forbid, all where they do not."""

import math

import pytest
import torch
from torch import nn

from alignbook.probing import budget, instruments, measure, probe


class Clock:
    """Time passes only where something costs it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(budget, "clock", fake)
    return fake


def costing(clock, cost, fails=()):
    calls = []

    def measured(n):
        calls.append(n)
        clock.now += cost(n)
        if n in fails:
            raise ValueError(f"not on {n}")
        return f"on {n}"

    return measured, calls


@pytest.mark.parametrize(
    ("cost", "calls"),
    [
        (lambda n: 0.001 * n, [8, 100]),  # fits even if its cost grew with the square
        (lambda n: 0.1 * n, [8, 32, 100]),
        (lambda n: 0.8 * n, [8]),
        (lambda n: 0.01 * n**2, [8, 32]),
        (lambda n: 50.0 * n, [8]),  # the least, from what others would have had
    ],
)
def test_as_many_examples_as_time_allows(clock, cost, calls):
    measured, called = costing(clock, cost)
    assert budget.within(measured, 100, 80.0) == (f"on {calls[-1]}", calls[-1]) and called == calls


def test_what_fails_on_few_examples_may_do_on_more(clock):
    measured, called = costing(clock, lambda n: 0.1 * n, fails=[8, 32])
    assert budget.within(measured, 100, 60.0)[1] == 100 and called == [8, 32, 100]
    with pytest.raises(ValueError, match="not on 100"):
        budget.within(costing(clock, lambda n: 1.0, fails=[8, 32, 100])[0], 100, 60.0)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))


def examples(n=40):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(n) % 3


def test_both_networks_see_the_same_examples(monkeypatch, clock):
    def slow(network, task, rows, seed, layers=None):
        clock.now += len(rows)
        return instruments.slice_(network, task, rows, seed, points=3)

    monkeypatch.setitem(measure.MEASURES, "slice", (slow, 256))
    lines = []
    without = ["filters", "features", "tangent", "curvature", "initialisation"]
    probed = probe(small(), *examples(400), before=small(), minutes=8, without=without, report=lines.append)
    # 240 s for each of the two: 8, 32, and no more, for 128 might take 512.
    assert probed.examples == {"slice": 32}
    assert probed.notes["slice"] == "32 of 400 examples: more would take too much of the 8 minutes"
    assert lines == ["slice of the network", "slice of before"]
    assert probed.notes["loss"] == "400 examples, all there are"
    assert probed.as_dict()["notes"] == probed.notes


@pytest.mark.parametrize("minutes", [0, -1.0, math.nan, "ten", None, True])
def test_minutes_that_are_none(minutes):
    with pytest.raises(ValueError, match="minutes must be a number above 0"):
        probe(small(), *examples(), minutes=minutes)


def test_a_slow_network_ends_in_twice_the_time(clock):
    class Slow(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small()

        def forward(self, x):
            clock.now += 0.3 * len(x)
            return self.net(x)

    start = clock.now
    found = probe(Slow(), *examples(), before=Slow(), minutes=0.5)
    assert clock.now - start <= 60 and found.network["network"]["loss"] > 0
    assert all("--minutes" in found.left_out[name] for name in ("slice", "tangent", "curvature"))
