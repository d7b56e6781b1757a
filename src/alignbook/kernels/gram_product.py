"""The squared norm of a product of two Gram matrices, without the product: a Triton kernel for CUDA.

A fully connected layer with inputs h_i and output gradients g_i^a = ∂f_a(x_i)/∂z has the tangent kernel

    K[(i,a),(j,b)] = ⟨h_i, h_j⟩ ⟨g_i^a, g_j^b⟩             (Lou et al. 2022, Equation 9)

over the n·k pairs of an example and an output. Its (nk)² entries are formed tile by tile in registers,
squared and added there; of what is symmetric, one half.
"""

import torch
from torch.nn import functional

WAVES = 8  # programs per multiprocessor at least: the last ones to finish must not count


def squared_sum(h, g):
    """Σ K[(i,a),(j,b)]² over all (nk)² entries; () float64 on h's device.

    h : (n, in), g : (n, k, out), of one dtype: float16, bfloat16, float32 or float64

    Entries are computed in float32 (no TF32), for float64 in float64; at most 128 squares are added
    in that precision, the rest in float64, always in the same order. h or g is copied if its features are
    strided or no multiple of 64 (float32 and float64: of 16); other dimensions may be strided.
    Needs Triton, and CUDA tensors unless TRITON_INTERPRET=1 was set before Triton was first imported.
    Raises ValueError for other shapes, dtypes and devices. Reference: float64 einsum, in the test.
    """
    from alignbook.kernels import gram_tiles  # not above: Triton need not be installed without CUDA

    if h.ndim != 2 or g.ndim != 3 or len(h) != len(g) or not h.numel() or not g.numel():
        raise ValueError(f"h {tuple(h.shape)} and g {tuple(g.shape)} are not (n, in) and (n, k, out)")
    if h.dtype not in gram_tiles.TILES or g.dtype != h.dtype:
        known = ", ".join(map(str, gram_tiles.TILES))
        raise ValueError(f"h is {h.dtype}, g is {g.dtype}; both must be one of {known}")
    if not (h.is_cuda or gram_tiles.INTERPRETED) or g.device != h.device:
        raise ValueError(f"h is on {h.device}, g on {g.device}; both must be on one CUDA device")
    n, k, _ = g.shape
    block, step, options = gram_tiles.TILES[h.dtype]
    h, g = _whole_steps(h, step), _whole_steps(g, step)
    edge = -(-n // block)
    tiles = torch.triu_indices(edge, edge, device=h.device, dtype=torch.int32)
    count = tiles.shape[1]
    # Programs that share a tile each form its ⟨h_i, h_j⟩ anew: no more of them than keep the GPU busy.
    processors = torch.cuda.get_device_properties(h.device).multi_processor_count if h.is_cuda else 1
    share = min(k, -(-WAVES * processors // count))
    sums = torch.empty(count * share, dtype=torch.float64, device=h.device)
    with torch.cuda.device_of(h):
        gram_tiles.sum_tiles[(count * share,)](
            h, g, tiles, sums, n, k, h.shape[1], g.shape[2],
            h.stride(0), g.stride(0), g.stride(1), count, share,
            WIDE=h.dtype == torch.float64, BLOCK=block, STEP=step, **options,
        )  # fmt: skip
    return sums.sum()


def _whole_steps(values, step):
    """``values`` with zeros to a whole number of steps in the last dimension: whole, aligned loads."""
    if values.shape[-1] % step:
        return functional.pad(values, (0, -values.shape[-1] % step))
    return values if values.stride(-1) == 1 else values.contiguous()
