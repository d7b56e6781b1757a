"""Directions and landscapes against plain loops over copies of the network."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.metrics import filter_normalised_directions, landscape

cross_entropy = nn.functional.cross_entropy


def network(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(27, 5)
    )
    net(torch.randn(8, 2, 5, 5))  # running statistics other than those at the start
    return net


def case(n=6):
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 2, 5, 5, generator=generator), torch.randint(5, (n,), generator=generator)


def stream(seed=3):
    return torch.Generator().manual_seed(seed)


def test_directions_against_plain_gram_schmidt():
    net = network()
    directions = filter_normalised_directions(net, stream(), count=3)
    drawn = np.stack([torch.randn(54 + 135, generator=g, dtype=torch.float64).numpy()
                      for g in [stream()] for _ in range(3)])  # fmt: skip
    basis = np.linalg.qr(drawn.T)[0].T
    basis *= np.sign((basis * drawn).sum(1))[:, None]
    for row, direction in zip(basis, directions, strict=True):
        assert list(direction) == ["0.weight", "5.weight"]  # neither biases nor batch norm
        parts = {"0.weight": row[:54].reshape(3, 2, 3, 3), "5.weight": row[54:].reshape(5, 27)}
        for name, part in parts.items():
            weight = net.get_parameter(name).detach().numpy()
            for j in range(len(weight)):
                expected = part[j] / np.linalg.norm(part[j]) * np.linalg.norm(weight[j])
                np.testing.assert_allclose(direction[name][j], expected, rtol=1e-4, atol=1e-6)


def test_directions_of_one_layer():
    net = network()
    (direction,) = filter_normalised_directions(net, stream(), count=1, layer="5")
    assert list(direction) == ["5.weight"]
    torch.testing.assert_close(direction["5.weight"].norm(dim=1), net[5].weight.detach().norm(dim=1))
    with pytest.raises(ValueError, match="no layer '55'; the nearest is '5'"):
        filter_normalised_directions(net, stream(), layer="55")
    with pytest.raises(ValueError, match="no weights of two or more dimensions in 1"):
        filter_normalised_directions(net, stream(), layer="1")
    with pytest.raises(ValueError, match="count"):
        filter_normalised_directions(net, stream(), count=0)
    with pytest.raises(ValueError, match="no 3 orthogonal"):
        filter_normalised_directions(nn.Linear(2, 1), stream(), count=3)


@pytest.mark.parametrize(("mode", "layer"), [("eval", None), ("train", None), ("train", "0"), ("eval", "5")])
def test_landscape_against_moved_copies(mode, layer):
    net, (x, y) = network(), case()
    found = landscape(
        net, cross_entropy, x, y, generator=stream(), radius=0.4, points=5, layer=layer, mode=mode
    )
    first, second = filter_normalised_directions(net, stream(), layer=layer)
    np.testing.assert_allclose(found.alpha, [-0.4, -0.2, 0, 0.2, 0.4])
    np.testing.assert_array_equal(found.alpha, found.beta)
    expected = np.empty((5, 5))
    for i, alpha in enumerate(found.alpha):
        for j, beta in enumerate(found.beta):
            moved = copy.deepcopy(net).eval()
            moved[1].train(mode == "train")
            with torch.no_grad():
                for name, parameter in moved.named_parameters():
                    if name in first:
                        parameter += float(alpha) * first[name] + float(beta) * second[name]
                expected[i, j] = cross_entropy(moved(x), y)
    assert found.loss.dtype == np.float64 and np.ptp(expected) > 0.01
    np.testing.assert_allclose(found.loss, expected, rtol=1e-5)
    given = landscape(net, cross_entropy, x, y, [first, second], radius=0.4, points=5, mode=mode)
    np.testing.assert_array_equal(given.loss, found.loss)


def test_bad_input():
    net, (x, y) = network(), case()
    directions = filter_normalised_directions(net, stream())
    for change, message in (
        ({"points": 4}, "odd"),
        ({"points": 1}, "at least 3"),
        ({"radius": 0.0}, "positive"),
        ({"mode": "both"}, "'both'"),
        ({"directions": directions}, "either directions or a generator"),
        ({"generator": None}, "either directions or a generator"),
        ({"generator": None, "directions": directions, "layer": "0"}, "already say"),
        ({"generator": None, "directions": [{"0.weight": x}] * 2}, "does not"),
    ):
        with pytest.raises(ValueError, match=message):
            landscape(net, cross_entropy, x, y, **({"generator": stream(), "points": 3} | change))
