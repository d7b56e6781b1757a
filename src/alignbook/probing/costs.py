"""What a few examples cost on the network at hand: memory, and a product with the Hessian."""

import math
from dataclasses import dataclass

import torch
from torch import nn

from alignbook.kernels.hessian_product import HessianProduct
from alignbook.metrics import tangent_alignment
from alignbook.seeding import torch_stream

from . import budget, instruments
from .instruments import DoesNotApply
from .tangents import BUCKETS

K = 5
BASIS = 60  # vectors, where memory allows
EXTRA = 10  # that a basis has beyond k at least
BESIDE = 4  # vectors beside the basis
FEWEST = 20  # products with the Hessian
SETTING_UP = 5  # as many products' time: the graph, its check, and the residual at the end


def room(name, model, inputs, targets, most):
    """How many examples ≤ ``most`` fit into ``budget.MEMORY``. Raises DoesNotApply for too few."""
    each = {"features": _of_features, "tangent": _of_kernels}.get(name)
    if each is None or isinstance(model, torch.jit.ScriptModule):
        return most
    held = each(model, inputs, targets)
    return _that_fit(held, most)


def _that_fit(held, most):
    """How many examples ≤ ``most`` that take so many bytes each."""
    n = budget.size(budget.MEMORY / max(held, 1), most)
    if not n:
        needed = f"{budget.LEAST} examples take {budget.gigabytes(budget.LEAST * held)}"
        raise DoesNotApply(f"{needed}, more than {budget.gigabytes(budget.MEMORY)}")
    return n


def _of_features(model, inputs, targets):
    kept = instruments._layer_inputs(model, inputs[:1], 0)
    return sum(4 * values.numel() for values, _ in kept.values())


def _of_kernels(model, inputs, targets):
    """Bytes per example: layers' inputs and their outputs' gradients, or of other networks the sketches."""
    shape = []

    def look(layer, given, output):
        shape.append((given[0][0].numel() if given else 0, output[0].numel()))

    hooks = [m.register_forward_hook(look) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    try:
        with torch.no_grad():
            outputs = min(model(inputs[:1]).shape[1], instruments.OUTPUTS)
    finally:
        for hook in hooks:
            hook.remove()
    if not targets.is_floating_point() and outputs > 1:
        some = instruments._Some(model, torch.arange(outputs, device=inputs.device))
        try:
            tangent_alignment(some, inputs[:2], torch.tensor([0, 1], device=inputs.device))
            return 4 * sum(2 * entering + (outputs + 2) * leaving for entering, leaving in shape)
        except ValueError:
            pass
    weights = [w.numel() for w in model.parameters() if w.ndim >= 2]
    held = 2 * (8 + 4) * sum(w for w in weights if w > 2 * BUCKETS)  # a bucket and a sign of each entry
    if held > budget.MEMORY:
        raise DoesNotApply(
            f"the sketches' {budget.gigabytes(held)} do not fit into {budget.gigabytes(budget.MEMORY)}"
        )
    return 4 * outputs * sum(min(w, 2 * BUCKETS) for w in weights)


@dataclass(frozen=True)
class Curvature:
    """n examples of ``fit`` that memory has room for, k eigenvalues, ``basis`` vectors (None: as many as are
    best) and at most so many ``products`` with the Hessian, which take ``seconds`` at most.
    """

    n: int
    fit: int
    k: int
    basis: int | None
    products: int
    seconds: float

    @property
    def note(self):
        """What else was made smaller, to be added to a line."""
        said = ""
        if self.basis is not None:
            room = budget.gigabytes(budget.MEMORY)
            said += f"; {self.k} eigenvalues from {self.basis} vectors, which fit into {room}"
        if self.products < instruments.PRODUCTS:
            said += f"; {self.products} products with the Hessian instead of {instruments.PRODUCTS}, for time"
        return said


def basis_of(parameters):
    """(k, basis) whose vectors of so many float32 numbers fit into ``budget.MEMORY``; basis None: the best.

    Raises DoesNotApply where not even those for one eigenvalue do.
    """
    vectors = int(budget.MEMORY / (4 * max(parameters, 1))) - BESIDE
    if vectors >= BASIS:
        return K, None
    k = min(K, vectors - EXTRA)
    if k < 1:
        held = 4 * parameters * (1 + EXTRA + BESIDE)
        raise DoesNotApply(
            f"{1 + EXTRA + BESIDE} vectors of {parameters:,} parameters take {budget.gigabytes(held)}, "
            f"more than {budget.gigabytes(budget.MEMORY)}"
        )
    return k, vectors


def curvature(model, inputs, targets, seed, share, left):
    """:class:`Curvature` of these examples: the time and memory of a product are measured on 2 and 8."""
    total = sum(p.numel() for p in model.parameters())
    k, basis = basis_of(total)
    most, begun, times = len(inputs), budget.clock(), []
    for n in sorted({min(budget.TRIAL, most), min(budget.LEAST, most)}):
        took, held = product_cost(model, budget.spread(inputs, n), budget.spread(targets, n), seed)
        times.append((n, took + _turning(total, basis or BASIS, seed)))
        if times[0][1] * most / n * (instruments.PRODUCTS + SETTING_UP) <= share:
            break  # though as much time went with each example, all fit
    fit = _that_fit(held, most)
    spent = budget.clock() - begun
    n, products, needed = planned(times, fit, share - spent, left - spent)
    return Curvature(n, fit, k, basis, products, needed)


def planned(times, most, share, left):
    """(n, products, seconds) from [(examples, seconds of a product), …]: examples give way first.

    Raises DoesNotApply where ``budget.LEAST`` examples and ``FEWEST`` products would take more than ``left``.
    """
    (count, took), (before, took_before) = times[-1], times[0]
    each = took / count
    if count > before:
        each = min(max((took - took_before) / (count - before), 0.0), each)

    def product(n):
        return took + each * (n - count)

    sizes = [most, *(n for n in reversed(budget.SIZES) if n < most)]
    for n in sizes:
        needed = product(n) * (instruments.PRODUCTS + SETTING_UP)
        if needed <= share:
            return n, instruments.PRODUCTS, needed
    n = sizes[-1]
    products = FEWEST if share <= 0 else max(FEWEST, math.floor(share / product(n)) - SETTING_UP)
    needed = product(n) * (products + SETTING_UP)
    if products == FEWEST and needed > left:
        raise DoesNotApply(budget.too_long(f"{FEWEST} products with the Hessian of {n} examples", needed))
    return n, products, needed


def product_cost(model, inputs, targets, seed):
    """(seconds of one product with the Hessian of these examples, bytes that its graph keeps of each)."""
    kept = {}

    def keep(tensor):
        kept[tensor.data_ptr()] = max(kept.get(tensor.data_ptr(), 0), tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        product = HessianProduct(model, instruments.loss_of(targets), inputs, targets, len(inputs))
    own = {p.data_ptr() for p in model.parameters()}
    vector = torch.randn(product.size, generator=torch_stream(seed, "probe", "cost")).to(product.device)
    took = []
    for _ in range(2):  # the first may have to wake things up
        start = budget.clock()
        product(vector).norm().item()
        took.append(budget.clock() - start)
    return min(took), sum(v for at, v in kept.items() if at not in own) / len(inputs)


def _turning(parameters, basis, seed):
    """Seconds that a product is made orthogonal to the basis: about four readings of three quarters of it."""
    vector = torch.ones(parameters)
    start = budget.clock()
    (vector @ vector).item()
    return 3 * basis * (budget.clock() - start)
