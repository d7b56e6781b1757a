"""The Gram matrix H^∞ of a wide two-layer ReLU network, and what two tasks share under it.

For inputs on the unit sphere with inner product c (ICLR 2020 submission, Section 6.1),

    H^∞(x, x') = E_{w ~ N(0, I)}[c 1{w'x ≥ 0} 1{w'x' ≥ 0}] = c (π - arccos c) / (2π).

The scale of w cancels. Everything is computed in float64.
"""

import math

import torch

ON_SPHERE = 1e-6  # how far a norm may lie from 1
ALIKE = 1e-7  # of 1/2, what H^∞ must leave of an input when the others are known; arccos rounds near 1


def relu_gram(x, other=None):
    """H^∞ between two sets of inputs: float64 tensor (n, k).

    x : (n, d) tensor, rows of norm 1; other : (k, d) tensor, rows of norm 1, by default ``x``
    Raises ValueError for rows that are not on the unit sphere.
    """
    x = _on_sphere(x)
    c = (x @ (x if other is None else _on_sphere(other)).T).clamp(-1, 1)
    return c * (math.pi - torch.arccos(c)) / (2 * math.pi)


def transformed_labels(x_p, y_p, x_q):
    """y_{P→Q} = H_PQ^∞' (H_P^∞)^{-1} y_P (Section 6.1): P's labels carried to Q's inputs; (n_Q,) float64.

    x_p : (n_P, d), x_q : (n_Q, d), rows of norm 1; y_p : (n_P,), or (n_P, k) for k labellings.
    Raises ValueError when H_P^∞ is singular.
    """
    return relu_gram(x_p, x_q).T @ solve(relu_gram(x_p), y_p)


def gradient_term(y_q, transformed):
    """-y_Q'y_Q + |y_Q - y_{P→Q}|² (Theorem 1): float, the change of the squared gradient as m → ∞, κ → 0."""
    y_q = y_q.to(torch.float64)
    return float((y_q - transformed).square().sum() - y_q.square().sum())


def deviation_bound(x_q, gap):
    """sqrt(gap' (H_Q^∞)^{-1} gap) (Theorem 2): float, of |W(Q) - W(P)|_F; gap : (n_Q,), y_Q - y_{P→Q}."""
    gap = gap.to(torch.float64)
    return math.sqrt(float(gap @ solve(relu_gram(x_q), gap)))


def solve(gram, right):
    """gram^{-1} right by Cholesky; ValueError when ``gram`` (n, n) is, nearly, singular."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if failed or factor.diagonal().min() ** 2 < ALIKE:
        raise ValueError("the Gram matrix is singular: are two inputs the same, or opposite?")
    right = right.to(torch.float64)
    column = right[:, None] if right.ndim == 1 else right
    return torch.cholesky_solve(column, factor).reshape(right.shape)


def _on_sphere(x):
    x = x.to(torch.float64)
    if not torch.allclose(x.norm(dim=1), torch.ones((), dtype=x.dtype), rtol=0, atol=ON_SPHERE):
        raise ValueError("H^∞ is defined here for inputs of norm 1")
    return x
