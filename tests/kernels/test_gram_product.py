"""The Triton kernel in its interpreter, and on a GPU where there is one, against einsum in float64.

Triton decides when it is imported whether to interpret. The interpreter therefore runs in a process of
its own, which nothing here or in other tests can have given another Triton.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from alignbook.kernels.gram_product import squared_sum

pytest.importorskip("triton", reason="Triton is there for Linux only")
from alignbook.kernels import gram_tiles  # noqa: E402

TOLERANCE = {  # of operands that are exact in the dtype: float32 sums of products, then float64
    torch.float16: 1e-6,
    torch.bfloat16: 1e-6,
    torch.float32: 1e-6,
    torch.float64: 1e-13,
}
# (n, k, in, out): one tile and part of a step; several tiles of either size, all odd; one of everything;
# more outputs than programs that share a tile
SHAPES = [(7, 3, 5, 9), (133, 2, 67, 17), (1, 1, 1, 1), (6, 9, 64, 16)]


@pytest.fixture(scope="module")
def compute():
    """``squared_sum`` where Triton interprets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        pool.submit(int).result()  # starts the process, while the variable is set
    with pool:
        try:
            pool.submit(squared_sum, *operands(1, 1, 1, 1, torch.float64)).result(timeout=60)
        except Exception as error:  # of Triton's interpreter, which stands in for a GPU
            if "only 0-dimensional arrays" not in str(error):
                raise
            pytest.skip("the interpreter of this Triton does not know this NumPy (3.6 fails with 2.5)")
        yield lambda *arguments: pool.submit(squared_sum, *arguments).result(timeout=60)


def operands(n, k, inputs, outputs, dtype):
    generator = torch.Generator().manual_seed(n)
    h = torch.randn(n, inputs, generator=generator, dtype=torch.float64)
    g = torch.randn(n, k, outputs, generator=generator, dtype=torch.float64)
    return h.to(dtype), g.to(dtype)


def expected(h, g):
    """Σ K², float64."""
    h, g = h.double(), g.double()
    return torch.einsum("io,jo,iac,jbc->iajb", h, h, g, g).square().sum()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_einsum(compute, shape, dtype):
    h, g = operands(*shape, dtype)
    torch.testing.assert_close(compute(h, g), expected(h, g), rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (300, 10, 100, 256), (65, 40, 784, 100)], ids=str)
def test_on_cuda_against_einsum(shape, dtype):
    h, g = (operand.cuda() for operand in operands(*shape, dtype))
    relative = 10 * TOLERANCE[dtype]  # tensor cores add with fewer guard bits
    torch.testing.assert_close(squared_sum(h, g), expected(h, g), rtol=relative, atol=0)


def test_strided_operands(compute):
    """Gradients stacked output by output, (k, n, out), and every second feature."""
    h, g = operands(70, 3, 32, 64, torch.float32)
    stacked = g.transpose(0, 1).contiguous().transpose(0, 1)
    for left, right in ((h, stacked), (h[:, ::2], g[..., ::2])):
        torch.testing.assert_close(compute(left, right), expected(left, right), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"g": torch.ones(2, 2, 5)}, "are not"),
        ({"g": torch.ones(3, 2, 5).double()}, "must be one of"),
    ],
)
def test_refused(compute, change, message):
    arguments = {"h": torch.ones(3, 4), "g": torch.ones(3, 2, 5)} | change
    with pytest.raises(ValueError, match=message):
        compute(*arguments.values())


def test_cpu_tensors_need_the_interpreter(monkeypatch):
    monkeypatch.setattr(gram_tiles, "INTERPRETED", False)
    with pytest.raises(ValueError, match="CUDA device"):
        squared_sum(torch.ones(3, 4), torch.ones(3, 2, 5))
