"""Networks with several hidden layers: layers, losses and when training ends, against plain references."""

import math

import numpy as np
import pytest
import torch

from alignbook.seeding import torch_stream
from companion.studies.representation_alignment.shared import hidden_layers


def test_representations_are_the_relus_outputs():
    net = hidden_layers.network([5, 7, 3, 1], torch_stream(0, "test"), dtype=torch.float64)
    x = torch.randn(11, 5, generator=torch_stream(1, "test"))
    weights = [parameter.detach().numpy() for parameter in net.parameters()]
    first = np.maximum(x.double().numpy() @ weights[0].T + weights[1], 0)
    second = np.maximum(first @ weights[2].T + weights[3], 0)
    for found, by_hand in zip(hidden_layers.representations(net, x), (first, second), strict=True):
        np.testing.assert_allclose(found, by_hand, atol=1e-12)
    np.testing.assert_allclose(net(x.double()).detach(), second @ weights[4].T + weights[5], atol=1e-12)


def test_initial_weights_fill_their_range_and_do_not_depend_on_the_dtype():
    kinds = (torch.float32, torch.float64)
    single, double = (
        hidden_layers.network([50, 40, 1], torch_stream(0, "test"), dtype=kind) for kind in kinds
    )
    for one, other in zip(single.parameters(), double.parameters(), strict=True):
        torch.testing.assert_close(one, other.float(), rtol=0, atol=0)
    largest = double[0].weight.abs().max().item()
    assert 0.98 / math.sqrt(50) < largest <= 1 / math.sqrt(50)


def test_losses_by_hand():
    outputs, y = torch.tensor([[0.5], [-2.0]]), torch.tensor([1.0, 1.0])
    assert hidden_layers.squared(outputs, y).item() == pytest.approx((0.25 + 9) / 2)
    expected = (math.log2(1 + math.exp(-0.5)) + math.log2(1 + math.exp(2))) / 2
    assert hidden_layers.logistic(outputs, y).item() == pytest.approx(expected)


def fit(**changes):
    x = torch.randn(37, 4, generator=torch_stream(0, "inputs"))
    y = 3 * x[:, 0] + 1.5
    net = hidden_layers.network([4, 16, 16, 1], torch_stream(0, "net"))
    given = {"loss": hidden_layers.squared, "batch_size": 10, "rate": 0.01, "remaining": 0.01}
    given |= {"max_epochs": 300, "generator": torch_stream(0, "batches"), "report": None}
    return y, hidden_layers.fit(net, x, y, **given | changes)


def test_training_ends_at_the_share_of_the_loss_or_at_the_last_epoch():
    y, trained = fit()
    assert trained.loss <= 0.01 * y.square().mean() and 3 < trained.epochs < 300
    _, earlier = fit(max_epochs=trained.epochs - 1)
    assert earlier.epochs == trained.epochs - 1 and earlier.loss > 0.01 * y.square().mean()


def test_spectrum_against_a_full_decomposition():
    draw = np.random.default_rng(0)
    features, y = draw.normal(size=(30, 4)), draw.normal(size=30)
    phi = np.hstack([features, np.ones((30, 1))])
    left, singular, _ = np.linalg.svd(phi / np.linalg.norm(phi, axis=1, keepdims=True))
    ours, gains = hidden_layers.spectrum(features, y)
    np.testing.assert_allclose(ours, singular)
    np.testing.assert_allclose(gains, np.square(left.T @ y)[:5], atol=1e-12)
