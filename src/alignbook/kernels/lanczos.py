"""The eigenvalues of largest magnitude of a symmetric operator: Lanczos, fully reorthogonalised."""

import math
from dataclasses import dataclass

import numpy as np
import torch

CHECK = 4  # steps between looks at the Ritz values: a look may cost as much as a step
PROBE = 10  # steps from a new random vector that must find nothing new
ROUNDING = 10  # residuals below this many roundings of the largest eigenvalue are zero
CHUNK = 2**16  # columns of the basis turned at once
TINY = 1e-12  # squares of shorter vectors' entries lose digits in float32


@dataclass(frozen=True)
class Eigenpairs:
    """The k pairs of largest |eigenvalue|, descending.

    values, residuals : (k,) float64; vectors : (k, size) tensor, orthonormal rows; products : how many with
    the operator it took; converged : whether all residuals, rounding included, met the tolerance and the
    last probe found nothing new.
    """

    values: np.ndarray
    residuals: np.ndarray
    vectors: torch.Tensor
    products: int
    converged: bool


def lanczos(product, size, k, tol, basis, max_products, seed, dtype, device):
    """k eigenvalues λ of largest |λ| of a symmetric operator H, with their vectors, as :class:`Eigenpairs`.

    product : callable, (size,) tensor → a new (size,) tensor; k : int, 1 ≤ k < size;
    tol : a pair is accepted at ‖H v - λ v‖ ≤ max(tol |λ|, 10 u |λ₁|), u the rounding unit of ``dtype``;
    basis : int ≥ k + 10, most vectors of the basis, so that memory is about (basis + 4) · size numbers;
    max_products : int > k, after which the best pairs so far are returned as not converged;
    seed : of the starting vectors, which are drawn on the CPU: the same on every device.

    Each product is orthogonalised against the last two basis vectors and then against all, once more where
    that shortened it by a third. The projected matrix is kept in full, in float64, not only its three
    diagonals: so a full basis may be restarted with its best Ritz vectors (thick restart, Wu and Simon
    2000) and extended by any other vector. That matters since a Krylov sequence sees one copy only of a
    repeated eigenvalue: when all k pairs are accepted they are kept, and a new sequence starts from a
    random vector, until one has made 10 steps and found nothing new. What is missed after that are copies
    less than about a fifth above |λ_k|.
    Residual norms are bounds from the recurrence, plus the rounding of the products: by how much the
    residual of the first pair, which a product of its own gives, is larger (root of squares).
    Raises ValueError where a product is not finite. Reference: ``numpy.linalg.eigh``, in the test.
    """
    basis = min(basis, size)
    unit = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(seed)
    rows = torch.empty(basis, size, dtype=dtype, device=device)  # orthonormal
    projected = np.zeros((basis, basis))  # rows · H · rowsᵀ, the upper triangle
    lost = np.zeros((0, basis))  # what H·rows has along the directions of sequences that were given up
    known = None  # the |values| accepted when this sequence began
    count = products = since = 0  # rows in use, products in all, and in this sequence
    following = _random(generator, rows[:0])
    while True:
        rows[count] = following
        count, products, since = count + 1, products + 1, since + 1
        vector = product(rows[count - 1])
        length = _orthogonalise(vector, rows[:count], projected[:count, count - 1])
        if not math.isfinite(length):
            raise ValueError("a product with the Hessian has entries that are not finite")
        if count == size:  # nothing is outside the span
            length, lost = 0.0, lost[:0]
        closed = length <= ROUNDING * unit * np.abs(projected[:count, :count]).max()
        full, last = count == basis, products >= max_products
        regular = since % CHECK == 0 if known is None else since >= PROBE and (since - PROBE) % CHECK == 0
        if count < k or not (closed or full or last or regular):
            following = _random(generator, rows[:count]) if closed else vector.div_(length)
            continue

        values, turn = _eigh(projected[:count, :count])
        order = np.argsort(-np.abs(values), kind="stable")
        values, turn = values[order], turn[:, order]
        outside = np.vstack([_times(lost[:, :count], turn), length * turn[-1:]])
        residuals = np.abs(outside[:, :k]).sum(0)
        magnitudes = np.abs(values[:k])
        allowed = np.maximum(tol * magnitudes, ROUNDING * unit * magnitudes[0])
        accepted = (residuals <= allowed).all()
        news = known is None or (magnitudes - known > allowed).any()
        done = bool(accepted and (count == size or (not news and since >= PROBE)))
        if done or last:
            _turn(rows, turn[:, :k])
            # What the residual of the first pair is in fact, beyond the recurrence's bound, is rounding.
            actual = _length(product(rows[0]).sub_(rows[0], alpha=values[0]))
            residuals += math.sqrt(max(actual**2 - residuals[0] ** 2, 0.0))
            converged = done and bool((residuals <= allowed).all())
            return Eigenpairs(values[:k], residuals, rows[:k].clone(), products + 1, converged)
        begin = accepted and news
        if begin or full:
            keep = k if begin else k + (count - k) // 2
            _turn(rows, turn[:, :keep])
            projected[:] = 0
            projected[range(keep), range(keep)] = values[:keep]
            lost = np.pad(outside[: len(outside) if begin else -1, :keep], ((0, 0), (0, basis - keep)))
            count = keep
        if begin:
            known, since = magnitudes, 0
        following = _random(generator, rows[:count]) if begin or closed else vector.div_(length)


# NumPy's BLAS has threads of its own, which keep waiting for more beside those of PyTorch's products.
def _eigh(upper):
    values, vectors = torch.linalg.eigh(torch.from_numpy(upper), UPLO="U")
    return values.numpy(), vectors.numpy()


def _times(a, b):
    return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()


def _orthogonalise(vector, rows, column):
    """Take the rows' span out of ``vector``, add what it had along them to ``column``; its new length."""
    passes = [rows[-2:], rows, rows, rows]
    before = math.inf
    for count, part in enumerate(passes):
        along = part @ vector
        vector.addmv_(part.T, along, alpha=-1)
        column[len(column) - len(part) :] += along.double().cpu().numpy()
        after = _length(vector)
        if count > 0 and not after < 0.7 * before:
            break
        before = after
    return after


def _random(generator, rows):
    """A random unit vector orthogonal to the rows."""
    vector = torch.randn(rows.shape[1], generator=generator).to(rows)
    for _ in range(2):
        vector -= rows.T @ (rows @ vector)
        vector /= _length(vector)
    return vector


def _length(vector):
    """Its ℓ₂ norm, a float; in float64 where squares may have left the range of float32."""
    length = vector.norm().item()
    if TINY < length < 1 / TINY:
        return length
    return torch.linalg.vector_norm(vector, dtype=torch.float64).item()


def _turn(rows, turn):
    """The first rows become turnᵀ · rows[: len(turn)], in place."""
    turn = torch.from_numpy(np.ascontiguousarray(turn.T)).to(rows)
    for block in rows.split(CHUNK, dim=1):
        block[: len(turn)] = turn @ block[: turn.shape[1]]
