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


def test_where_operands_would_be_rounded_nothing_is_switched(monkeypatch):
    before = setting()
    monkeypatch.setattr(products, "_wide", lambda: True)
    monkeypatch.setattr(products, "_keeps_float32", lambda: False)
    with products.float32_products():
        assert setting() == before


@pytest.mark.parametrize(
    ("described", "wide"),
    [
        ({"vendor_id": "AuthenticAMD", "cpu family": "26"}, True),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25"}, False),
        ({"vendor_id": "GenuineIntel", "cpu family": "26"}, False),
        ({}, False),
    ],
)
def test_only_processors_whose_units_the_other_library_leaves_idle(monkeypatch, described, wide):
    monkeypatch.setattr(products.system, "processor", described.get)
    assert products._wide.__wrapped__() == wide


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
