"""The probe's budget: fewer examples where time or memory forbid, all where they do not."""

import importlib
import json
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from alignbook.probing import budget, curvature, instruments, probe
from alignbook.probing.errors import DoesNotApply
from companion import cli

MEGA = 10**6


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

    def measure(n):
        calls.append(n)
        clock.now += cost(n)
        if n in fails:
            raise ValueError(f"not on {n}")
        return f"on {n}"

    return measure, calls


@pytest.mark.parametrize(
    ("cost", "calls"),
    [
        (lambda n: 0.001 * n, [2, 100]),  # fits even if its cost grew with the square
        (lambda n: 0.1 * n, [2, 8, 100]),
        (lambda n: 4 + 0.1 * n, [2, 8, 64, 100]),  # took less than 64 foretold
        (lambda n: 0.8 * n, [2, 8, 64]),
        (lambda n: 0.0064 * n**2, [2, 8, 32, 64]),
        (lambda n: 0.03 * n**2, [2, 8, 32]),
        (lambda n: 2.0 * n, [2, 8, 16]),
        (lambda n: 5.0 * n, [2, 8]),  # the least, from what others would have had
    ],
)
def test_as_many_examples_as_time_allows(clock, cost, calls):
    measure, called = costing(clock, cost)
    said = []
    start = clock.now
    found = budget.within(measure, 100, share=60, left=200, say=lambda *now: said.append(now))
    assert called == calls and found == (f"on {calls[-1]}", calls[-1], pytest.approx(cost(calls[-1])))
    assert clock.now - start <= (60 if cost(8) < 30 else 200)
    if said:  # expected seconds: those of the last call, or more
        n, expected = said[-1]
        assert n == calls[-1] and expected >= cost(n) * (1 - 1e-9)


def test_what_cannot_have_the_least_number_is_left_out(clock):
    measure, called = costing(clock, lambda n: 100.0 * n)
    with pytest.raises(DoesNotApply, match=r"8 examples would take about 13 min, .*--minutes"):
        budget.within(measure, 100, share=60, left=500)
    assert called == [2, 2]  # the first may have waited for another's load
    slow_once = iter([100.0])
    measure, called = costing(clock, lambda n: next(slow_once, 0.1 * n))
    assert budget.within(measure, 100, share=200, left=300)[1] == 100 and called[:2] == [2, 2]
    assert budget.within(costing(clock, lambda n: 1e9)[0], 9, math.inf, math.inf)[1] == 9


def test_what_fails_on_few_examples_may_do_on_more(clock):
    measure, called = costing(clock, lambda n: 0.01 * n, fails=(2, 8))
    assert budget.within(measure, 100, 60, 60)[1] == 100 and called == [2, 8, 32, 100]
    measure, called = costing(clock, lambda n: 0.01 * n, fails=(2, 8, 32, 100))
    with pytest.raises(ValueError, match="not on 100"):
        budget.within(measure, 100, 60, 60)
    measure, called = costing(clock, lambda n: 1.0 * n, fails=(2, 8, 32, 100))
    with pytest.raises(ValueError, match="not on 8"):
        budget.within(measure, 100, 60, 60)


def test_examples_are_spread_from_first_to_last():
    assert budget.spread(torch.arange(100), 4).tolist() == [0, 25 + 15, 50 + 5, 75 + 21]
    assert budget.spread(torch.arange(7), 7).tolist() == list(range(7))


def test_what_is_asked_for_is_measured_or_nothing(clock):
    measure, called = costing(clock, lambda n: 0.1 * n)
    assert budget.within(measure, 64, 1.0, 100.0, fixed=True)[1] == 64 and called == [2, 64]
    with pytest.raises(DoesNotApply, match="64 examples would take about 6.4 s"):
        budget.within(costing(clock, lambda n: 0.1 * n)[0], 64, 1.0, 5.0, fixed=True)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (1000, (5, None)),
        (11 * MEGA, (5, None)),
        (25 * MEGA, (5, 36)),
        (60 * MEGA, (2, 12)),
        (66 * MEGA, (1, 11)),
        (124 * MEGA, (1, 0)),  # GPT-2 small: one vector at a time
    ],
)
def test_vectors_of_the_parameters_fit_into_memory(parameters, expected):
    k, basis = curvature.basis_of(parameters, budget.MEMORY)
    assert (k, basis) == expected
    held = curvature.ALONE if basis == 0 else (basis or curvature.BASIS) + curvature.BESIDE
    assert 4 * parameters * held <= budget.MEMORY
    assert not basis or basis >= k + 10


def test_where_not_one_eigenvalue_fits_it_says_so():
    with pytest.raises(
        DoesNotApply, match=r"6 vectors of 355,000,000 parameters take 8\.5 GB, more than 4 GB"
    ):
        curvature.basis_of(355_000_000, budget.MEMORY)


@pytest.mark.parametrize(
    ("each", "share", "expected"),
    [
        (0.001, 60, (128, 80)),
        (0.02, 60, (24, 80)),
        (0.1, 60, (8, 60)),  # products give way when examples cannot
        (0.4, 60, (8, 20)),
    ],
)
def test_the_hessians_examples_and_products(each, share, expected):
    times = [(2, 2 * each), (8, 8 * each)]
    plan = curvature.planned(times, 128, share, left=120)
    assert (plan.n, plan.products) == expected
    assert plan.seconds <= (share if plan.products > curvature.FEWEST else 120)
    fixed = curvature.planned(times, 16, 600, 600, fixed=True)
    assert fixed.n == 16


def test_a_hessian_that_is_too_slow_is_left_out():
    with pytest.raises(DoesNotApply, match="30 products with the Hessian of 8 examples would take"):
        curvature.planned([(2, 2.0), (8, 8.0)], 128, 60, 100)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))


def examples(n=40):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(n) % 3


def test_little_memory_means_fewer_examples():
    net, without = small(), ["slice", "filters", "initialisation"]
    whole = probe(net, *examples(), without=without)
    assert set(whole.examples.values()) == {40}
    assert {*whole.notes.values()} == {"40 examples, all there are"}
    found = probe(net, *examples(), without=[*without, "features"], memory=2e5)
    assert 8 <= found.examples["tangent"] < 40
    assert f"{found.examples['tangent']} of 40 examples: more do not fit into" in found.notes["tangent"]
    found = probe(net, *examples(), without=without, memory=2.5e4)
    assert found.examples == {"features": 12}
    assert "8 examples take" in found.left_out["tangent"] and "vectors of" in found.left_out["curvature"]


def test_both_networks_see_the_same_examples(monkeypatch, clock):
    def slow(network, task, rows, seed, layers=None):
        clock.now += len(rows)
        return instruments.slice_(network, task, rows, seed, points=3)

    measures = importlib.import_module("alignbook.probing.probe").MEASURES
    monkeypatch.setitem(measures, "slice", (slow, 256))
    said = []
    without = ["filters", "features", "tangent", "curvature", "initialisation"]
    found = probe(small(), *examples(400), before=small(), minutes=4, without=without, report=said.append)
    # 120 s for each of the two: 2, 8, then as many as fit into what is left.
    assert found.examples == {"slice": 96}
    assert found.notes["slice"] == "96 of 256 examples: more would take too much of the 4 minutes"
    assert "slice of the network: 96 examples, about 96 s" in said
    assert said[-1] == "slice of the network before: 96 examples"
    assert found.notes["loss"] == "400 examples, all there are"
    assert found.as_dict()["notes"] == found.notes


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


@pytest.mark.parametrize("minutes", ["0", "-3", "nan", "ten"])
def test_the_commands_minutes_that_are_none(minutes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["probe", "absent:make", "--data", "digits", "--out", "report", f"--minutes={minutes}"])
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert end.value.code == 2 and f"--minutes: must be a number above 0, not {minutes!r}" in said
    assert not any(tmp_path.iterdir())


@pytest.fixture
def models():
    from alignbook.data.torchvision_shim import import_torchvision

    import_torchvision()
    from torchvision import models

    torch.manual_seed(0)
    return models


def test_torchvisions_resnet18(models):
    x, y = torch.randn(10, 3, 32, 32), torch.arange(10) % 3
    found = probe(
        models.resnet18(num_classes=3), x, y, without=["tangent", "curvature", "slice", "initialisation"]
    )
    assert found.examples == {"filters": 10, "features": 10}
    layers = found.tables["features"]["layer"].unique()
    assert len(layers) == 22 and layers[0] == "conv1" and layers[-1] == "(output)"
    assert json.dumps(found.as_dict(), allow_nan=False)


def test_a_transformer_of_torchvisions(models):
    net = models.VisionTransformer(8, 4, 1, 2, 16, 32, num_classes=3)
    found = probe(net, *examples(12))
    assert {*found.left_out} == {"deviation"} and {*found.examples.values()} == {12}
    assert {*found.tables["tangent"]["method"]} == {"exact"}  # of so few weights, also by the gradients


def test_a_vgg_of_torchvisions(models):
    body = models.vgg.make_layers([8, "M", 16, "M"], batch_norm=True)  # ReLUs in place
    net = torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(64, 3))
    found = probe(net, torch.randn(12, 3, 8, 8), torch.arange(12) % 3)
    assert {*found.left_out} == {"deviation"} and {*found.examples.values()} == {12}


def test_an_efficientnet_of_torchvisions(models):
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    stages = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(4, 3, 2, 8, 16, 1, 1.0, 1.0)]
    net = EfficientNet(stages, dropout=0.2, stochastic_depth_prob=0.2, num_classes=3, last_channel=32)
    found = probe(net, torch.randn(12, 3, 16, 16), torch.arange(12) % 3)
    assert {*found.left_out} == {"deviation"} and {*found.examples.values()} == {12}


def test_what_starting_up_takes_is_not_foretold_of_every_product(monkeypatch):
    took = iter([4.0, 0.01, 0.01, 0.01])
    monkeypatch.setattr(curvature, "product_cost", lambda *_: (next(took), 1e3))
    rows, task = torch.arange(40), SimpleNamespace(labelled=lambda rows: rows)
    plan = curvature.planned_on(small(), task, rows, 0, 60, 60, budget.Limits())
    assert plan.n == 40 and plan.products == curvature.PRODUCTS and plan.seconds < 60
