"""Fine-tuning against plain loops; crops and flips against cut-outs; when it stops."""

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.errors import Diverged
from alignbook.training.fine_tune import accuracy_and_loss, crops_and_flips, features_of, fine_tune
from alignbook.training.resnet import ResNet

cross_entropy = nn.functional.cross_entropy


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def network(classes=3):
    return ResNet(classes, width=2, generator=stream(1))


def case(n=22):
    return torch.randn(n, 3, 8, 8, generator=stream(n)), torch.randint(3, (n,), generator=stream(n + 1))


def written_out(net, x, y, *, steps, momentum, decay_at, augment, fixed, stop_at_loss, generator):
    """:func:`fine_tune` without the loop, batches of 5; returns the steps taken."""
    net.to(memory_format=torch.channels_last)
    net.eval() if fixed else net.train()
    inputs = features_of(net, x) if fixed and not augment else x
    parameters = (net.head if fixed else net).parameters()
    optimiser, step = torch.optim.SGD(parameters, lr=0.1, momentum=momentum, weight_decay=0.01), 0
    while True:
        losses = []
        for index in torch.randperm(len(x), generator=generator).split(5)[: len(x) // 5]:
            step += 1
            batch = inputs[index]
            if augment:
                batch = crops_and_flips(batch, generator)
            if batch.ndim == 4:
                batch = batch.contiguous(memory_format=torch.channels_last)
            if fixed:
                logits = net.head(features_of(net, batch) if augment else batch)
            else:
                logits = net(batch)
            loss = cross_entropy(logits, y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            if step in decay_at:
                optimiser.param_groups[0]["lr"] /= 10
            if step == steps:
                return step
        if stop_at_loss is not None and np.mean(losses) <= stop_at_loss:
            return step


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("steps", "stop_at_loss"), [(9, None), (40, 1.09)])
def test_the_same_bits_as_written_out(augment, fixed, steps, stop_at_loss):
    (x, y), one, other = case(), network(), network()
    settings = dict(steps=steps, momentum=0.8, decay_at=(2, 6), augment=augment, fixed=fixed)
    settings |= {"stop_at_loss": stop_at_loss, "generator": stream(7)}
    taken = fine_tune(one, x, y, batch_size=5, learning_rate=0.1, weight_decay=0.01, **settings)
    assert taken == written_out(other, x, y, **settings | {"generator": stream(7)})
    assert taken == 9 if stop_at_loss is None else 4 < taken < 40
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_diverged_and_bad_input():
    x, y = case()
    with pytest.raises(Diverged):
        fine_tune(network(), x * torch.inf, y, steps=3, batch_size=5, generator=stream())
    with pytest.raises(ValueError, match="batch of 23"):
        fine_tune(network(), x, y, steps=3, batch_size=23, generator=stream())


def test_accuracy_and_loss():
    (x, y), net = case(), network()
    net.norm.eval()
    modes = [module.training for module in net.modules()]
    found = accuracy_and_loss(net, x, y, batch_size=5)
    assert [module.training for module in net.modules()] == modes
    with torch.no_grad():
        logits = net.eval()(x)
    assert found[0] == pytest.approx(np.mean((logits.argmax(1) == y).numpy()))
    assert found[1] == pytest.approx(float(cross_entropy(logits, y)), rel=1e-5)


def test_crops_and_flips():
    x = torch.randn(300, 2, 6, 6, generator=stream())
    moved = crops_and_flips(x, stream(1))
    assert moved.is_contiguous(memory_format=torch.channels_last)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    seen = set()
    for before, after in zip(padded, moved.numpy(), strict=True):
        found = [
            (top, left, flip)
            for top in range(9)
            for left in range(9)
            for flip in (1, -1)
            if np.array_equal(before[:, top : top + 6, left : left + 6][:, :, ::flip], after)
        ]
        assert len(found) >= 1
        seen.add(found[0])
    assert len(seen) > 100  # of 162
    for axis, values in enumerate((range(9), range(9), (1, -1))):
        assert {place[axis] for place in seen} == set(values)
