import numpy as np
import pytest
import torch

from alignbook.training.initialise import (
    covariance_filters_,
    eigenvector_filters,
    eigenvectors,
    input_covariance,
    sampled_filters,
)
from alignbook.training.nets import SimpleCNN, he_normal_


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def network(filters=(4, 4, 4)):
    return he_normal_(SimpleCNN((3, 9, 11), list(filters), 8, 3), 1.0, stream(1))


def images(n=23):
    """Images with correlated pixels and a mean far from zero."""
    return torch.randn(n, 3, 9, 11, generator=stream(2)).cumsum(3) + 2


def patches_written_out(maps, stride):
    maps = maps.detach().double().numpy()
    _, _, height, width = maps.shape
    return np.array(
        [
            image[:, row : row + 3, column : column + 3].ravel()
            for image in maps
            for row in range(0, height - 2, stride)
            for column in range(0, width - 2, stride)
        ]
    )


@pytest.mark.parametrize(("layer", "stride"), [(0, 3), (1, 3), (2, 3), (1, 1)])
def test_covariance_against_patches_written_out(layer, stride):
    net, x = network(), images()
    patches = patches_written_out(net.features(x, layer), stride)
    expected = np.cov(patches.T, bias=True)
    measured = input_covariance(net, layer, x, stride=stride, batch_size=7).numpy()
    np.testing.assert_allclose(measured, expected, atol=1e-4 * np.abs(expected).max())
    moment = input_covariance(net, layer, x, centred=False, stride=stride, batch_size=7).numpy()
    np.testing.assert_allclose(moment, patches.T @ patches / len(patches), rtol=1e-4, atol=1e-4)


def test_eigenvectors_come_largest_first():
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, generator=stream(), dtype=torch.float64))
    values = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0], dtype=torch.float64)
    found = eigenvectors(rotation @ torch.diag(values) @ rotation.T)
    assert torch.allclose((found @ rotation).abs(), torch.eye(5, dtype=torch.float64), atol=1e-8)


def test_eigenvector_filters_are_scaled_and_get_both_signs():
    vectors = torch.eye(40, dtype=torch.float64)[:30]
    tau = torch.arange(1.0, 31.0, dtype=torch.float64)
    filters = eigenvector_filters(vectors, tau, stream())
    assert torch.equal(filters.abs(), torch.diag(tau) @ vectors)
    assert set(filters.sum(1).sign().tolist()) == {-1.0, 1.0}


def test_samples_have_the_covariance_asked_for():
    rotation, _ = torch.linalg.qr(torch.randn(6, 6, generator=stream(), dtype=torch.float64))
    vectors, tau = rotation[:4], [3.0, 2.0, 1.0, 0.5]
    draws = stream(3)
    samples = torch.cat([sampled_filters(vectors, tau, draws) for _ in range(5000)])
    expected = vectors.T @ torch.diag(torch.tensor(tau, dtype=torch.float64) ** 2) @ vectors
    assert torch.allclose(samples.T @ samples / len(samples), expected, atol=0.25)
    assert ((samples @ vectors.T).square().mean(0) / torch.tensor(tau).double() ** 2 - 1).abs().max() < 0.06


@pytest.mark.parametrize(("scale", "mean_square"), [("unit", 1.0), ("he", 2.0), ("raw", 7.5)])
def test_layers_are_computed_one_after_another(scale, mean_square):
    x, tau = images(), [1.0, 2.0, 3.0, 4.0]  # mean of τ²: 7.5
    net, fresh = network(), network()
    torch.nn.init.ones_(net.convs[0].bias)
    covariance_filters_(
        net, x, 2, make=eigenvector_filters, tau=tau, first=(1, 2, 0), filter_scale=scale, generator=stream()
    )
    for layer, first in ((0, 1), (1, 2)):
        filters = net.convs[layer].weight.detach().flatten(1)
        assert filters.square().sum(1).mean().item() == pytest.approx(mean_square, rel=1e-5)
        # Given the layers before, the directions are eigenvectors of what enters this layer.
        directions = eigenvectors(input_covariance(net, layer, x))[first : first + 4].float()
        overlap = torch.nn.functional.normalize(filters, dim=1) @ directions.T
        assert torch.allclose(overlap.abs(), torch.eye(4), atol=1e-2)
    assert not net.convs[0].bias.any()
    assert torch.equal(net.convs[2].weight, fresh.convs[2].weight)
    assert torch.equal(net.dense.weight, fresh.dense.weight)


def test_negative_first_counts_from_the_smallest():
    net, x = network(), images()
    covariance_filters_(
        net, x, 1, make=eigenvector_filters, tau=[1.0] * 4, first=(-4, 0, 0), generator=stream()
    )
    covariance = input_covariance(net, 0, x)
    filters = net.convs[0].weight.detach().flatten(1).double()
    variances = (filters @ covariance @ filters.T).diagonal()
    assert torch.allclose(variances, torch.linalg.eigvalsh(covariance)[:4].flip(0), rtol=1e-2, atol=1e-4)
