"""Sums over the tangent kernel of one layer, which has (nk)² entries and is never held.

    K[(i,a),(j,b)] = ⟨∂f_a(x_i)/∂W, ∂f_b(x_j)/∂W⟩ = Σ_pq ⟨u_i^p, u_j^q⟩ ⟨g_ia^p, g_jb^q⟩

for a layer z^p = W u^p with inputs u (d, P) and output gradients g = ∂f/∂z (o, P) at P positions: the
patches of a convolution, or P = 1 for a linear layer (Lou et al. 2022, Equation 9). What a pair of
examples costs depends on the layer, so Σ K² is taken by the cheapest of three routes, by count:

grams      both Gram matrices and their product     2 P² (k²(o + 1) + d)      operations
gradients  per-example gradients ∂f_a/∂W            2 k² o d, and formed once per block of others: 2 k o d P
moments    Σ_ab ⟨g_ia, g_jb⟩² = ⟨A_i, A_j⟩          o² + 2 d, and for every example 2 k o²; only for P = 1
           with A_i = Σ_a g_ia g_iaᵀ

Reference: the kernel built from float64 Jacobians, in the test.
"""

import math
from functools import lru_cache

import torch
from torch.nn import functional

from alignbook.kernels.gram_product import squared_sum

TILE = 2**19  # entries of the kernel, or of the product of its Gram matrices, held at once: 2 MiB of float32
CHUNK = 2**22  # entries of per-example gradients held at once: 16 MiB
HELD = 2**26  # entries of patches or moments held at once: 256 MiB
STRIP = 32  # rows of A_i taken together
# What an entry's way through memory costs, in operations of a matrix product (measured on two CPU cores).
ENTRY = 64  # of a tile
FORMED = 2000  # of A_i, new memory written three times


class LayerKernel:
    """Kernel of one layer with weights (o, d).

    inputs : (n, d), or (n, C, H, W) for a convolution
    gradients : (k, n, o), or (k, n, o, H', W') for a convolution
    unfold : for a convolution, the arguments of ``functional.unfold``, which takes inputs to (n, d, P)
    All on one device, of one floating-point dtype.
    """

    def __init__(self, inputs, gradients, unfold=None):
        self.inputs = inputs
        self.gradients = gradients.reshape(*gradients.shape[:3], -1)
        self.unfold = unfold
        self.k, self.n, self.o, self.positions = self.gradients.shape
        self.d = self._patches(slice(0, 1), inputs.dtype).shape[1]

    def _patches(self, examples, dtype):
        """(t, d, P)"""
        some = self.inputs[examples].to(dtype)
        return some[..., None] if self.unfold is None else functional.unfold(some, **self.unfold)

    def _blocks(self, size):
        return [slice(start, min(start + size, self.n)) for start in range(0, self.n, size)]

    def projections(self, target):
        """Row means K1 / nk, (k, n) float64, and ‖Σ_ia y_ia ∂f_a(x_i)/∂W‖² = yᵀKy, for y (k, n) float64.

        Both are sums of gradients, taken in float64, and need no kernel.
        """
        weights = torch.stack([torch.ones_like(target), target])
        totals = torch.zeros(2, self.o, self.d, dtype=torch.float64, device=target.device)
        blocks = self._blocks(max(1, HELD // 8 // (self.positions * (self.k * self.o + self.d))))

        @lru_cache(1)  # a layer that is one block is converted once
        def wide(number):
            patches = self._patches(blocks[number], torch.float64).mT.flatten(0, 1)  # (t P, d)
            return patches, self.gradients[:, blocks[number]].double()

        for number, block in enumerate(blocks):
            patches, gradients = wide(number)
            mixed = torch.einsum("vat,atop->votp", weights[:, :, block], gradients)
            totals += mixed.flatten(2) @ patches
        means = []
        for number in range(len(blocks)):
            patches, gradients = wide(number)
            through = (patches @ totals[0].T).view(-1, self.positions, self.o)  # (t, P, o)
            means.append(torch.einsum("atop,tpo->at", gradients, through))
        return torch.cat(means, dim=1) / (self.k * self.n), float(totals[1].square().sum())

    def route(self):
        """The cheapest of ``grams``, ``gradients``, ``moments``: operations per pair of examples."""
        k, o, d, positions = self.k, self.o, self.d, self.positions
        costs = {
            "grams": positions**2 * (k**2 * (2 * o + ENTRY) + 2 * d),
            "gradients": 2 * k * o * d * (k + 2 * positions / self.n) + k**2 * ENTRY,
        }
        if positions == 1:
            costs["moments"] = o * o * (1 + FORMED / self.n) + 2 * d
        return min(costs, key=costs.get)

    def squares(self, dtype=None, route=None):
        """Σ K², a float, with products in ``dtype`` (that of the gradients by default), summed in float64."""
        dtype = dtype or self.gradients.dtype
        return getattr(self, f"_{route or self.route()}")(dtype)

    def _grams(self, dtype):
        if self.inputs.is_cuda and self.positions == 1:
            return float(squared_sum(self.inputs.to(dtype), self.gradients[..., 0].to(dtype).movedim(0, 1)))
        size = max(1, math.isqrt(TILE) // (self.k * self.positions))
        total = torch.zeros((), dtype=torch.float64, device=self.inputs.device)
        blocks = self._blocks(size)
        # New memory for every tile would cost more than its product.
        held = self.inputs.new_empty((min(size, self.n) * self.k * self.positions) ** 2, dtype=dtype)
        for number, first in enumerate(blocks):
            rows = self._signals(first, dtype)
            for second in blocks[number:]:
                columns = rows if second == first else self._signals(second, dtype)
                total += (1 if second == first else 2) * self._gram_tile(*rows, *columns, held)
        return float(total)

    def _signals(self, block, dtype):
        """Patches (t, P, d) and gradients (k, t, P, o) of some examples, contiguous."""
        patches = self._patches(block, dtype).movedim(1, 2).contiguous()
        return patches, self.gradients[:, block].to(dtype).movedim(2, 3).contiguous()

    def _gram_tile(self, u, g, v, e, held):
        """Σ K² over the pairs of some examples with some others, float64."""
        (t, positions, _), (s, _, _), k = u.shape, v.shape, self.k
        shape = (k * t * positions, k * s * positions)
        tile = torch.mm(g.flatten(0, 2), e.flatten(0, 2).T, out=held[: math.prod(shape)].view(shape))
        tile = tile.view(k, t, positions, k, s, positions)
        tile *= (u.flatten(0, 1) @ v.flatten(0, 1).T).view(t, positions, 1, s, positions)
        tile = tile.view(k * t, k * s) if positions == 1 else tile.sum(5).sum(2).view(k * t, k * s)
        return _squared_norm(tile)

    def _gradients(self, dtype):
        size = min(math.isqrt(TILE) // self.k, HELD // (self.d * self.positions))
        total = torch.zeros((), dtype=torch.float64, device=self.inputs.device)
        blocks = self._blocks(max(1, size))
        for number, first in enumerate(blocks):
            u = self._patches(first, dtype).mT  # (t, P, d)
            for second in blocks[number:]:
                v = u if second == first else self._patches(second, dtype).mT
                tile = torch.zeros(len(u) * self.k, len(v) * self.k, dtype=dtype, device=u.device)
                step = max(1, CHUNK // (max(tile.shape) * self.d))
                for start in range(0, self.o, step):
                    channels = slice(start, start + step)
                    rows = self._per_example(first, channels, u)
                    columns = rows if second == first else self._per_example(second, channels, v)
                    tile.addmm_(rows, columns.T)
                total += (1 if second == first else 2) * _squared_norm(tile)
        return float(total)

    def _per_example(self, block, channels, patches):
        """∂f_a(x_i)/∂W of some examples and rows of W, (t k, rows · d)."""
        gradients = self.gradients[:, block, channels].to(patches.dtype).movedim(0, 1)  # (t, k, rows, P)
        held = gradients.flatten(1, 2) @ patches
        return held.view(len(patches) * self.k, -1)

    def _moments(self, dtype):
        h, g = self.inputs.to(dtype), self.gradients[..., 0].to(dtype).movedim(0, 1).contiguous()  # (n, k, o)
        total = torch.zeros((), dtype=torch.float64, device=h.device)
        blocks = self._blocks(max(1, math.isqrt(TILE)))
        for moments in self._moment_chunks(g):
            for number, first in enumerate(blocks):
                for second in blocks[number:]:
                    tile = (h[first] @ h[second].T).square_().mul_(moments[first] @ moments[second].T)
                    total += (1 if second == first else 2) * tile.sum(1).double().sum()
        return float(total)

    def _moment_chunks(self, g):
        """A_i = Σ_a g_ia g_iaᵀ in pieces (n, m): the upper triangle, off-diagonal entries times √2."""
        held, columns = [], 0
        for start in range(0, self.o, STRIP):
            strip = g[:, :, start:].mT[:, :STRIP] @ g[:, :, start:]  # (n, strip, o - start)
            strip[:, :, strip.shape[1] :] *= math.sqrt(2)  # the square on the diagonal is whole
            strip = strip.flatten(1)
            if held and (columns + strip.shape[1]) * self.n > HELD:
                yield torch.cat(held, dim=1)
                held, columns = [], 0
            held.append(strip)
            columns += strip.shape[1]
        yield torch.cat(held, dim=1)


def _squared_norm(tile):
    """Short sums in the tile's precision, the rest in float64."""
    return torch.linalg.vector_norm(tile, dim=1).double().square().sum()
