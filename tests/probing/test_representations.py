"""Activations handed out, ranks, similarities and the tangent kernel, each beside its definition."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook.probing import representations
from tests import dense

N, WIDTH = 60, 6


@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(WIDTH, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 3)).double()


@pytest.fixture
def x(net):
    return torch.randn(N, WIDTH, dtype=torch.float64)


def test_activations_are_what_the_layers_return(net, x):
    found = alignbook.activations(net, x, ["0", "1", "(network)"], batch_size=16)
    assert list(found) == ["(network)", "0", "1"]
    with torch.no_grad():
        np.testing.assert_allclose(found["0"], net[0](x), rtol=1e-5)
        np.testing.assert_allclose(found["(network)"], net(x), rtol=1e-5)
    rnn = nn.LSTM(WIDTH, 5).double()  # time first

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = rnn

        def forward(self, x):
            return self.rnn(x.transpose(0, 1))[0][-1]

    sequences = torch.randn(N, N, WIDTH, dtype=torch.float64)
    values = alignbook.activations(Last(), sequences)["rnn"]
    with torch.no_grad():
        np.testing.assert_allclose(values, rnn(sequences.transpose(0, 1))[0].transpose(0, 1), atol=1e-6)
    with pytest.raises(ValueError, match="tells no examples apart"):
        alignbook.activations(Still(), x)


class Mixing(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x - x.mean(0))


class Still(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, 3).double()

    def forward(self, x):
        return self.inner(torch.arange(WIDTH).double().expand(4, WIDTH))


def test_ranks_are_those_of_the_singular_values(net, x):
    table = alignbook.layer_ranks(net, x, batch_size=7)
    with torch.no_grad():
        values = net[:3](x).numpy()
    plain, centred = (np.linalg.svd(v, compute_uv=False) for v in (values, values - values.mean(0)))
    share = plain / plain.sum()
    expected = [
        4,
        np.exp(-(share * np.log(share)).sum()),
        (centred**2).sum() ** 2 / (centred**4).sum(),
        (centred**2).sum() / centred[0] ** 2,
    ]
    np.testing.assert_allclose(table.loc["2"], expected, rtol=1e-5)


def test_procrustes_and_canonical_correlations(net, x):
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64))[0]
    with torch.no_grad():
        a = net[:1](x).numpy()
        b = net[:3](x).numpy()
    a, b = (v - v.mean(0) for v in (a, b))
    procrustes = alignbook.layer_cka(net, x, measure="procrustes")
    expected = np.linalg.norm(a.T @ b, "nuc") / np.linalg.norm(a) / np.linalg.norm(b)
    assert procrustes.loc["0", "2"] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(np.diag(procrustes), 1, rtol=1e-6)
    rotated = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False)).double()
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False)).double()
    with torch.no_grad():
        rotated[0].weight.copy_(3 * turn)
        plain[0].weight.copy_(torch.eye(WIDTH))
    for measure in ("procrustes", "cca", "cka"):
        same = alignbook.layer_cka(plain, x, rotated, measure=measure)
        assert same.loc["0", "0"] == pytest.approx(1, abs=1e-4)
    y = torch.randn(N, WIDTH, dtype=torch.float64)
    cca = representations._similar(*(representations._turned(v.numpy()) for v in (x, y)), "cca")
    qx, qy = (np.linalg.qr(v.numpy() - v.numpy().mean(0))[0] for v in (x, y))
    assert cca == pytest.approx(np.linalg.svd(qx.T @ qy, compute_uv=False).mean(), rel=1e-6)
    few = alignbook.layer_cka(net, x[:10], measure="cca")
    assert any("for want of examples" in line for line in few.attrs["said"])
    with pytest.raises(ValueError, match="measure must be 'cka' or 'procrustes' or 'cca'"):
        alignbook.layer_cka(net, x, measure="rsa")


def test_the_tangent_kernel_is_the_product_of_jacobians(net, x):
    net[0].requires_grad_(False)
    names = [name for name, _ in net.named_parameters()]
    for chosen, given in ((names[2:], {}), (names, {"parameters": "all"}), (names[4:], {"parameters": "4"})):
        j = dense.jacobian(net, x, chosen).view(N, 3, -1)
        expected = torch.einsum("nap,mbp->namb", j[:5], j[5:12])
        found = alignbook.tangent_kernel(net, x[:5], x[5:12], **given)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    one = alignbook.tangent_kernel(net, x[:5], outputs=[2])
    np.testing.assert_allclose(one[:, 0, :, 0], alignbook.tangent_kernel(net, x[:5])[:, 2, :, 2])
    with pytest.raises(ValueError, match="mixes examples"):
        alignbook.tangent_kernel(Mixing(net), x)


def matrices(net, x, y):
    """The Hessian and the Gauss-Newton matrix, by their definitions."""
    rows = dense.jacobian(net, x, [name for name, _ in net.named_parameters()])
    outputs = net(x).detach().flatten()
    inner = torch.func.hessian(lambda o: functional.cross_entropy(o.view(len(x), -1), y))(outputs)
    return dense.hessian(net, functional.cross_entropy, x, y), rows.T @ inner @ rows


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("kind", ["hessian", "gauss-newton"])
def test_eigenvalues_and_density_of_both_matrices(net, x, kind):
    y = torch.arange(N) % 3
    exact = matrices(net, x, y)[kind == "gauss-newton"]
    values = torch.linalg.eigvalsh(exact).numpy()
    given = (net, functional.cross_entropy, x, y)
    top = alignbook.hessian_eigenvalues(*given, k=3, matrix=kind).eigenvalues
    np.testing.assert_allclose(top, dense.largest(values, 3), rtol=1e-4)
    found = alignbook.spectral_density(*given, vectors=16, steps=40, matrix=kind)
    assert found.parameters == len(values) and np.allclose(found.weights.sum(1), 1)
    assert found.nodes.max() == pytest.approx(values.max(), rel=1e-3)
    assert found.nodes.min() == pytest.approx(values.min(), abs=1e-3 * values.max())
    traces = found.parameters * (found.nodes * found.weights).sum(1)
    assert abs(found.trace - values.sum()) < 4 * traces.std() / 16**0.5
    width = values.max() / 10
    grid = np.linspace(values.min() - 3 * width, values.max() + 3 * width, 400)
    smooth = np.exp(-(((grid[:, None] - values) / width) ** 2) / 2).mean(1) / (width * (2 * np.pi) ** 0.5)
    density = found.on(grid, width)
    step = grid[1] - grid[0]
    assert density.sum() * step == pytest.approx(1, abs=0.02)
    assert np.abs(density - smooth).sum() * step < 0.1
    with pytest.raises(ValueError, match="matrix must be .*gauss-newton"):
        alignbook.spectral_density(*given, matrix="fisher")
