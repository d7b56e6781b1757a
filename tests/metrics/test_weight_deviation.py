"""Weight deviation against a plain loop over the weights."""

import copy
import math

import pytest
import torch
from torch import nn

from alignbook.metrics import weight_deviation


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 5))


def test_against_a_plain_sum():
    before, after = network(0), network(1)
    expected = {}
    for name in ("0.weight", "4.weight"):
        a, b = (dict(net.named_parameters())[name].detach().double().numpy() for net in (before, after))
        expected[name] = math.sqrt(sum(float(x) ** 2 for x in (b - a).ravel()))
    found = weight_deviation(before, after)
    assert list(found.layers) == list(expected)
    assert found.layers == pytest.approx(expected, rel=1e-12)
    assert found.total == pytest.approx(sum(expected.values()), rel=1e-12)
    scaled = weight_deviation(before.state_dict(), after, n=7)
    assert scaled.layers == found.layers
    assert scaled.total == pytest.approx(found.total / math.sqrt(7), rel=1e-12)


def test_biases_and_batch_norm_do_not_count():
    before = network()
    after = copy.deepcopy(before)
    with torch.no_grad():
        for name, value in after.state_dict().items():
            if name not in ("0.weight", "4.weight"):
                value.add_(1)
    assert weight_deviation(before, after).total == 0
    with torch.no_grad():
        after[4].weight[2, 3] += 0.5
    found = weight_deviation(before, after)
    assert found.layers == pytest.approx({"0.weight": 0, "4.weight": 0.5})


def test_bad_input():
    net = network()
    other = network()
    other[4] = nn.Linear(27, 6)
    with pytest.raises(ValueError, match="4.weight has different shapes"):
        weight_deviation(net, other)
    with pytest.raises(ValueError, match="different weights: 4.weight"):
        weight_deviation(net, net[:3])
    with pytest.raises(ValueError, match="no weights"):
        weight_deviation(net[1], net[1])
    for n in (0, 2.0):
        with pytest.raises(ValueError, match="integer from 1 on"):
            weight_deviation(net, net, n=n)
    broken = network()
    with torch.no_grad():
        broken[0].weight[0] = math.nan
    with pytest.raises(ValueError, match="not finite"):
        weight_deviation(net, broken)
