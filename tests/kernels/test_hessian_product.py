"""Hessian-vector products against the dense Hessian of ``torch.func.jacrev``."""

import pytest
import torch
from torch import nn

from alignbook.kernels.hessian_product import HessianProduct
from tests import dense

cross_entropy = nn.functional.cross_entropy


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
    expected = dense.hessian(model, cross_entropy, inputs, targets)
    torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 19])
def test_few_examples_take_shorter_vectors(n):
    model, (inputs, targets) = mlp(20), case(n, 20)
    product = HessianProduct(model, cross_entropy, inputs, targets, 100)
    assert product.size == product.total - 5 * (20 - n)
    turn = product.expand(torch.eye(product.size, dtype=torch.float64))  # (size, total), orthonormal rows
    torch.testing.assert_close(turn @ turn.T, torch.eye(product.size, dtype=torch.float64))
    expected = dense.hessian(model, cross_entropy, inputs, targets)
    torch.testing.assert_close(turn.T @ columns(product) @ turn, expected, rtol=1e-9, atol=1e-12)
    longer = HessianProduct(model, cross_entropy, inputs, targets, 100, least=product.size + 1)
    assert longer.size == product.total


@pytest.mark.parametrize(
    ("dtype", "decay"), [(torch.float64, 0.01), (torch.float64, 1e-8), (torch.float32, 1e-7)]
)
def test_a_weight_that_the_loss_uses_again_is_held_whole(dtype, decay):
    model, (inputs, targets) = mlp(20).to(dtype), case(4, 20)

    def decayed(outputs, targets):
        return cross_entropy(outputs, targets) + decay * model[1].weight.square().sum()

    product = HessianProduct(model, decayed, inputs.to(dtype), targets, 100)
    assert product.size == product.total
    vector = torch.randn(product.size, dtype=dtype)
    expected = HessianProduct(model, cross_entropy, inputs.to(dtype), targets, 2)(vector)
    expected[: 5 * 20] += 2 * decay * vector[: 5 * 20]
    torch.testing.assert_close(product(vector), expected)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_a_layer_that_does_more_than_its_class_is_held_whole():
    torch.manual_seed(0)
    model, (inputs, targets) = nn.Sequential(Doubled(20, 4), nn.Tanh(), nn.Linear(4, 4)).double(), case(6, 20)
    product = HessianProduct(model, cross_entropy, inputs, targets, 100)
    assert product.size == product.total
    torch.testing.assert_close(columns(product), dense.hessian(model, cross_entropy, inputs, targets))


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
    expected = dense.hessian(model, cross_entropy, inputs, targets)
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
    expected = dense.hessian(model, cross_entropy, inputs, targets)
    for batch_size in (3, 7):
        product = HessianProduct(model, cross_entropy, inputs, targets, batch_size)
        torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [3, 5])
def test_a_network_that_changes_its_input_in_place(batch_size):
    model, (inputs, targets) = mlp(), case(5)
    given, expected = inputs.clone(), dense.hessian(model, cross_entropy, inputs - 0.5, targets)
    model.register_forward_pre_hook(lambda _, arguments: arguments[0].sub_(0.5))
    product = HessianProduct(model, cross_entropy, inputs, targets, batch_size, least=10**9)
    torch.testing.assert_close(columns(product), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(inputs, given)


def test_a_loss_without_curvature():
    model, (inputs, targets) = nn.Linear(6, 3).double(), case(5)
    product = HessianProduct(model, lambda outputs, targets: outputs.mean(), inputs, targets, 100)
    assert not product(torch.randn(product.size, dtype=torch.float64)).any()
