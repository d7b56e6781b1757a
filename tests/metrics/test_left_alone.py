"""What studies measure between steps of training: in evaluation mode, and without a trace."""

import copy
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from alignbook import metrics

plain_alignment = import_module("alignbook.metrics.tangent_alignment").tangent_alignment


def landscape(net, loss, x, y):
    generator = torch.Generator().manual_seed(3)
    return metrics.landscape(net, loss, x, y, generator=generator, points=3, mode="train").loss


MEASURES = {
    "eigenvalues": lambda *given: metrics.hessian_eigenvalues(*given, k=4).eigenvalues,
    "landscape": landscape,
    "variation": lambda *given: metrics.loss_variation(*given, [0.1, 1.0]).loss,
    "alignment": lambda net, _, x, y: metrics.tangent_alignment(net, x, y),
    "plain alignment": lambda net, _, x, y: plain_alignment(net, x, y),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_network_in_training_is_left_as_it_was(name):
    torch.manual_seed(0)
    x, y = torch.randn(6, 8), torch.arange(6) % 3  # fewer examples than features
    layers = [nn.Linear(8, 7), nn.BatchNorm1d(7), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(7, 3)]
    net = nn.Sequential(*layers)
    net[4].weight.requires_grad_(False)
    net(x)  # running statistics other than those at the start
    expected = MEASURES[name](copy.deepcopy(net).eval(), nn.functional.cross_entropy, x, y)
    net[0].eval()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    state, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    with torch.no_grad():  # also where the caller switched gradients off
        found = MEASURES[name](net, nn.functional.cross_entropy, x, y)
    np.testing.assert_array_equal(found, expected)
    with suppress(ZeroDivisionError):
        MEASURES[name](net, lambda outputs, targets: 1 / 0, x, y)
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert [module.training for module in net] == [False, True, True, True, True]
    assert [p.requires_grad for p in net.parameters()] == [True] * 4 + [False, True]
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert all(p.grad is None for p in [*net.parameters()][1:]) and not x.requires_grad
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert torch.equal(torch.get_rng_state(), random)
