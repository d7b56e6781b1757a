"""Spectra of layer kernels and Fisher blocks against float64 Jacobians with every matrix built."""

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.kernels import kernel_matrix as module
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.metrics.tangent_spectrum import matrix_alignment, tangent_spectra
from alignbook.training.deep import VGG
from alignbook.training.nets import he_normal_
from tests import dense


def small_network(norm=None):
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 3, 2, stride=2)]
    net = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    return net.double()


def case(n=6):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 2, 5, 4, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (n,), generator=generator)


def reference(net, x, y):
    """[(kernel, centred kernel, Fisher information in parameter space)] of every layer, and Ỹ."""
    logits = net(x).detach()
    size, k = logits.numel(), logits.shape[1]
    centring = torch.eye(size, dtype=torch.float64) - 1 / size
    target = centring @ nn.functional.one_hot(y, k).double().flatten()
    curvature = torch.block_diag(*(torch.diag(p) - torch.outer(p, p) for p in logits.softmax(1)))
    result = []
    for name in dense.layers(net):
        jacobian = dense.jacobian(net, x, [name])
        kernel = jacobian @ jacobian.T
        result.append((kernel, centring @ kernel @ centring, jacobian.T @ curvature @ jacobian))
    return result, target / target.norm(), curvature


def stable_rank(matrix):
    values = torch.linalg.svdvals(matrix)
    return float((values**2).sum() / values[0] ** 2)


def test_spectra_are_those_of_the_matrices():
    net, (x, y) = small_network(), case()
    expected, target, curvature = reference(net, x, y)
    found = tangent_spectra(net, x, y)
    assert len(found) == len(expected) == 4
    for spectrum, (kernel, centred, fisher) in zip(found, expected, strict=True):
        values, vectors = (part.flip(-1) for part in torch.linalg.eigh(centred))
        np.testing.assert_allclose(spectrum.eigenvalues, values / values[0], atol=1e-10)
        assert spectrum.rank == pytest.approx(stable_rank(centred))
        assert spectrum.kernel_rank == pytest.approx(stable_rank(kernel))
        assert spectrum.fisher_rank == pytest.approx(stable_rank(fisher))
        weighted = float((values / values[0] * (vectors.T @ target) ** 2).sum())
        assert spectrum.correlation == pytest.approx(weighted)
        # G.5: left singular vectors of √(∂²L/∂F²) Ψ.
        root = torch.linalg.eigh(curvature)
        root = root[1] @ torch.diag(root[0].clamp(min=0).sqrt()) @ root[1].T
        left, singular, _ = torch.linalg.svd(root @ kernel @ root)
        of_fisher = float((singular / singular[0] * (left.T @ target) ** 2).sum())
        assert spectrum.fisher_correlation == pytest.approx(of_fisher)
    aligned = [spectrum.alignment for spectrum in found]
    np.testing.assert_allclose(aligned, tangent_alignment(net, x, y), rtol=1e-9)
    np.testing.assert_allclose(aligned, matrix_alignment(net, x, y), rtol=1e-9)


@pytest.mark.parametrize("entry", [0, 10**9])  # by positions wherever it is cheaper; never
def test_both_routes_give_the_same_kernel(monkeypatch, entry):
    net, (x, y) = small_network(), case()
    expected = reference(net, x, y)[0]
    monkeypatch.setattr(module, "ENTRY", entry)
    for spectrum, (_, centred, _) in zip(tangent_spectra(net, x, y), expected, strict=True):
        assert spectrum.rank == pytest.approx(stable_rank(centred))


def test_positions_and_gradients_agree():
    generator = torch.Generator().manual_seed(3)
    patches = torch.randn(4, 7, 3, generator=generator, dtype=torch.float64)
    signals = torch.randn(4, 2, 5, 3, generator=generator, dtype=torch.float64)
    gradient = torch.einsum("nkop,ndp->nkod", signals, patches).reshape(8, 35)
    np.testing.assert_allclose(module._by_positions(patches, signals), gradient @ gradient.T, rtol=1e-10)


def test_batch_normalisation_is_evaluated_and_the_network_left_as_it_was():
    net = he_normal_(VGG(19, (3, 8, 8), 4, width=2, norm="batch"), 1.0, torch.Generator().manual_seed(0))
    x = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    net.train()
    found = tangent_spectra(net, x, torch.tensor([0, 1, 2, 3, 0]))
    assert len(found) == 17 and net.training and all(module.training for module in net.modules())
    assert all(spectrum.rank >= 1 - 1e-9 for spectrum in found if np.isfinite(spectrum.rank))
    expected = tangent_alignment(net, x, torch.tensor([0, 1, 2, 3, 0]))
    np.testing.assert_allclose([s.alignment for s in found], expected, rtol=1e-3)


def test_a_dead_layer_has_no_spectrum():
    net, (x, y) = small_network(), case()
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.fill_(-1)
    found = tangent_spectra(net, x, y)
    assert np.isnan(found[0].rank) and np.isnan(found[0].eigenvalues).all()
    np.testing.assert_array_equal(np.isnan(matrix_alignment(net, x, y)), [np.isnan(s.rank) for s in found])


def test_many_outputs_of_a_convolution_with_one_position():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 30)).double()
    x, y = torch.randn(4, 2, 2, 2, dtype=torch.float64), torch.tensor([0, 7, 29, 7])
    np.testing.assert_allclose(matrix_alignment(net, x, y), dense.alignments(net, x, y), rtol=1e-9)
