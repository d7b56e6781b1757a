"""The Hessian of the loss: its eigenvalues of largest magnitude and its trace."""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos
from alignbook.seeding import torch_stream

from . import budget
from .errors import DoesNotApply, OutOfTime
from .network import HELD

K = 5
BASIS, LEAST_BASIS = 60, 11  # vectors; fewer of large networks, to stay within HELD
PRODUCTS = 60  # with the Hessian at most, for the eigenvalues
TRACE = 10  # products for the trace
TOLERANCE = 1e-2
SYMMETRIC = 1e-2  # of a product's length by which uᵀ H v and vᵀ H u may differ: far above rounding


def curvature(network, task, rows, seed, layers=None, k=K, tolerance=TOLERANCE, basis=BASIS, vectors=TRACE):
    """The eigenvalues of largest magnitude of the loss's Hessian and its trace (ICLR 2020, Figure 3a).

    Returns one row per eigenvalue: ``index`` from 1, ``eigenvalue``, ``residual``, ``converged``; and in all
    rows ``trace``, ``trace_low`` and ``trace_high`` (95 % interval over random ``vectors`` of signs,
    Hutchinson 1990), ``trace_vectors``; without vectors no trace.
    """
    rows = task.labelled(rows)
    if not len(rows):
        raise DoesNotApply("none of these examples has a class")
    size = sum(p.numel() for p in network.parameters() if p.requires_grad)
    basis = max(LEAST_BASIS, min(basis, int(HELD / (4 * max(size, 1)))))
    k = min(k, basis - LEAST_BASIS + 1)
    product = Product(network, task, rows, least=k + 1)
    if product.hessian.total <= 10 * k:
        raise DoesNotApply("the network has too few parameters")
    options = (tolerance, basis, PRODUCTS, seed, product.dtype, product.device)
    pairs = lanczos(product, product.size, k, *options)
    columns = {"index": range(1, k + 1), "eigenvalue": pairs.values, "residual": pairs.residuals}
    table = pd.DataFrame(columns).assign(converged=pairs.converged)
    del pairs  # its vectors, before the trace takes as many
    if vectors:
        table = table.assign(**trace(product, seed, vectors))
    line = asymmetry(product, seed)
    table.attrs["said"] = [line] if line else []
    return table


class Product:
    """v ↦ ∇²L v for the mean loss of these examples, until the network's time is over."""

    def __init__(self, network, task, rows, least=1):
        kinds = {p.dtype: name for name, p in network.model.named_parameters() if p.requires_grad}
        odd = [kind for kind in kinds if kind not in (torch.float32, torch.float64)] or list(kinds)[1:]
        if odd:
            what = f"{kinds[odd[0]]} is {odd[0]}".replace("torch.", "")
            raise DoesNotApply(f"parameters must be all float32 or all float64, and {what}")
        if not kinds:
            raise DoesNotApply("no parameter of the network trains (parameters='all' takes all of them)")
        targets = task.targets[rows.to(task.targets.device)]
        self.network = network
        self.hessian = HessianProduct(network, task.loss, rows, targets, len(rows), least)
        self.size, self.dtype, self.device = self.hessian.size, self.hessian.dtype, self.hessian.device

    def __call__(self, vector):
        if budget.clock() > self.network.until:
            raise OutOfTime("the time is over (--minutes)")
        return self.hessian(vector)


def asymmetry(product, seed=0):
    """A line where the product is that of no symmetric matrix, as every Hessian is; else None.

    For two vectors u and v of random signs it compares uᵀ H v with vᵀ H u.
    """
    draw = torch_stream(seed, "probe", "symmetry")
    u, v = (_signs(product, draw) for _ in range(2))
    along_v = product(v)
    one, length = float(u @ along_v), float(along_v.norm())
    along_u = product(u)
    other, length = float(v @ along_u), max(length, float(along_u.norm()))
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


def trace(product, seed, count):
    """{trace, trace_low, trace_high, trace_vectors}: the mean of vᵀ H v over vectors v of random signs."""
    from scipy.special import stdtrit

    draw, products = torch_stream(seed, "probe", "trace"), []
    for _ in range(count):
        signs = _signs(product, draw)
        products.append(float(signs @ product(signs)))
    middle, spread = np.mean(products), np.std(products, ddof=1) / math.sqrt(count)
    wide = float(stdtrit(count - 1, 0.975)) * spread
    return {"trace": middle, "trace_low": middle - wide, "trace_high": middle + wide, "trace_vectors": count}
