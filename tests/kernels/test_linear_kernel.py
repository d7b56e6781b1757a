"""The faster kernel of a linear layer, against the kernel held whole and against the plain one."""

import pytest
import torch

from alignbook.kernels import layer_kernel, linear_kernel
from alignbook.kernels.layer_kernel import LayerKernel
from alignbook.kernels.linear_kernel import LinearKernel


def signals(n, k, o, d, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n + k)
    made = [torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((n, d), (k, n, o), (k, n))]
    return made[0], made[1], made[2].double()


@pytest.mark.parametrize("tile", [1, 30, 400, 2**19])  # blocks of one example, of several, and all at once
@pytest.mark.parametrize(("n", "k", "o", "d"), [(7, 3, 5, 4), (1, 2, 3, 1), (10, 1, 1, 6), (5, 4, 2, 9)])
def test_sums_of_the_whole_kernel(n, k, o, d, tile, monkeypatch):
    monkeypatch.setattr(linear_kernel, "TILE", tile)
    monkeypatch.setattr(layer_kernel, "TILE", tile)
    h, g, y = signals(n, k, o, d)
    whole = torch.einsum("id,jd,aio,bjo->aibj", h, h, g, g).reshape(k * n, k * n)
    kernel = LinearKernel(h, g)
    for route in ("grams", "gradients", "moments"):
        assert kernel.squares(route=route) == pytest.approx(float(whole.square().sum()), rel=1e-12)
    assert kernel.squares(torch.float32, "grams") == pytest.approx(float(whole.square().sum()), rel=1e-5)
    means, product = kernel.projections(y)
    torch.testing.assert_close(means.flatten(), whole.mean(1), rtol=1e-11, atol=1e-11)
    assert product == pytest.approx(float(y.flatten() @ whole @ y.flatten()), rel=1e-11)


@pytest.mark.parametrize("contiguous", [True, False])
def test_float32_gives_what_the_plain_kernel_gives(contiguous):
    h, g, y = signals(90, 10, 33, 20, torch.float32)
    given_as = g if contiguous else g.movedim(1, 0).contiguous().movedim(0, 1)
    fast, plain = LinearKernel(h, given_as), LayerKernel(h, g)
    assert fast.squares(route="grams") == pytest.approx(plain.squares(route="grams"), rel=1e-6)
    assert fast.route() == plain.route()
    expected, of_plain = plain.projections(y)
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        means, product = fast.projections(y, dtype)
        torch.testing.assert_close(means, expected, rtol=error, atol=error)
        assert product == pytest.approx(of_plain, rel=error)
