"""The Hessian of the loss: its eigenvalues of largest magnitude and its trace, in the memory there is."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos
from alignbook.seeding import torch_stream

from . import budget
from .errors import DoesNotApply, OutOfTime, TooLong

K = 5
BASIS = 60  # vectors, where memory allows
EXTRA = 10  # that a basis has beyond k at least
BESIDE = 4  # vectors beside the basis
ALONE = 6  # vectors that are held where there is no basis
PRODUCTS = 80  # with the Hessian at most, for the eigenvalues
FEWEST = 20
TRACE = 10  # products for the trace
SETTING_UP = 5  # as many products' time: the graph, its check, and the residual at the end
TOLERANCE = 1e-2
SYMMETRIC = 1e-2  # of a product's length by which uᵀ H v and vᵀ H u may differ: far above rounding
QUIET = 4  # steps without a basis after which an eigenvalue that no longer moves is taken


@dataclass(frozen=True)
class Plan:
    """n examples of ``fit`` that memory has room for, k eigenvalues, ``basis`` vectors (None: as many as are
    best; 0: none is kept) and at most so many ``products`` with the Hessian, which take ``seconds`` at most.
    """

    n: int
    fit: int
    k: int = K
    basis: int | None = None
    products: int = PRODUCTS
    seconds: float = math.inf

    def note(self, memory):
        """What else was made smaller, to be added to a line."""
        said, room = "", budget.gigabytes(memory)
        if self.basis == 0:
            said += f"; the top eigenvalue without a basis, one vector at a time, which fits into {room}"
        elif self.basis is not None:
            said += f"; {self.k} eigenvalues from {self.basis} vectors, which fit into {room}"
        if self.products < PRODUCTS:
            said += f"; {self.products} products with the Hessian instead of {PRODUCTS}, for time"
        return said


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
    1990), ``trace_vectors``. Where the plan has no basis, the eigenvalue is that of a Lanczos recurrence
    which keeps two vectors: copies of it may come up, which do not harm the largest.
    """
    product = hessian(network, task, rows, least=plan.k + 1)
    if product.total <= 10 * plan.k:
        raise DoesNotApply("the network has too few parameters")

    def timed(vector):
        if budget.clock() > until:
            raise OutOfTime("the time is over (--minutes)")
        return product(vector)

    if plan.basis == 0:
        values, residuals, converged = alone(timed, product, plan.products, seed)
    else:
        basis = max(3 * plan.k, BASIS) if plan.basis is None else plan.basis
        found = lanczos(
            timed, product.size, plan.k, TOLERANCE, basis, plan.products, seed, product.dtype, product.device
        )
        values, residuals, converged = found.values, found.residuals, found.converged
        del found
    columns = {"index": range(1, len(values) + 1), "eigenvalue": values, "residual": residuals}
    table = pd.DataFrame(columns).assign(converged=converged, **trace(timed, product, seed))
    line = asymmetry(timed, product, seed)
    table.attrs["said"] = [line] if line else []
    return table


def alone(apply, product, most, seed):
    """([λ], [residual], converged): the eigenvalue of largest magnitude, by Lanczos with two vectors kept."""
    vector = torch.randn(product.size, generator=torch_stream(seed, "probe", "lanczos"), dtype=product.dtype)
    vector = vector.to(product.device)
    vector.div_(vector.norm())
    before, length, diagonal, beside, last = torch.zeros_like(vector), 0.0, [], [], None
    while True:
        following = apply(vector)
        diagonal.append(float(following @ vector))
        following.sub_(vector, alpha=diagonal[-1]).sub_(before, alpha=length)
        length = float(following.norm())
        if not math.isfinite(length):
            raise ValueError("a product with the Hessian has entries that are not finite")
        values, turn = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        top = int(np.abs(values).argmax())
        value, residual = float(values[top]), length * abs(float(turn[-1, top]))
        steady = last is not None and abs(value - last) <= TOLERANCE * abs(value)
        done = residual <= TOLERANCE * abs(value) and steady and len(diagonal) >= QUIET
        if done or len(diagonal) >= min(most, product.size) or length == 0:
            return [value], [residual], bool(done or length == 0)
        last = value
        beside.append(length)
        before, vector = vector, following.div_(length)


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

    draw, found = torch_stream(seed, "probe", "trace"), []
    for _ in range(count):
        signs = _signs(product, draw)
        found.append(float(signs @ apply(signs)))
    middle, spread = np.mean(found), np.std(found, ddof=1) / math.sqrt(count)
    wide = float(stdtrit(count - 1, 0.975)) * spread
    return {"trace": middle, "trace_low": middle - wide, "trace_high": middle + wide, "trace_vectors": count}


def basis_of(parameters, memory):
    """(k, basis) whose vectors of so many float32 numbers fit into ``memory``; basis None: the best, 0: none.

    Raises DoesNotApply where not even the vectors of one product do.
    """
    vectors = int(memory / (4 * max(parameters, 1)))
    if vectors - BESIDE >= BASIS:
        return K, None
    k = min(K, vectors - BESIDE - EXTRA)
    if k >= 1:
        return k, vectors - BESIDE
    if vectors < ALONE:
        held = budget.gigabytes(4 * parameters * ALONE)
        raise DoesNotApply(
            f"{ALONE} vectors of {parameters:,} parameters take {held}, more than {budget.gigabytes(memory)} "
            "(--memory)"
        )
    return 1, 0


def planned_on(network, task, rows, seed, share, left, limits):
    """:class:`Plan` for these examples: the time and memory of a product are measured on 2 and 8."""
    total = sum(p.numel() for p in network.parameters() if p.requires_grad)
    k, basis = basis_of(total, limits.memory)
    rows, most, begun, times = task.labelled(rows), len(rows), budget.clock(), []
    if not most:
        raise DoesNotApply("none of these examples has a class")
    for n in sorted({min(budget.TRIAL, most), min(budget.LEAST, most)}):
        took, held = product_cost(network, task, budget.spread(rows, n), seed)
        if (
            not times and 1 < took < left / 4
        ):  # one product alone was measured, which may have had to start up
            took = min(took, product_cost(network, task, budget.spread(rows, n), seed)[0])
        times.append((n, took + _turning(total, BASIS if basis is None else basis, seed)))
        if times[0][1] * most / n * (PRODUCTS + TRACE + SETTING_UP) <= share:
            break  # though as much time went with each example, all fit
        fewest = times[0][1] * (FEWEST + TRACE + SETTING_UP)
        if fewest > left:
            raise TooLong(budget.too_long(f"{FEWEST + TRACE} products with the Hessian", fewest))
    fit = limits.fits(held, most)
    spent = budget.clock() - begun
    plan = planned(times, fit, share - spent, left - spent, fixed=limits.examples is not None)
    return replace(plan, k=k, basis=basis)


def planned(times, most, share, left, fixed=False):
    """:class:`Plan` from [(examples, seconds of a product), …]: examples give way first, unless ``fixed``.

    Raises DoesNotApply where the least examples and ``FEWEST`` products would take more than ``left``.
    """
    (count, took), (before, took_before) = times[-1], times[0]
    each = took / count
    if count > before:
        each = min(max((took - took_before) / (count - before), 0.0), each)

    def product(n):
        return took + each * (n - count)

    sizes = [most] if fixed else [most, *(n for n in reversed(budget.SIZES) if n < most)]
    beside = TRACE + SETTING_UP
    for n in sizes:
        needed = product(n) * (PRODUCTS + beside)
        if needed <= share:
            return Plan(n, most, seconds=needed)
    n = sizes[-1]
    products = FEWEST if share <= 0 else max(FEWEST, math.floor(share / product(n)) - beside)
    needed = product(n) * (products + beside)
    if products == FEWEST and needed > left:
        raise TooLong(budget.too_long(f"{FEWEST + TRACE} products with the Hessian of {n} examples", needed))
    return Plan(n, most, products=min(products, PRODUCTS), seconds=needed)


def product_cost(network, task, rows, seed):
    """(seconds of one product with the Hessian of these examples, bytes that its graph keeps of each)."""
    kept = {}

    def keep(tensor):
        kept[tensor.data_ptr()] = max(kept.get(tensor.data_ptr(), 0), tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        product = hessian(network, task, rows)
    own = {p.data_ptr() for p in network.parameters()}
    vector = torch.randn(product.size, generator=torch_stream(seed, "probe", "cost")).to(product.device)
    took = []
    for _ in range(2):  # the first may have to wake things up
        start = budget.clock()
        product(vector).norm().item()
        took.append(budget.clock() - start)
        if took[0] > 1:
            break
    return min(took), sum(v for at, v in kept.items() if at not in own) / len(rows)


def _turning(parameters, basis, seed):
    """Seconds that a product is made orthogonal to the basis: about four readings of three quarters of it."""
    vector = torch.ones(parameters)
    start = budget.clock()
    (vector @ vector).item()
    return 3 * max(basis, 1) * (budget.clock() - start)
