"""Section 6.1's network: f(x) = a' σ(W' x) / sqrt(m), a fixed at ±1, W trained by gradient descent.

Weights are kept as (m, d), one row a hidden unit, in float64. The inputs of an experiment span few
directions; weights orthogonal to them neither move nor act, so :func:`in_span` drops them exactly.
"""

import math

import torch

from alignbook.errors import require_finite

BLOCK = 2048  # hidden units taken at once: their pre-activations stay in a core's cache


def in_span(x):
    """Coordinates of the rows of x (n, d) in an orthonormal basis of what they span: (n, min(n, d))."""
    return x @ torch.linalg.qr(x.T)[0]


def draw(dimension, width, scale, generator):
    """(weights (width, dimension) from N(0, scale²), signs (width,) ±1), float64, on its device."""
    options = {"generator": generator, "device": generator.device}
    weights = torch.randn(width, dimension, dtype=torch.float64, **options) * scale
    signs = torch.randint(0, 2, (width,), **options).to(torch.float64) * 2 - 1
    return weights, signs


def outputs(weights, signs, x):
    """f at the rows of x (n, d): (n,) float64."""
    total = torch.zeros(len(x), dtype=weights.dtype, device=weights.device)
    for block, sign in zip(weights.split(BLOCK), signs.split(BLOCK), strict=True):
        total += sign @ (block @ x.T).relu_()
    return total / math.sqrt(len(weights))


def activation_gradient(signs, found, y):
    """Squared norm of ∂L/∂X¹ = a (u - y)' / sqrt(m), Equations 13 and 14: float.

    signs : (m,); found : (n,), the outputs u; y : (n,).
    """
    return float(signs.square().mean() * (found - y).square().sum())


def descend(weights, signs, x, y, *, rate, tolerance, steps):
    """Full-batch gradient descent on L = |u - y|² / 2 from ``weights``, which stay as they are.

    x : (n, d); y : (n,); rate : η; stops when |u - y| ≤ tolerance |y|, after ``steps`` steps at most

    Returns (weights (m, d), losses): losses is |u(k) - y|² for k = 0, 1, ..., float64 (steps taken + 1,).
    Raises Diverged when the loss stops being finite.
    """
    scaled = signs[:, None] * (rate / math.sqrt(len(signs)))
    moved = torch.zeros(len(weights), len(x), dtype=weights.dtype, device=weights.device)
    start = weights @ x.T  # (m, n) pre-activations; those of W + moved @ x are start + moved @ gram
    current, gram = start.clone(), x @ x.T
    blocks = [part.split(BLOCK) for part in (moved, start, current, signs, scaled)]
    losses, error = [], outputs(weights, signs, x) - y
    for step in range(steps + 1):
        losses.append(float(error.square().sum()))
        require_finite(losses[-1], step)
        if losses[-1] <= tolerance**2 * float(y.square().sum()) or step == steps:
            break
        found = torch.zeros_like(error)
        for shift, first, now, sign, factor in zip(*blocks, strict=True):
            shift.addcmul_(now.gt_(0).mul_(error), factor, value=-1)  # in place: memory is what takes time
            torch.addmm(first, shift, gram, out=now)
            found += sign @ now.relu()
        error = found / math.sqrt(len(signs)) - y
    return weights + moved @ x, torch.tensor(losses, dtype=torch.float64)
