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

    Attributes
    ----------
    eigenvalues : (k,) float64 array
        Signed, largest magnitude first.
    residuals : (k,) float64 array
        ‖H v - λ v‖ of each, so that some eigenvalue lies within that distance of it.
    eigenvectors : (k, parameters) tensor
        In the model's precision, unit rows, entries in the order of ``model.parameters()`` (those that
        require gradients).
    products : int
        How many Hessian-vector products it took.
    converged : bool
        Whether all met the tolerance.
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

    Parameters
    ----------
    model : torch.nn.Module
        Parameters in float32 or float64; measured in evaluation mode, left as it was. θ are all its
        parameters that require gradients.
    loss : callable
        ``loss(outputs, targets)`` returns a scalar, twice differentiable, the plain mean over examples
        (like ``torch.nn.functional.cross_entropy``); where all fit in one batch it is taken as it is.
    inputs, targets : (n, …) tensors
        On the model's device. :func:`alignbook.hessian_eigenvalues` also takes data as
        :func:`alignbook.probe` does, and then a ``loss`` of None: the one that the probe measures.
    k : int
        From 1 to below the number of parameters.
    tol : float
        Converged where ‖H v - λ v‖ ≤ tol abs(λ) for all k (or ≤ 10 rounding units of abs(λ₁), if larger). The
        error of an eigenvalue is of the order tol² abs(λ), if it lies apart from the others. Where training
        has brought a float32 loss near its rounding, products are noise, and residuals say so: use float64.
    batch_size : int
        Examples per pass. Where all fit in one batch its graph is kept, and a linear layer on fewer
        examples than it has features is measured on their span, exactly; else every product goes through all
        batches.
    basis : int, optional
        Most vectors held, at least k + 10; by default 3k, at least 60. (5k saved at most a twentieth of the
        products on the spectra tried, and made each dearer.)
    max_products : int
        Above k; after that many Hessian-vector products the result is returned with ``converged`` False and
        the residuals reached.
    seed : int
        Of the starting vectors. The same seed on the same machine gives the same result.

    Returns
    -------
    HessianEigenvalues

    Raises
    ------
    ValueError
        For arguments out of range, a model without parameters that require gradients, a loss that is no
        scalar, values that are not finite, eigenvalues below the normal range of the model's precision and,
        in several batches, a loss that is no plain mean or a model that mixes examples.

    Notes
    -----
    H is exact, not the Gauss-Newton matrix. Figure 3a of the ICLR 2020 submission shows the top 20, found
    by power iteration (its Appendix A), which is by magnitude: a negative eigenvalue counts, and keeps its
    sign. At a minimum these are the largest ones. Lanczos with full reorthogonalisation and thick restarts:
    :func:`alignbook.kernels.lanczos.lanczos`, which says how repeated eigenvalues are found.

    Cost: each Hessian-vector product takes about as long as two to four gradients, and there are some
    hundreds. Memory: (basis + 4) · parameters numbers, and one batch's graph.

    Examples
    --------
    >>> import torch
    >>> from alignbook import hessian_eigenvalues
    >>> model = torch.nn.Linear(2, 1, bias=False).double()
    >>> inputs = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> loss = torch.nn.functional.mse_loss  # its Hessian is XᵀX here: diag(1, 4)
    >>> found = hessian_eigenvalues(model, loss, inputs, torch.zeros(2, 1).double(), k=1)
    >>> print(found.eigenvalues.round(3), found.converged)
    [4.] True
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
