"""Hessian-vector products against the dense Hessian of ``torch.func.jacrev``."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev

from alignbook.kernels.hessian_product import HessianProduct

cross_entropy = nn.functional.cross_entropy


def dense(model, loss, inputs, targets):
    """The Hessian by the parameters that require gradients, flattened in their order, float64."""
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    shapes = [dict(model.named_parameters())[n].shape for n in names]
    flat = torch.cat([dict(model.named_parameters())[n].detach().reshape(-1) for n in names])

    def value(theta):
        parts = [p.view(s) for p, s in zip(theta.split([s.numel() for s in shapes]), shapes, strict=True)]
        return loss(functional_call(model, dict(zip(names, parts, strict=True)), (inputs,)), targets)

    return jacrev(jacrev(value))(flat)


def mlp(features=6, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, 5),
        nn.Tanh(),
        nn.Linear(5, 4),
        nn.ReLU(inplace=True),
        nn.Linear(4, 3),
    ).double()


def case(n, features=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, features, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (n,), generator=generator)


def columns(product):
    return torch.stack([product(v) for v in torch.eye(product.size, dtype=torch.float64)])


@pytest.mark.parametrize("batch_size", [4, 11, 100])
def test_whole_vectors(batch_size):
    model, (inputs, targets) = mlp(), case(11)  # more examples than features
    product = HessianProduct(model, cross_entropy, inputs, targets, batch_size)
    assert product.size == product.total == sum(p.numel() for p in model.parameters())
    expected = dense(model, cross_entropy, inputs, targets)
    torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 19])
def test_few_examples_take_shorter_vectors(n):
    model, (inputs, targets) = mlp(20), case(n, 20)
    product = HessianProduct(model, cross_entropy, inputs, targets, 100)
    assert product.size == product.total - 5 * (20 - n)
    turn = product.expand(torch.eye(product.size, dtype=torch.float64))  # (size, total), orthonormal rows
    torch.testing.assert_close(turn @ turn.T, torch.eye(product.size, dtype=torch.float64))
    expected = dense(model, cross_entropy, inputs, targets)
    torch.testing.assert_close(turn.T @ columns(product) @ turn, expected, rtol=1e-9, atol=1e-12)
    longer = HessianProduct(model, cross_entropy, inputs, targets, 100, least=product.size + 1)
    assert longer.size == product.total


@pytest.mark.parametrize("decay", [0.01, 1e-8])
def test_a_weight_that_the_loss_uses_again_is_held_whole(decay):
    model, (inputs, targets) = mlp(20), case(4, 20)

    def decayed(outputs, targets):
        return cross_entropy(outputs, targets) + decay * model[1].weight.square().sum()

    product = HessianProduct(model, decayed, inputs, targets, 100)
    assert product.size == product.total
    vector = torch.randn(product.size, dtype=torch.float64)
    expected = HessianProduct(model, cross_entropy, inputs, targets, 2)(vector)
    expected[: 5 * 20] += 2 * decay * vector[: 5 * 20]
    torch.testing.assert_close(product(vector), expected)


def test_a_small_weight_decay_is_seen_in_float32_too():
    model, (inputs, targets) = mlp(20).float(), case(4, 20)

    def decayed(outputs, targets):
        return cross_entropy(outputs, targets) + 1e-7 * model[1].weight.square().sum()

    product = HessianProduct(model, decayed, inputs.float(), targets, 100)
    assert product.size == product.total
    assert HessianProduct(model, cross_entropy, inputs.float(), targets, 100).size < product.total


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_a_layer_that_does_more_than_its_class_is_held_whole():
    torch.manual_seed(0)
    model, (inputs, targets) = nn.Sequential(Doubled(20, 4), nn.Tanh(), nn.Linear(4, 4)).double(), case(6, 20)
    product = HessianProduct(model, cross_entropy, inputs, targets, 100)
    assert product.size == product.total
    torch.testing.assert_close(columns(product), dense(model, cross_entropy, inputs, targets))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 3).double()

    def forward(self, x):
        return self.layer(x) * self.layer(x.flip(1))


def test_a_layer_used_twice():
    torch.manual_seed(0)
    model, (inputs, targets) = Twice(), case(4, 20)
    product = HessianProduct(model, cross_entropy, inputs, targets, 100)
    expected = dense(model, cross_entropy, inputs, targets)
    torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)


def test_convolutions_frozen_and_unused_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, bias=False),
        nn.GroupNorm(1, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    ).double()
    model[1].bias.requires_grad_(False)
    model.spare = nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.forward = lambda x, run=nn.Sequential.forward: run(nn.Sequential(*list(model)[:6]), x)
    inputs = torch.randn(7, 2, 6, 6, dtype=torch.float64)
    targets = torch.randint(3, (7,))
    for batch_size in (3, 7):
        product = HessianProduct(model, cross_entropy, inputs, targets, batch_size)
        expected = dense(model, cross_entropy, inputs, targets)
        torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)


def test_a_loss_without_curvature():
    model, (inputs, targets) = nn.Linear(6, 3).double(), case(5)
    product = HessianProduct(model, lambda outputs, targets: outputs.mean(), inputs, targets, 100)
    assert not product(torch.randn(product.size, dtype=torch.float64)).any()


def test_float32():
    model, (inputs, targets) = mlp(20), case(9, 20)
    wide = HessianProduct(model, cross_entropy, inputs, targets, 4)
    vector = torch.randn(wide.total, dtype=torch.float64)
    expected = wide(vector)
    model.float()
    narrow = HessianProduct(model, cross_entropy, inputs.float(), targets, 4)
    assert narrow(vector.float()).dtype == torch.float32
    assert (narrow(vector.float()) - expected).norm() < 1e-5 * expected.norm()
