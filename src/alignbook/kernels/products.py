"""Float32 matrix products by the faster of PyTorch's two libraries."""

from contextlib import contextmanager
from functools import cache

import torch

ACCURATE = 1e-6  # relative error of a product that was computed in float32; bfloat16 leaves 2e-3


@contextmanager
def float32_products():
    """Inside, float32 matrix products on a CPU go to oneDNN where that keeps float32's accuracy.

    PyTorch sends them to MKL, which on AMD processors leaves half of the arithmetic units idle. Only the
    permission to round operands to bfloat16 makes PyTorch choose oneDNN; where the processor gains nothing
    by rounding (AVX-512 without matrix units), oneDNN computes in float32 all the same, twice as fast. A
    product is tried once per process: where it comes out rounded, nothing is switched.
    The setting belongs to the process, not to the thread.
    """
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    if _keeps_float32():
        settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@cache
def _keeps_float32():
    if not torch.backends.mkldnn.is_available():
        return False
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    generator = torch.Generator().manual_seed(0)
    try:
        settings.fp32_precision = "bf16"
        # Sizes whose routes differ: one that fills blocks, one that does not, a batch.
        shapes = (((256, 256), (256, 256)), ((37, 101), (101, 53)), ((3, 64, 96), (3, 96, 64)))
        pairs = [[torch.randn(shape, generator=generator) for shape in pair] for pair in shapes]
        return all(_error(a, b) < ACCURATE for a, b in pairs)
    finally:
        settings.fp32_precision = before


def _error(a, b):
    exact = a.double() @ b.double()
    return float(((a @ b).double() - exact).norm() / exact.norm())
