"""The training loop against one written out, its schedule, its calls and its ends."""

import math

import pytest
import torch
from torch import nn

from alignbook.errors import Diverged
from alignbook.training.loop import Trained, module_step, train


def data(count=23):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 5, generator=generator), torch.randint(3, (count,), generator=generator)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


@pytest.mark.parametrize("last_batch", ["keep", "drop"])
def test_it_is_plain_sgd(last_batch):
    x, y = data()
    plain, generator = network(), torch.Generator().manual_seed(3)
    optimiser, steps = torch.optim.SGD(plain.parameters(), lr=1.0, momentum=0.9), 0
    for _ in range(3):
        losses = []
        for index in torch.randperm(23, generator=generator).split(8):
            if len(index) < 8 and last_batch == "drop":
                continue
            steps += 1
            optimiser.param_groups[0]["lr"] = 0.5 / steps
            loss = nn.functional.cross_entropy(plain(x[index]), y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses += [loss.item()] * len(index)
    net = network()
    step = module_step(net, x, y, torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9))
    generator.manual_seed(3)
    done = train(
        step, 23, batch_size=8, epochs=3, rate=lambda k: 0.5 / k, last_batch=last_batch, generator=generator
    )
    assert (done.steps, done.epochs) == (steps, 3)
    assert done.loss == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), plain.parameters(), strict=True))


def loop(losses=None, **options):
    """A loop whose k-th step has the loss ``losses(k)``; (result, steps' batches and rates)."""
    taken = []

    def step(index, rate):
        taken.append((len(index), rate))
        return torch.tensor(1.0 if losses is None else losses(len(taken)))

    options = {"batch_size": 4, "rate": 0.1, "generator": torch.Generator().manual_seed(0)} | options
    return train(step, 10, **options), taken


def test_it_ends_where_it_is_told():
    assert loop(epochs=2)[1] == [(4, 0.1), (4, 0.1), (2, 0.1)] * 2
    assert loop(epochs=2, last_batch="drop")[1] == [(4, 0.1)] * 4
    assert loop(steps=4)[0] == Trained(4, 2, 1.0)
    assert loop(epochs=2, steps=100)[0].steps == 6
    assert loop(steps=0)[0].steps == 0
    falling = loop(lambda k: 1 / k, epochs=50, until=lambda now: now.loss <= 0.2)[0]
    assert falling.epochs == 3 and falling.loss == pytest.approx((4 / 7 + 4 / 8 + 2 / 9) / 10)


def test_each_epoch_sees_every_example_once():
    seen = []
    train(
        lambda index, rate: (seen.extend(index.tolist()), torch.tensor(0.0))[1],
        10, batch_size=3, epochs=2, rate=1.0, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10)) and seen[:10] != seen[10:]


def test_calls_come_at_the_steps_asked_for():
    counts = []
    loop(epochs=2, at=(0, 3, 6, 99), on=counts.append)
    assert counts == [0, 3, 6]


def test_a_loss_that_is_not_finite_ends_training():
    with pytest.raises(Diverged) as diverged:
        loop(lambda k: math.nan if k == 2 else 1.0, epochs=5)
    assert diverged.value.step == 3
    with pytest.raises(Diverged) as diverged:
        loop(lambda k: math.inf if k == 2 else 1.0, epochs=5, at=(2,), on=lambda step: None)
    assert diverged.value.step == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 1, "last_batch": "half"}, "keep, drop"),
        ({"epochs": 1, "last_batch": "drop", "batch_size": 11}, "batch of 11"),
        ({}, "when training ends"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        loop(**options)
