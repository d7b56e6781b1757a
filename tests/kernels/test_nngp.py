"""The NNGP kernel against the recursion pair by pair, and against wide networks."""

import math

import pytest
import torch

from alignbook.kernels import nngp
from alignbook.kernels.relu_correlation import relu_correlation


def test_against_the_recursion_of_single_pairs(monkeypatch):
    monkeypatch.setattr(nngp, "BLOCK", 10)  # several blocks
    generator = torch.Generator().manual_seed(0)
    x, other = (torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (7, 4))
    other[0] = 2 * x[0]
    other[1] = -x[0]
    for depth in (1, 2, 5):
        kernel = nngp.nngp_kernel(x, other, depth)
        for i in range(len(x)):
            for j in range(len(other)):
                lengths = float(x[i].norm() * other[j].norm())
                cosine = float(x[i] @ other[j]) / lengths
                u, _ = relu_correlation(min(max(1 - cosine, 0.0), 2.0), depth)
                assert float(kernel[i, j]) == pytest.approx(2 / 3 * lengths * (1 - u[-1]), rel=1e-7)


def test_against_a_wide_network():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, 4, generator=generator)
    products, draws, width = torch.zeros(5, 5), 20, 1000
    for _ in range(draws):
        h, fan_in = x, 4
        for out in (width, width):
            h = (h @ torch.randn(fan_in, out, generator=generator) * math.sqrt(2 / fan_in)).relu()
            fan_in = out
        products += 2 / width * h @ h.T / draws  # the covariance of outputs over their own weights
    kernel = nngp.nngp_kernel(x, x, 3).float()
    assert float((products - kernel).abs().max() / kernel.max()) < 0.05
    assert float((products - nngp.nngp_kernel(x, x, 2).float()).abs().max() / kernel.max()) > 0.1


def test_an_input_of_zeros_is_refused():
    with pytest.raises(ValueError, match="zero"):
        nngp.nngp_kernel(torch.ones(2, 3), torch.zeros(1, 3), 2)
