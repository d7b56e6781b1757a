import math

import pytest
import torch
from torch import nn

from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.training.loop import train


def make(in_features=5, width=7, seed=0, dtype=torch.float64):
    return TwoLayer(in_features, width, torch.Generator().manual_seed(seed), dtype=dtype)


def as_sequential(network):
    width, in_features = network.W.shape
    net = nn.Sequential(nn.Linear(in_features, width), nn.ReLU(), nn.Linear(width, 1)).to(network.flat.dtype)
    nn.utils.vector_to_parameters(network.flat.clone(), net.parameters())
    return net


def batch(n, in_features, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, in_features, generator=generator, dtype=dtype)
    return x, torch.randn(n, generator=generator, dtype=dtype)


@pytest.mark.parametrize("n, in_features, width", [(1, 1, 1), (3, 5, 7), (64, 60, 60)])
def test_gradient_against_autograd(n, in_features, width):
    network = make(in_features, width)
    x, y = batch(n, in_features)
    net = as_sequential(network)
    loss = ((net(x)[:, 0] - y) ** 2).mean()
    loss.backward()
    total = network.backward(x, y)
    expected = torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
    torch.testing.assert_close(network.gradient, expected)
    torch.testing.assert_close(total / n, loss.detach())


@pytest.mark.parametrize("dtype, rtol", [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_training_against_torch_adam_on_a_sequential(dtype, rtol):
    network, n, size = make(dtype=dtype), 23, 8  # the last batch of an epoch holds seven points
    net, (x, y) = as_sequential(network), batch(n, 5, dtype=dtype)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, foreach=False, fused=False)
    shuffle = torch.Generator().manual_seed(4)
    losses = []
    for _ in range(5):
        total = 0.0
        for index in torch.randperm(n, generator=shuffle).split(size):
            optimiser.zero_grad()
            loss = nn.functional.mse_loss(net(x[index])[:, 0], y[index])
            loss.backward()
            optimiser.step()
            total += loss.item() * len(index)
        losses.append(total / n)
    generator = torch.Generator().manual_seed(4)
    ours = []
    train(
        adam_step(network, x, y), n, batch_size=size, epochs=6, rate=0.01, generator=generator,
        until=lambda now: ours.append(now.loss) or now.epochs == 5,
    )  # fmt: skip
    assert ours == pytest.approx(losses, rel=rtol)
    expected = nn.utils.parameters_to_vector(net.parameters()).detach()
    torch.testing.assert_close(network.flat, expected, rtol=rtol, atol=rtol / 10)
    assert losses[-1] < losses[0]


def test_hidden_representation_and_initial_bounds():
    network = make(60, 50)
    x, _ = batch(4, 60)
    torch.testing.assert_close(network.hidden(x), torch.relu(x @ network.W.T + network.b))
    for weights, fan_in in ((network.W, 60), (network.b, 60), (network.a, 50), (network.c, 50)):
        assert weights.abs().max() <= 1 / math.sqrt(fan_in)
    assert network.W.abs().max() > 0.99 / math.sqrt(60)
    assert torch.equal(network.flat, make(60, 50).flat)
