"""The faster route of float32 products keeps float32's accuracy, and the setting comes back."""

import pytest
import torch

from alignbook.kernels import products


def setting():
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.mark.parametrize("shapes", [((1, 1), (1, 1)), ((200, 784), (784, 100)), ((5, 33, 70), (5, 70, 41))])
def test_products_inside_are_float32(shapes, monkeypatch):
    monkeypatch.setattr(products, "_wide", lambda: True)  # the other library, wherever it keeps float32
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(shape, generator=generator) for shape in shapes)
    exact = a.double() @ b.double()
    with products.float32_products():
        inside = a @ b
    assert inside.dtype == torch.float32
    assert (inside - exact).norm() <= 1e-6 * exact.norm()


def test_the_probe_sees_rounded_operands():
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(2, 64, 64, generator=generator)
    rounded = (a.bfloat16().float() @ b.bfloat16().float()).double()
    exact = a.double() @ b.double()
    assert (rounded - exact).norm() / exact.norm() > 100 * products.ACCURATE
    assert products._error(a, b) < products.ACCURATE


def test_the_setting_comes_back(monkeypatch):
    before = setting()
    monkeypatch.setattr(products, "_wide", lambda: True)
    monkeypatch.setattr(products, "_keeps_float32", lambda: True)
    with pytest.raises(RuntimeError, match="inside"), products.float32_products():
        assert setting() == "bf16"
        raise RuntimeError("inside")
    assert setting() == before


CUDNN = torch.backends.cudnn


def convolutions():
    try:
        older = CUDNN.allow_tf32
    except RuntimeError:
        older = "cannot be read"
    return older, CUDNN.conv.fp32_precision, CUDNN.rnn.fp32_precision


@pytest.mark.parametrize("newer", [None, "ieee", "tf32"])
def test_convolutions_inside_are_not_rounded_and_the_setting_comes_back(newer):
    try:
        if newer:
            CUDNN.conv.fp32_precision = newer
        before = convolutions()
        with pytest.raises(RuntimeError, match="inside"), products.float32_convolutions():
            assert CUDNN.allow_tf32 is False and CUDNN.conv.fp32_precision != "tf32"
            raise RuntimeError("inside")
        assert convolutions() == before
    finally:
        CUDNN.allow_tf32 = True  # PyTorch's default


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_convolutions_on_cuda_against_float64():
    generator = torch.Generator().manual_seed(3)
    x, w = torch.randn(8, 64, 32, 32, generator=generator), torch.randn(64, 64, 3, 3, generator=generator)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
    with products.float32_convolutions():
        found = torch.nn.functional.conv2d(x.cuda(), w.cuda(), padding=1).cpu()
    assert (found - exact).norm() <= 1e-6 * exact.norm()
