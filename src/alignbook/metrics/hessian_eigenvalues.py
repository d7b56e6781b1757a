"""Largest eigenvalues of the Hessian of a loss (ICLR 2020 submission on transferability, Figure 3a)."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch

from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos

from .checks import integer
from .evaluation import evaluation_mode


@dataclass(frozen=True)
class HessianEigenvalues:
    """The eigenvalues of largest magnitude, and how well they are known.

    eigenvalues : (k,) float64, signed, |λ₁| ≥ |λ₂| ≥ …; residuals : (k,) float64, ‖H v - λ v‖ of each, so
    that some eigenvalue lies within that distance of it; eigenvectors : (k, parameters) tensor in the
    model's precision, unit rows, entries in the order of ``model.parameters()`` (those that require
    gradients); products : how many Hessian-vector products it took; converged : whether all met the
    tolerance.
    """

    eigenvalues: np.ndarray
    residuals: np.ndarray
    eigenvectors: torch.Tensor
    products: int
    converged: bool


@torch.inference_mode(False)  # also where the caller is in it
def hessian_eigenvalues(
    model, loss, inputs, targets, k=20, tol=1e-3, batch_size=256, basis=None, max_products=2000, seed=0
):
    """The k eigenvalues of largest magnitude of H = ∇² L(θ), L the mean loss over the examples.

    θ are all parameters that require gradients, H is exact, not the Gauss-Newton matrix. Figure 3a of the
    paper shows the top 20, found by power iteration (its Appendix A), which is by magnitude: a negative
    eigenvalue counts, and keeps its sign. At a minimum these are the largest ones.

    model : network with float32 or float64 parameters; measured in evaluation mode, left as it was.
    loss : callable (outputs, targets) → scalar, twice differentiable, the plain mean over examples (like
    ``torch.nn.functional.cross_entropy``); where all fit in one batch it is taken as it is.
    inputs, targets : tensors (n, …) on the model's device.
    k : 1 ≤ k < number of parameters.
    tol : converged where ‖H v - λ v‖ ≤ tol |λ| for all k (or ≤ 10 rounding units of |λ₁|, if larger). The
    error of an eigenvalue is of the order tol² |λ|, if it lies apart from the others. Where training has
    brought a float32 loss near its rounding, products are noise, and residuals say so: use float64.
    batch_size : examples per pass. Where all fit in one batch its graph is kept, and a linear layer on
    fewer examples than it has features is measured on their span, exactly (see
    :mod:`alignbook.kernels.hessian_product`); else every product goes through all batches. Memory is that
    of one batch in either case. The paper's landscapes use 256 examples; for eigenvalues it does not say.
    basis : most vectors held, ≥ k + 10; None: 3k, at least 60. (5k saved at most a twentieth of the products
    on the spectra tried, and made each dearer.) Memory is about (basis + 4) · parameters numbers.
    max_products : > k; after that many Hessian-vector products the result is returned with ``converged``
    False and the residuals reached.
    seed : of the starting vectors. Same seed and machine, same result.

    Lanczos with full reorthogonalisation and thick restarts: :func:`alignbook.kernels.lanczos.lanczos`,
    which says how repeated eigenvalues are found.
    Returns :class:`HessianEigenvalues`. Raises ValueError for arguments out of range, a model without
    parameters that require gradients, a loss that is no scalar, values that are not finite, eigenvalues below
    the normal range of the model's precision and, in several batches, a loss that is no plain mean or a model
    that mixes examples.
    """
    integer(k, "k", 1)
    integer(max_products, "max_products", 1)
    integer(seed, "seed", 0)
    integer(k + 10 if basis is None else basis, "basis", 1)
    if not isinstance(tol, Real) or not 0 < tol < 1:
        raise ValueError(f"tol must be a number between 0 and 1, not {tol!r}")
    inputs, targets = (
        t.clone() if isinstance(t, torch.Tensor) and t.is_inference() else t for t in (inputs, targets)
    )
    kind = inputs.device.type if isinstance(inputs, torch.Tensor) else "cpu"
    with evaluation_mode(model), torch.autocast(kind, enabled=False):  # in the model's own precision
        product = HessianProduct(model, loss, inputs, targets, batch_size, least=k + 1)
        if k >= product.total:
            raise ValueError(f"k = {k} must be below the {product.total} parameters")
        basis = max(3 * k, 60) if basis is None else basis
        if basis < k + 10 or max_products <= k:  # restarts of a smaller basis may miss an eigenvalue
            raise ValueError(f"basis = {basis} and max_products = {max_products}: at least k + 10, above k")
        pairs = lanczos(
            product, product.size, k, tol, basis, max_products, seed, product.dtype, product.device
        )
        # Products with numbers below the normal range have lost their digits.
        if 0 < abs(pairs.values[0]) < torch.finfo(product.dtype).tiny * product.total**0.5:
            raise ValueError(
                f"the largest eigenvalue, {pairs.values[0]:.3g}, is too small for {product.dtype}: "
                "scale the loss up or use float64"
            )
        vectors = product.expand(pairs.vectors)
    return HessianEigenvalues(pairs.values, pairs.residuals, vectors, pairs.products, pairs.converged)
