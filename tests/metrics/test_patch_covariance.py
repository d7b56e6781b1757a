"""Patch moments against an explicit unfold in float64."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional

from alignbook.metrics import patch_covariance
from tests.memory import Largest

module = importlib.import_module("alignbook.metrics.patch_covariance")


def reference(x, size, stride):
    d = x.shape[1] * size**2
    patches = functional.unfold(x.double(), size, stride=stride)  # (N, d, patches of an image)
    patches = patches.transpose(1, 2).reshape(-1, d).numpy()
    return patches.mean(0), np.cov(patches, rowvar=False, bias=True).reshape(d, d), len(patches)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 7),
    channels=st.integers(1, 4),
    height=st.integers(3, 9),
    width=st.integers(3, 9),
    size=st.integers(1, 5),
    stride=st.sampled_from([1, 1, 1, 2, 4]),
    block=st.sampled_from([1, 300, 2**18]),
    strip=st.sampled_from([1, 12, 96]),
)
def test_equals_explicit_unfold(seed, n, channels, height, width, size, stride, block, strip):
    size = min(size, height, width)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, channels, height, width, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        patch.setattr(module, "STRIP", strip)
        result = patch_covariance(x, size=size, stride=stride)
    mean, cov, count = reference(x, size, stride)
    assert result.count == count
    assert result.mean.dtype == result.cov.dtype == np.float64
    np.testing.assert_allclose(result.mean, mean, atol=1e-12)
    np.testing.assert_allclose(result.cov, cov, atol=1e-12)
    assert (result.cov == result.cov.T).all()


def test_order_of_entries_is_that_of_convolution_weights():
    x = torch.randn(20, 3, 8, 7, dtype=torch.float64)
    weight = torch.randn(5, 3, 3, 3, dtype=torch.float64)
    outputs = functional.conv2d(x, weight).transpose(0, 1).reshape(5, -1).numpy()
    w = weight.reshape(5, -1).numpy()
    result = patch_covariance(x)
    np.testing.assert_allclose(w @ result.mean, outputs.mean(1), atol=1e-12)
    np.testing.assert_allclose(w @ result.cov @ w.T, np.cov(outputs, bias=True), atol=1e-10)


def test_large_mean_costs_no_accuracy():
    x = 1e6 + torch.randn(50, 2, 6, 6, dtype=torch.float64)
    centred = patch_covariance(x - 1e6)
    np.testing.assert_allclose(patch_covariance(x).cov, centred.cov, atol=1e-8)


@pytest.mark.parametrize("stride", [1, 2])
def test_memory_is_bounded_whatever_the_number_of_images(stride):
    x = torch.randn(10, 3, 32, 32)
    many = x.expand(300, 10, 3, 32, 32).reshape(-1, 3, 32, 32)
    with Largest(many) as seen:
        result = patch_covariance(many, stride=stride)
    assert result.count == 3000 * (30 if stride == 1 else 15) ** 2
    assert module.BLOCK * 8 / 2 < seen.bytes <= module.BLOCK * 8 < many.nbytes
    np.testing.assert_allclose(result.cov, patch_covariance(x, stride=stride).cov, rtol=1e-10)


def test_data_sets_views_and_other_layouts():
    x = torch.randn(6, 8, 9, 2).permute(0, 3, 1, 2)  # not contiguous
    expected = reference(x, 3, 1)[1]
    np.testing.assert_allclose(patch_covariance(SimpleNamespace(x=x)).cov, expected, atol=1e-12)
    np.testing.assert_allclose(patch_covariance(x.requires_grad_()).cov, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "arguments"),
    [
        (torch.zeros(3, 4, 4), {}),
        (torch.zeros(0, 1, 4, 4), {}),
        (torch.zeros(1, 1, 4, 4, dtype=torch.uint8), {}),
        (np.zeros((1, 1, 4, 4)), {}),
        (torch.zeros(1, 1, 2, 4), {}),
        (torch.zeros(1, 1, 4, 4), {"stride": 0}),
        (torch.zeros(1, 1, 4, 4), {"size": 0}),
    ],
)
def test_bad_input(x, arguments):
    with pytest.raises(ValueError, match="images|an integer from 1 on"):
        patch_covariance(x, **arguments)
