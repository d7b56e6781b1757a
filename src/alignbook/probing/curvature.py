"""The Hessian of the loss: its eigenvalues of largest magnitude and its trace."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos
from alignbook.seeding import torch_stream

from . import budget
from .errors import DoesNotApply, OutOfTime

K = 5
BASIS = 60  # vectors, where memory allows
EXTRA = 10  # that a basis has beyond k at least
BESIDE = 4  # vectors beside the basis
PRODUCTS = 80  # with the Hessian at most, for the eigenvalues
FEWEST = 20
TRACE = 10  # products for the trace
TOLERANCE = 1e-2
SYMMETRIC = 1e-2  # of a product's length by which uᵀ H v and vᵀ H u may differ: far above rounding


@dataclass(frozen=True)
class Plan:
    """n examples of ``fit`` that fit into memory, k eigenvalues from ``basis`` vectors and ``products``."""

    n: int
    fit: int
    k: int = K
    basis: int = BASIS
    products: int = PRODUCTS

    def note(self):
        """What was made smaller, to be added to a line."""
        smaller = ""
        if self.basis < BASIS:
            smaller += f"; {self.k} eigenvalues from {self.basis} vectors, for memory"
        if self.products < PRODUCTS:
            smaller += f"; {self.products} products with the Hessian instead of {PRODUCTS}, for time"
        return smaller


def hessian(network, task, rows, batch=None, least=1):
    """The product with the Hessian of these examples' loss. Raises DoesNotApply for odd parameters."""
    kinds = {p.dtype: name for name, p in network.model.named_parameters() if p.requires_grad}
    odd = [kind for kind in kinds if kind not in (torch.float32, torch.float64)] or list(kinds)[1:]
    if odd:
        what = f"{kinds[odd[0]]} is {odd[0]}".replace("torch.", "")
        raise DoesNotApply(f"parameters must be all float32 or all float64, and {what}")
    if not kinds:
        raise DoesNotApply("no parameter of the network trains (parameters='all' takes all of them)")
    targets = task.targets[rows.to(task.targets.device)]
    return HessianProduct(network, task.loss, rows, targets, batch or len(rows), least)


def curvature(network, task, rows, seed, plan, until=math.inf):
    """The eigenvalues of largest magnitude of the loss's Hessian and its trace (ICLR 2020, Figure 3a).

    Returns one row per eigenvalue: ``index`` from 1, ``eigenvalue``, ``residual``, ``converged``; and in all
    rows ``trace``, ``trace_low`` and ``trace_high`` (95 % interval over random vectors of signs, Hutchinson
    1990), ``trace_vectors``.
    """
    product = hessian(network, task, rows, least=plan.k + 1)
    if product.total <= 10 * plan.k:
        raise DoesNotApply("the network has too few parameters")

    def timed(vector):
        if budget.clock() > until:
            raise OutOfTime("the time is over (--minutes)")
        return product(vector)

    pairs = lanczos(
        timed, product.size, plan.k, TOLERANCE, plan.basis, plan.products, seed, product.dtype, product.device
    )
    values, residuals, converged = pairs.values, pairs.residuals, pairs.converged
    del pairs
    columns = {"index": range(1, len(values) + 1), "eigenvalue": values, "residual": residuals}
    table = pd.DataFrame(columns).assign(converged=converged, **trace(timed, product, seed))
    line = asymmetry(timed, product, seed)
    table.attrs["said"] = [line] if line else []
    return table


def asymmetry(apply, product, seed=0):
    """A line where the product is that of no symmetric matrix, as every Hessian is; else None.

    For two vectors u and v of random signs it compares uᵀ H v with vᵀ H u.
    """
    draw = torch_stream(seed, "probe", "symmetry")
    u, v = (_signs(product, draw) for _ in range(2))
    along_v = apply(v)
    one, length = float(u @ along_v), float(along_v.norm())
    along_v = apply(u)
    other, length = float(v @ along_v), max(length, float(along_v.norm()))
    if abs(one - other) <= SYMMETRIC * length:
        return None
    return (
        f"the Hessian is not symmetric (uᵀHv = {one:.4g}, vᵀHu = {other:.4g} for random vectors), so that "
        "eigenvalues mean little: some function in the network has another one's derivative, as "
        "straight-through functions have"
    )


def _signs(product, draw):
    signs = torch.randint(2, (product.size,), generator=draw).to(product.dtype).mul_(2).sub_(1)
    return signs.to(product.device)


def trace(apply, product, seed, count=TRACE):
    """{trace, trace_low, trace_high, trace_vectors}: the mean of vᵀ H v over vectors v of random signs."""
    from scipy.special import stdtrit

    draw, products = torch_stream(seed, "probe", "trace"), []
    for _ in range(count):
        signs = _signs(product, draw)
        products.append(float(signs @ apply(signs)))
    middle, spread = np.mean(products), np.std(products, ddof=1) / math.sqrt(count)
    wide = float(stdtrit(count - 1, 0.975)) * spread
    return {"trace": middle, "trace_low": middle - wide, "trace_high": middle + wide, "trace_vectors": count}


def planned(network, task, rows, seed, seconds, limits):
    """:class:`Plan` for these examples, from the time and memory of one product on a few of them."""
    total = sum(p.numel() for p in network.parameters() if p.requires_grad)
    basis = min(BASIS, int(limits.memory / (4 * max(total, 1))) - BESIDE)
    if basis < 1 + EXTRA:
        held = budget.gigabytes(4 * total * (1 + EXTRA + BESIDE))
        raise DoesNotApply(
            f"{1 + EXTRA + BESIDE} vectors of {total:,} parameters take {held}, more than "
            f"{budget.gigabytes(limits.memory)} (--memory)"
        )
    rows = task.labelled(rows)
    if not len(rows):
        raise DoesNotApply("none of these examples has a class")
    few = min(budget.LEAST, len(rows))
    took, held = product_cost(network, task, budget.spread(rows, few), seed)
    fit = n = limits.fits(held, len(rows))
    while limits.examples is None and n > few and took * n / few * (PRODUCTS + TRACE) > seconds:
        n = max(few, n // 2)
    products = seconds / max(took * n / few, 1e-9) - TRACE
    return Plan(n, fit, min(K, basis - EXTRA), basis, int(min(max(products, FEWEST), PRODUCTS)))


def product_cost(network, task, rows, seed):
    """(seconds of one product with the Hessian of these examples, bytes that its graph keeps of each)."""
    saved = {}

    def keep(tensor):
        saved[tensor.data_ptr()] = max(
            saved.get(tensor.data_ptr(), 0), tensor.numel() * tensor.element_size()
        )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        product = hessian(network, task, rows)
    own = {p.data_ptr() for p in network.parameters()}
    vector = torch.randn(product.size, generator=torch_stream(seed, "probe", "cost")).to(product.device)
    product(vector)  # the first may have to wake things up
    start = budget.clock()
    product(vector).norm().item()
    return budget.clock() - start, sum(v for at, v in saved.items() if at not in own) / len(rows)
