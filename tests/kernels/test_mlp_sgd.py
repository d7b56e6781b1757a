"""The hand-written step against autograd and torch.optim.SGD in float64."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from alignbook.kernels.mlp_sgd import MLP
from alignbook.seeding import torch_stream

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("in_features", "width", "depth", "classes", "batches"),
    [
        (7, 5, 2, 3, (4, 4, 1)),
        (13, 9, 3, 2, (8, 8, 3)),
        (3, 17, 6, 10, (5, 5, 2)),
        (1, 1, 4, 2, (1, 1)),
        (9, 20, 100, 3, (6, 2)),
    ],
)
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 0.01), (0.9, 0.0), (0.0, 0.1)])
def test_equals_autograd(device, in_features, width, depth, classes, batches, momentum, weight_decay):
    generator = torch_stream(0, "test")
    mlp = MLP(in_features, width, depth, classes, generator, device=device, dtype=torch.float64)
    reference = mlp.sequential()
    optimiser = torch.optim.SGD(reference.parameters(), 0.1, momentum=momentum, weight_decay=weight_decay)
    for batch in 3 * batches:
        x = torch.randn(batch, in_features, generator=generator, dtype=torch.float64).to(device)
        y = torch.randint(classes, (batch,), generator=generator).to(device)
        expected = cross_entropy(reference(x), y)
        optimiser.zero_grad()
        expected.backward()
        optimiser.step()
        torch.testing.assert_close(mlp.step(x, y, 0.1, momentum, weight_decay), expected.detach())
        for weight, parameter in zip(mlp.weights, reference.parameters(), strict=True):
            torch.testing.assert_close(weight, parameter.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(mlp.logits(x), reference(x).detach())


def test_float32_stays_close_to_float64():
    networks = [MLP(20, 30, 8, 10, torch_stream(1, "a"), dtype=torch.float64) for _ in range(2)]
    single = MLP(20, 30, 8, 10, torch_stream(1, "a"))
    single.flat.copy_(networks[0].flat)
    x = torch.randn(32, 20, generator=torch_stream(1, "x"), dtype=torch.float64)
    y = torch.arange(32) % 10
    for _ in range(10):
        networks[0].step(x, y, 0.05, 0.9, 1e-3)
        single.step(x.float(), y, 0.05, 0.9, 1e-3)
    moved = (networks[0].flat - networks[1].flat).norm()
    assert moved > 0.1
    assert (single.flat - networks[0].flat).norm() < 1e-5 * moved


def test_he_initialisation_and_layout():
    mlp, generator = MLP(40, 30, 3, 10, torch_stream(2, "init")), torch_stream(2, "init")
    assert [tuple(weight.shape) for weight in mlp.weights] == [(30, 40), (30, 30), (10, 30)]
    assert mlp.flat.numel() == 40 * 30 + 30 * 30 + 30 * 10
    for weight, fan_in in zip(mlp.weights, (40, 30, 30), strict=True):
        normal = torch.randn(weight.shape, generator=generator)
        torch.testing.assert_close(weight, normal * (2 / fan_in) ** 0.5)
    mlp.flat.zero_()
    assert all(not weight.any() for weight in mlp.weights)
