"""The sums of :class:`alignbook.kernels.layer_kernel.LayerKernel` for a linear layer on a CPU, faster.

The rows of a tile are examples that lie behind one another for one output (for several, where examples are
few), so that they need no copy, and the product of their inputs serves every pair of outputs as it is; of a
tile on the diagonal only three quarters are formed; and projections are in float64 only where they must be.

Reference: LayerKernel, in the test.
"""

import math
from itertools import combinations, combinations_with_replacement, product

import torch

from .layer_kernel import TILE, LayerKernel, _squared_norm


class LinearKernel(LayerKernel):
    """Kernel of a linear layer with weights (o, d).

    inputs : (n, d); gradients : (k, n, o), best contiguous; of one device and floating-point dtype.
    """

    def projections(self, target, dtype=torch.float64):
        """As :meth:`LayerKernel.projections`, with products in ``dtype``."""
        inputs, gradients = self.inputs.to(dtype), self.gradients[..., 0].to(dtype)
        mixed = inputs.new_zeros(2, self.n, self.o)  # Σ_a g_ia and Σ_a y_ia g_ia
        for gradient, weights in zip(gradients, target.to(dtype), strict=True):
            mixed[0] += gradient
            mixed[1].addcmul_(gradient, weights[:, None])
        totals = mixed.mT @ inputs
        means = torch.linalg.vecdot(gradients, inputs @ totals[0].T)
        return means.double() / (self.k * self.n), float(totals[1].double().square().sum())

    def _grams(self, dtype):
        if self.inputs.is_cuda:
            return super()._grams(dtype)
        inputs, gradients = self.inputs.to(dtype), self.gradients[..., 0].to(dtype).contiguous()
        side = max(1, math.isqrt(TILE))
        examples = _slices(self.n, side)
        outputs = _slices(self.k, max(1, side // self.n))  # several together only if examples are one block
        together = outputs[0].stop
        held = gradients.new_empty((together * examples[0].stop) ** 2)  # new memory costs more than a product
        total = torch.zeros((), dtype=torch.float64, device=inputs.device)
        for these, others in combinations_with_replacement(examples, 2):
            of_inputs = (inputs[these] @ inputs[others].T).repeat(together, together)
            for a, b, rows, columns, weight in _tiles(outputs, these.stop - these.start, these == others):
                first = gradients[a, these].flatten(0, 1)[rows]
                second = gradients[b, others].flatten(0, 1)[columns]
                shape = len(first), len(second)
                tile = torch.mm(first, second.T, out=held[: math.prod(shape)].view(shape))
                tile.mul_(of_inputs[rows, columns][: shape[0], : shape[1]])
                total += weight * _squared_norm(tile)
        return float(total)


def _slices(n, most):
    """0 … n - 1 in slices of nearly equal length, the first the longest, at most ``most``."""
    count = -(-n // most)
    bounds = [n - n * (count - i) // count for i in range(count + 1)]
    return [slice(*pair) for pair in zip(bounds, bounds[1:], strict=False)]


def _tiles(outputs, length, symmetric):
    """(outputs a, outputs b, rows, columns, weight): what to form for two blocks of ``length`` examples."""
    whole = slice(None)
    if not symmetric:
        yield from ((a, b, whole, whole, 2) for a, b in product(outputs, repeat=2))
        return
    yield from ((a, b, whole, whole, 2) for a, b in combinations(outputs, 2))
    for a in outputs:
        middle = (a.stop - a.start) * length // 2
        low, high = slice(0, middle), slice(middle, (a.stop - a.start) * length)
        if middle:
            yield a, a, low, low, 1
            yield a, a, low, high, 2
        yield a, a, high, high, 1
