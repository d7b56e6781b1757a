"""Gradients at layers and projections on their singular vectors, against plain references."""

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.metrics import gradient_projections, layer_gradients
from alignbook.seeding import torch_stream
from alignbook.training.resnet import ResNet


def test_two_layers_by_hand():
    generator = torch_stream(0, "test")
    net = nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3, bias=False)).double()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (7,), generator=generator)
    found = layer_gradients(net, x, y, ["0", "2"])
    a, b = (net[k].weight.detach().numpy() for k in (0, 2))
    hidden = np.maximum(x.numpy() @ a.T, 0)
    logits = hidden @ b.T
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    delta = p - np.eye(3)[y.numpy()]  # (n, classes)
    back = delta @ b
    np.testing.assert_allclose(found.inputs["2"], back)
    np.testing.assert_allclose(found.inputs["0"], (back * (hidden > 0)) @ a)
    np.testing.assert_allclose(found.weights["2"], delta.T @ hidden / 7)


def test_residual_network_is_left_alone_and_agrees_with_a_difference():
    net = ResNet(3, width=8, generator=torch_stream(0, "net")).double()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x = torch.randn(5, 3, 10, 10, generator=torch_stream(0, "x"), dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 1, 0])
    names = ["stem", "stages.1.0.conv1", "head"]
    found = layer_gradients(net.eval(), x, y, names)
    assert not net.training and all(torch.equal(value, before[n]) for n, value in net.state_dict().items())
    net.train()
    direction = torch.randn(x.shape, generator=torch_stream(0, "direction"), dtype=x.dtype)

    def loss(step):
        return nn.functional.cross_entropy(net(x + step * direction), y, reduction="sum").item()

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert (found.inputs["stem"] * direction).sum().item() == pytest.approx(slope, rel=1e-4)
    assert found.inputs["head"].shape == (5, 32)
    # Batch norm makes the loss blind to the scale of every filter before it.
    weight, gradient = net.get_submodule(names[1]).weight.detach(), found.weights[names[1]]
    along = (weight * gradient).flatten(1).sum(1)
    assert (along.abs() < 1e-2 * weight.flatten(1).norm(dim=1) * gradient.flatten(1).norm(dim=1)).all()


def test_a_layer_that_is_not_run():
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].unused = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="0.unused"):
        layer_gradients(net, torch.ones(3, 2), torch.zeros(3, dtype=torch.long), ["0", "0.unused"])


@pytest.mark.parametrize("shape", [(4, 3, 3, 3), (6, 2, 1, 1), (1, 5)])
def test_projections_against_one_by_one(shape):
    generator = torch_stream(1, "projections")
    w, g = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    found = gradient_projections(w, g)
    matrix = w.flatten(1).numpy()
    u, sigma, vt = np.linalg.svd(g.flatten(1).numpy(), full_matrices=False)
    np.testing.assert_allclose(found["singular"], sigma)
    for i in range(len(sigma)):
        assert float(found["both"][i]) == pytest.approx(abs(u[:, i] @ matrix @ vt[i]))
        assert float(found["left"][i]) == pytest.approx(np.linalg.norm(u[:, i] @ matrix))
        assert float(found["right"][i]) == pytest.approx(np.linalg.norm(matrix @ vt[i]))
