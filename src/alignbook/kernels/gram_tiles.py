"""The Triton program of :mod:`alignbook.kernels.gram_product`. Importing it needs Triton."""

import torch
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)  # TRITON_INTERPRET=1 before the import: on the CPU

# Per dtype: edge of a tile in examples, features per step, launch options. Two float32 accumulators of
# 128 × 128 entries fill half of the registers of eight warps.
TILES = {
    torch.float16: (128, 64, {"num_warps": 8, "num_stages": 3}),
    torch.bfloat16: (128, 64, {"num_warps": 8, "num_stages": 3}),
    torch.float32: (64, 16, {"num_warps": 4, "num_stages": 3}),
    torch.float64: (64, 16, {"num_warps": 8, "num_stages": 3}),
}


@triton.jit
def _gram(left, right, stride, features, left_mask, right_mask, BLOCK, STEP, WIDE):
    """⟨left row, right row⟩ of BLOCK rows each, ``stride`` apart; features a multiple of STEP."""
    row, feature = tl.arange(0, BLOCK), tl.arange(0, STEP)
    left += row[:, None] * stride + feature[None, :]
    right += row[None, :] * stride + feature[:, None]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float64 if WIDE else tl.float32)
    for _ in range(0, features, STEP):
        a = tl.load(left, left_mask[:, None], 0.0)
        b = tl.load(right, right_mask[None, :], 0.0)
        if INTERPRETED:  # its product takes bfloat16's bit patterns for integers
            a, b = a.to(total.dtype), b.to(total.dtype)
        total = tl.dot(a, b, total, input_precision="ieee", out_dtype=total.dtype)
        left += STEP
        right += STEP
    return total


@triton.jit
def sum_tiles(
    h, g, tiles, sums, n, k, inputs, outputs, h_stride, g_stride, output_stride, count, share,
    WIDE: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """sums[p] = Σ of one tile's squares over the outputs a = p % share, + share, … < k of its left rows."""
    program = tl.program_id(0)
    tile, first = program // share, program % share
    top = tl.load(tiles + tile).to(tl.int64) * BLOCK
    left = tl.load(tiles + count + tile).to(tl.int64) * BLOCK
    output_stride = tl.cast(output_stride, tl.int64)
    example = tl.arange(0, BLOCK)
    i_mask, j_mask = example < n - top, example < n - left
    examples = _gram(
        h + top * h_stride, h + left * h_stride, h_stride, inputs, i_mask, j_mask, BLOCK, STEP, WIDE
    )
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for a in range(first, k, share):
        # On the diagonal the blocks (a, b) and (b, a) are each other's transposes.
        for b in range(a if top == left else 0, k):
            entries = _gram(
                g + top * g_stride + a * output_stride,
                g + left * g_stride + b * output_stride,
                g_stride, outputs, i_mask, j_mask, BLOCK, STEP, WIDE,
            )  # fmt: skip
            entries *= examples
            squares = tl.sum(entries * entries, 1).to(tl.float64)
            total += squares if (top == left) & (a == b) else 2 * squares
    tl.store(sums + program, tl.sum(tl.where(i_mask, total, 0.0), 0))
