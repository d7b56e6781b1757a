import math

import pytest
import torch
from torch import nn

from alignbook.training.nets import SimpleCNN, he_normal_


@pytest.mark.parametrize(("padding", "side"), [("same", 16), ("valid", 15)])
def test_shapes_of_the_network_of_e3(padding, side):
    net = SimpleCNN((3, 32, 32), [16, 16, 16], 512, 10, pool=(3, 2, padding))
    assert [tuple(conv.weight.shape) for conv in net.convs] == [(16, 3, 3, 3), *[(16, 16, 3, 3)] * 2]
    assert net.dense.in_features == 16 * side * side
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (3, 3), (4, 2), (5, 2), (5, 1), (2, 4)])
@pytest.mark.parametrize(("height", "width"), [(5, 6), (7, 9), (8, 8)])
def test_same_pooling_against_windows_written_out(size, stride, height, width):
    """An output for every started stride; what windows lack is split evenly, the odd one at the end."""
    net = SimpleCNN((1, height, width), [1], 2, 2, pool=(size, stride, "same"))
    image = torch.randn(1, 1, height, width, generator=torch.Generator().manual_seed(0))
    edges = []
    for side in (width, height):
        lacking = max(0, (math.ceil(side / stride) - 1) * stride + size - side)
        edges += [lacking // 2, lacking - lacking // 2]
    padded = nn.functional.pad(image, edges, value=-math.inf)
    assert torch.equal(net.pool(image), nn.functional.max_pool2d(padded, size, stride))
    assert net(image).shape == (1, 2)


def test_unknown_padding_is_refused():
    with pytest.raises(ValueError, match="known: same, valid"):
        SimpleCNN((3, 8, 8), [4], 8, 2, pool=(3, 2, "full"))


def test_forward_is_the_layers_one_after_another():
    net = SimpleCNN((2, 5, 7), [3, 4], 6, 3)
    x = torch.randn(4, 2, 5, 7, generator=torch.Generator().manual_seed(0))
    plain = x
    for conv in net.convs:
        plain = torch.relu(nn.functional.conv2d(plain, conv.weight, conv.bias, padding=1))
    assert torch.allclose(net.features(x, 2), plain)
    expected = net.head(torch.relu(net.dense(plain.permute(0, 2, 3, 1).flatten(1))))
    assert torch.allclose(net(x), expected, atol=1e-6)
    assert net.features(x, 0) is x


def test_he_normal_has_its_spread_zero_biases_and_one_seed_one_network():
    nets = [SimpleCNN((3, 8, 8), [64, 64], 128, 10) for _ in range(2)]
    for net in nets:
        he_normal_(net, 0.5, torch.Generator().manual_seed(3))
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(one, other)
    for layer in (nets[0].convs[1], nets[0].dense):
        expected = 0.5 * math.sqrt(2 / layer.weight[0].numel())
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.02)
        assert not layer.bias.any()
