"""Residual networks: shapes, the plain forward pass, initialisation from a generator alone."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from alignbook.training.resnet import ResNet, conv_layers, fresh_head_


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def plain(net, x, stride):
    """The network in evaluation mode, written out."""

    def norm(x, n):
        return functional.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias)

    x = functional.relu(norm(functional.conv2d(x, net.stem.weight, None, stride, 1), net.norm))
    for s, stage in enumerate(net.stages):
        for b, block in enumerate(stage):
            step = 2 if s and b == 0 else 1
            y = functional.relu(norm(functional.conv2d(x, block.conv1.weight, None, step, 1), block.norm1))
            y = norm(functional.conv2d(y, block.conv2.weight, None, 1, 1), block.norm2)
            if s and b == 0:
                conv, after = block.shortcut
                x = norm(functional.conv2d(x, conv.weight, None, step), after)
            x = functional.relu(x + y)
    return x.mean((2, 3)) @ net.head.weight.T + net.head.bias


@pytest.mark.parametrize(("blocks", "stride", "side"), [(1, 2, 32), (3, 1, 9), (1, 1, 8)])
def test_forward_pass(blocks, stride, side):
    net = ResNet(7, width=3, blocks=blocks, channels=2, stride=stride, generator=stream())
    x = torch.randn(5, 2, side, side, generator=stream(1))
    net(x)  # running statistics
    net.eval()
    assert net.features(x).shape == (5, 12) and net(x).shape == (5, 7)
    torch.testing.assert_close(net(x), plain(net, x, stride), rtol=1e-4, atol=1e-5)
    last = net.to(memory_format=torch.channels_last)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), plain(net, x, stride),
                               rtol=1e-4, atol=1e-5)  # fmt: skip


def test_convolutions_in_order():
    names = [name for name, _ in conv_layers(ResNet(2, width=2, blocks=1))]
    assert names == [
        "stem",
        *("stages.0.0.conv1", "stages.0.0.conv2"),
        *("stages.1.0.conv1", "stages.1.0.conv2", "stages.1.0.shortcut.0"),
        *("stages.2.0.conv1", "stages.2.0.conv2", "stages.2.0.shortcut.0"),
    ]
    net = ResNet(2, width=2, blocks=3)
    assert len(conv_layers(net)) == 1 + 3 * 6 + 2
    assert all(net.get_submodule(name) is module for name, module in conv_layers(net))


def test_initialisation():
    net = ResNet(100, generator=stream(4))
    for name, conv in conv_layers(net):
        weight = conv.weight.detach()
        expected = math.sqrt(2 / weight[0].numel())
        assert weight.std().item() == pytest.approx(expected, rel=8 / math.sqrt(weight.numel())), name
    bound = 1 / math.sqrt(128)
    head = torch.cat([net.head.weight.flatten(), net.head.bias]).detach()
    assert 0.99 * bound < head.abs().max() <= bound and abs(head.mean()) < 0.02 * bound
    torch.manual_seed(99)
    again, other = ResNet(100, generator=stream(4)), ResNet(100, generator=stream(5))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))
    assert not torch.equal(net.stem.weight, other.stem.weight)


def test_fresh_head():
    net = ResNet(4, width=2, generator=stream()).double()
    kept = net.stem.weight.clone()
    assert fresh_head_(net, 9, stream(1)) is net
    assert net.head.weight.shape == (9, 8) and net.head.weight.dtype == torch.float64
    assert isinstance(net.head, nn.Linear) and torch.equal(net.stem.weight, kept)
    first = net.head.weight.clone()
    assert torch.equal(fresh_head_(net, 9, stream(1)).head.weight, first)
