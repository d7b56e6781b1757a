"""Loss along the gradient against plain gradient steps on copies of the network."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.metrics import loss_variation

cross_entropy = nn.functional.cross_entropy


def network(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 3))
    net(torch.randn(9, 6))
    return net


def case(n=7):
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("scaled", [True, False])
def test_against_plain_steps(mode, scaled):
    net, (x, y) = network(), case()
    net[0].bias.requires_grad_(False)  # does not move
    lengths = [0.5, 0.1, 3.0]
    found = loss_variation(net, cross_entropy, x, y, lengths, scaled=scaled, mode=mode)

    def measured():
        made = copy.deepcopy(net).eval()
        made[1].train(mode == "train")
        return made

    start = measured()
    loss = cross_entropy(start(x), y)
    loss.backward()
    gradients = {name: p.grad for name, p in start.named_parameters() if p.grad is not None}
    norm = float(torch.cat([g.flatten() for g in gradients.values()]).norm())
    expected = []
    for length in lengths:
        moved = measured()
        with torch.no_grad():
            for name, gradient in gradients.items():
                moved.get_parameter(name).sub_(gradient * (length if scaled else length / norm))
            expected.append(float(cross_entropy(moved(x), y)))
    np.testing.assert_allclose(found.loss, expected, rtol=1e-5)
    assert found.start == pytest.approx(float(loss.detach()), rel=1e-6)
    assert found.gradient_norm == pytest.approx(norm, rel=1e-5)
    every = [*expected, float(loss.detach())]
    assert found.variation == pytest.approx(max(every) - min(every), rel=1e-4)
    np.testing.assert_array_equal(found.lengths, lengths)


def test_bad_input():
    net, (x, y) = network(), case()
    for lengths in ([], [np.inf], [[1.0]]):
        with pytest.raises(ValueError, match="finite numbers"):
            loss_variation(net, cross_entropy, x, y, lengths)
    with pytest.raises(ValueError, match="'both'"):
        loss_variation(net, cross_entropy, x, y, [1.0], mode="both")
    with pytest.raises(ValueError, match="gradient has norm nan"):
        loss_variation(net, cross_entropy, x * np.nan, y, [1.0])
    with pytest.raises(ValueError, match="no direction"):
        loss_variation(net, lambda o, t: 0 * o.sum(), x, y, [1.0], scaled=False)
    with pytest.raises(ValueError, match="no parameter"):
        loss_variation(net.requires_grad_(False), cross_entropy, x, y, [1.0])
