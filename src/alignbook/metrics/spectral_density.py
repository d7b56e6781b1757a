"""The density of the spectrum of a loss's Hessian, by stochastic Lanczos quadrature."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from alignbook.kernels.gauss_newton_product import GaussNewtonProduct
from alignbook.kernels.hessian_product import HessianProduct

from .checks import integer
from .evaluation import evaluation_mode

MATRICES = ("hessian", "gauss-newton")


@dataclass(frozen=True)
class SpectralDensity:
    """Where the eigenvalues lie: a sum of points with weights, one set of them for each random vector.

    Attributes
    ----------
    nodes : (vectors, steps) float64 array
        Ritz values; the outermost ones are close to the extreme eigenvalues.
    weights : (vectors, steps) float64 array
        Which share of the eigenvalues each stands for; those of a vector add up to 1.
    parameters : int
        How many eigenvalues there are.
    """

    nodes: np.ndarray
    weights: np.ndarray
    parameters: int

    def on(self, grid, width):
        """(points,) the density on a grid, smoothed by Gaussians of this standard deviation."""
        apart = (np.asarray(grid, float)[:, None, None] - self.nodes) / width
        peaks = np.exp(-(apart**2) / 2) / (width * math.sqrt(2 * math.pi))
        return (peaks * self.weights).sum(2).mean(1)

    @property
    def trace(self):
        """An estimate of the sum of all eigenvalues."""
        return float(self.parameters * (self.nodes * self.weights).sum(1).mean())


@torch.inference_mode(False)
def spectral_density(
    model, loss, inputs, targets, vectors=10, steps=40, matrix="hessian", batch_size=256, seed=0
):
    """The density of the eigenvalues of the loss's Hessian, or of its Gauss-Newton matrix.

    Parameters
    ----------
    model : torch.nn.Module
        Parameters in float32 or float64; measured in evaluation mode, left as it was.
    loss : callable
        ``loss(outputs, targets)`` returns a scalar, as :func:`alignbook.hessian_eigenvalues` takes it.
    inputs, targets : (n, …) tensors
        On the model's device. :func:`alignbook.spectral_density` also takes data as
        :func:`alignbook.probe` does, and then a ``loss`` of None: the one that the probe measures.
    vectors : int
        How many random vectors the quadrature starts from: their spread shows how sure it is.
    steps : int
        Of Lanczos from each vector: as many points as the density of one vector has.
    matrix : {"hessian", "gauss-newton"}
        The Gauss-Newton matrix has no negative eigenvalues; for cross-entropy it is the Fisher matrix. It
        takes all examples at once.
    batch_size : int
        Examples per pass, for the Hessian.
    seed : int
        Of the random vectors.

    Returns
    -------
    SpectralDensity

    Raises
    ------
    ValueError
        For arguments out of range, and where :func:`alignbook.hessian_eigenvalues` raises it.

    Notes
    -----
    A vector of random signs has the same square in every eigendirection on average; Lanczos from it gives the
    nodes and weights of a Gauss quadrature of the eigenvalues (https://arxiv.org/abs/1901.10159). Lanczos is
    fully reorthogonalised, so that no eigenvalue comes up twice.

    Cost: vectors · steps products, each two to four gradients. Memory: steps · parameters numbers, and the
    graph of one batch.

    Examples
    --------
    >>> import torch
    >>> from alignbook import spectral_density
    >>> model = torch.nn.Linear(2, 1, bias=False).double()
    >>> inputs = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> loss = torch.nn.functional.mse_loss  # its Hessian is XᵀX here: diag(1, 4)
    >>> found = spectral_density(model, loss, inputs, torch.zeros(2, 1).double(), vectors=1, steps=2)
    >>> print(found.nodes.round(3), found.weights.round(3), round(found.trace, 3))
    [[1. 4.]] [[0.5 0.5]] 5.0
    """
    for name, value in (("vectors", vectors), ("steps", steps), ("batch_size", batch_size)):
        integer(value, name, 1)
    if matrix not in MATRICES:
        raise ValueError(f"matrix must be one of {', '.join(MATRICES)}, not {matrix!r}")
    with evaluation_mode(model), torch.autocast(inputs.device.type, enabled=False):
        if matrix == "hessian":
            product = HessianProduct(model, loss, inputs, targets, batch_size, least=10**18)  # all directions
        else:
            product = GaussNewtonProduct(model, loss, inputs, targets)
        generator = torch.Generator().manual_seed(seed)
        pairs = [_quadrature(product, min(steps, product.total), generator) for _ in range(vectors)]
    steps = max(len(nodes) for nodes, _ in pairs)
    padded = [[np.pad(v, (0, steps - len(v)), mode="edge" if not i else "constant") for i, v in enumerate(p)]
              for p in pairs]  # fmt: skip
    nodes, weights = (np.stack(values) for values in zip(*padded, strict=True))
    return SpectralDensity(nodes, weights, product.total)


def _quadrature(product, steps, generator):
    """(nodes, weights) of one random vector: Lanczos that stops where nothing new is left."""
    signs = torch.randint(2, (product.size,), generator=generator) * 2.0 - 1
    vector = (signs / product.size**0.5).to(product.device, product.dtype)
    rows = torch.empty(steps, product.size, dtype=product.dtype, device=product.device)
    diagonal, beside = [], []
    for i in range(steps):
        rows[i] = vector
        following = product(vector)
        diagonal.append(float(following @ vector))
        for _ in range(2):
            following = following - rows[: i + 1].T @ (rows[: i + 1] @ following)
        length = float(following.norm())
        if not math.isfinite(length):
            raise ValueError("a product with the matrix has entries that are not finite")
        if i + 1 == steps or length <= 10 * torch.finfo(product.dtype).eps * max(map(abs, diagonal)):
            break
        beside.append(length)
        vector = following / length
    size = len(diagonal)
    values, turn = np.linalg.eigh(
        np.diag(diagonal) + np.diag(beside[: size - 1], 1) + np.diag(beside[: size - 1], -1)
    )
    return values, turn[0] ** 2
