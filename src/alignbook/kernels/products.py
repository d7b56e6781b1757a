"""Float32 products: by the faster of PyTorch's two libraries, and on a GPU without rounded operands."""

from contextlib import contextmanager
from functools import cache

import torch

from alignbook import system

ACCURATE = 1e-6  # relative error of a product that was computed in float32; bfloat16 leaves 2e-3
WIDE_SINCE = 26  # family of AMD's processors


@contextmanager
def float32_products():
    """Inside, float32 matrix products go to oneDNN on processors where that is faster and as accurate.

    PyTorch sends them to MKL, which takes AMD processors for ones with 256-bit arithmetic units: since
    family 26 (Zen 5) these are 512 bits wide, and half of them idle. Only the permission to round operands
    to bfloat16 makes PyTorch choose oneDNN; where the processor gains nothing by rounding (AVX-512
    without matrix units), oneDNN computes in float32 all the same, twice as fast. A product is tried once
    per process: where it comes out rounded, nothing is switched.
    The setting belongs to the process, not to the thread.
    """
    if not (_wide() and _keeps_float32()):
        yield  # and nothing is written: what the caller left to a wider setting stays so
        return
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@contextmanager
def float32_convolutions():
    """Inside, a GPU convolves float32 numbers in float32; PyTorch lets it round them to 10 bits (TF32).

    The setting belongs to the process, not to the thread. Matrix products are not rounded by default.
    """
    cudnn = torch.backends.cudnn
    newer = {setting: setting.fp32_precision for setting in (cudnn.conv, cudnn.rnn)}
    try:
        older = cudnn.allow_tf32
    except RuntimeError:  # somebody used the newer names, after which the older cannot be read
        older = None
    cudnn.allow_tf32 = False
    try:
        yield
    finally:
        if older is None:
            for setting, value in newer.items():
                setting.fp32_precision = value
        else:
            cudnn.allow_tf32 = older


@cache
def _wide():
    vendor, family = system.processor("vendor_id"), system.processor("cpu family")
    return vendor == "AuthenticAMD" and int(family) >= WIDE_SINCE


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
