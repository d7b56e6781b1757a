import pytest
import torch
from torch import nn

from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def problem(n=96, classes=3):
    """Images whose class is the channel that is brightest."""
    x = torch.randn(n, classes, 6, 6, generator=stream(1))
    y = torch.arange(n) % classes
    x[torch.arange(n), y] += 1.0
    return x, y


def network():
    return he_normal_(SimpleCNN((3, 6, 6), [4], 8, 3), 1.0, stream(2))


def train(net, **changes):
    x, y = problem()
    settings = dict(steps=3, batch_size=16, learning_rate=0.05, generator=stream(3))
    return fit(net, x, y, **(settings | changes))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_have_the_precision_asked_for(precision):
    x, y = problem()
    net, seen = network(), []
    net.head.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    train(net, precision=precision)
    accuracy(net, x, y, precision=precision)
    assert set(seen) == {getattr(torch, precision)}


def written_out(net, x, y, *, steps, batch_size, learning_rate, schedule, precision, generator):
    """:func:`fit` without the loop."""
    net.to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9)
    order = torch.empty(0)
    for step in range(1, steps + 1):
        if len(order) < batch_size:
            order = torch.randperm(len(x), generator=generator)
        index, order = order[:batch_size], order[batch_size:]
        if schedule == "thirds":
            optimiser.param_groups[0]["lr"] = learning_rate / 3 ** (3 * (step - 1) // steps)
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = net(x[index].contiguous(memory_format=torch.channels_last))
        nn.functional.cross_entropy(logits.float(), y[index]).backward()
        optimiser.step()


@pytest.mark.parametrize("schedule", ["thirds", "constant"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_same_bits_as_written_out(schedule, precision):
    (x, y), one, other = problem(), network(), network()
    settings = dict(steps=11, batch_size=36, learning_rate=0.05, schedule=schedule, precision=precision)
    fit(one, x, y, **settings, generator=stream(3))
    written_out(other, x, y, **settings, generator=stream(3))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "cosine"}, "thirds, constant"),
        ({"precision": "float8"}, "float32, bfloat16"),
        ({"batch_size": 97}, "97 cannot be drawn from 96"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        train(network(), **changes)


def test_accuracy_does_not_depend_on_the_batch_size():
    x, y = problem()
    net = network()
    assert accuracy(net, x, y, batch_size=7) == (net(x).argmax(1) == y).double().mean().item()
