"""The network and its descent against autograd."""

import math

import numpy as np
import pytest
import torch

from alignbook.errors import Diverged
from alignbook.seeding import torch_stream
from companion.studies.transferability.shared import two_layer

D, M, N = 5, 23, 4


def network(x, weights, signs):
    return signs @ torch.relu(weights @ x.T) / math.sqrt(len(signs))


@pytest.fixture
def task():
    draw = torch_stream(0, "test-two-layer")
    x = torch.randn(N, D, generator=draw, dtype=torch.float64)
    x /= x.norm(dim=1, keepdim=True)
    weights, signs = two_layer.draw(D, M, 0.7, draw)
    return x, torch.tensor([1.0, -1, 1, -1], dtype=torch.float64), weights, signs


def test_draw():
    weights, signs = two_layer.draw(30, 1000, 0.2, torch_stream(1, "test-draw"))
    assert weights.shape == (1000, 30) and set(signs.tolist()) == {-1.0, 1.0}
    assert weights.std().item() == pytest.approx(0.2, rel=0.03) and abs(signs.mean()) < 0.1


def test_outputs_in_blocks(task, monkeypatch):
    x, _, weights, signs = task
    monkeypatch.setattr(two_layer, "BLOCK", 7)
    np.testing.assert_allclose(two_layer.outputs(weights, signs, x), network(x, weights, signs), rtol=1e-12)


def test_descent_is_gradient_descent(task, monkeypatch):
    """Six steps of autograd on |u - y|² / 2; blocks that do not divide the width."""
    x, y, weights, signs = task
    monkeypatch.setattr(two_layer, "BLOCK", 7)
    kept = weights.clone()
    found, losses = two_layer.descend(weights, signs, x, y, rate=0.3, tolerance=1e-9, steps=6)
    assert torch.equal(weights, kept)
    plain, expected = weights.clone(), []
    for _ in range(7):
        plain = plain.detach().requires_grad_()
        loss = (network(x, plain, signs) - y).square().sum() / 2
        expected.append(2 * loss.item())
        before, plain = plain, plain - 0.3 * torch.autograd.grad(loss, plain)[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-10)
    np.testing.assert_allclose(found, before.detach(), rtol=1e-10, atol=1e-12)


def test_descent_ends_at_its_tolerance_and_tells_divergence(task):
    x, y, weights, signs = task
    _, losses = two_layer.descend(weights, signs, x, y, rate=1.0, tolerance=0.01, steps=5000)
    assert 2 < len(losses) < 5001
    assert losses[-1] <= 1e-4 * y.square().sum() < losses[-2]
    with pytest.raises(Diverged):
        two_layer.descend(weights, signs, x, y, rate=1e200, tolerance=0.01, steps=50)


def test_activation_gradient(task):
    """Autograd of the loss with respect to X¹ = σ(W'x), at the printed definition."""
    x, y, weights, signs = task
    active = torch.relu(weights @ x.T).requires_grad_()
    found = signs @ active / math.sqrt(M)
    gradient = torch.autograd.grad((found - y).square().sum() / 2, active)[0]
    expected = gradient.square().sum().item()
    assert two_layer.activation_gradient(signs, found.detach(), y) == pytest.approx(expected)
    assert expected == pytest.approx((found - y).square().sum().item())


@pytest.mark.parametrize("n", [3, 9])
def test_in_span_keeps_inner_products(n):
    x = torch.randn(n, 6, generator=torch_stream(n, "test-span"), dtype=torch.float64)
    found = two_layer.in_span(x)
    assert found.shape == (n, min(n, 6))
    np.testing.assert_allclose(found @ found.T, x @ x.T, atol=1e-12)
