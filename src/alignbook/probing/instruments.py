"""What the probe measures on one network: each instrument returns a table, or raises DoesNotApply."""

import math
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.metrics import (
    filter_normalised_directions,
    hessian_eigenvalues,
    misalignment,
    misalignment_basis,
    patch_covariance,
    tangent_alignment,
    transfer_function,
)
from alignbook.seeding import numpy_stream, torch_stream

from .tangents import parameter_alignment

READS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
COORDINATES = 8192  # of a layer's features that are kept at most, drawn at random
TOP = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500)
OUTPUTS = 10  # of the network's that the tangent kernels take
BASES = 20
DRAWS = 20
PATCH_IMAGES = 1000
BATCH = 100
PRODUCTS = 80  # with the Hessian at most


class DoesNotApply(Exception):
    """The instrument has nothing to measure here; the message says why, in one line."""


@contextmanager
def measurable():
    """Inside, attention takes the plain path, which has second derivatives and calls its parts."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def filters(model, inputs, targets, seed):
    """First-layer filters against the patches that they see (Maennel et al. 2020, Sections 2.2 and 2.3).

    Returns one row per eigenvalue of the patch covariance: ``sigma``, ``tau`` (f(σ) = τ), and in all rows
    ``filters``, ``dimension``, ``misalignment``, ``floor`` (its mean for as many Gaussian filters whose
    covariance is aligned) and ``random_bases`` (its mean where random bases take the eigenvectors' place);
    the three are nan with too few filters, whose covariance has no inverse.
    """
    conv, entering = _first_convolution(model, inputs[:PATCH_IMAGES])
    size, weight = conv.kernel_size, conv.weight.detach().double()
    if size[0] != size[1] or conv.groups != 1 or conv.dilation != (1, 1):
        raise DoesNotApply("the first convolution has no square filters, has groups or is dilated")
    if min(entering.shape[2:]) < size[0]:
        raise DoesNotApply("the images are smaller than the filters")
    # Patches wherever they lie: the statistics of images do not depend on the network's stride.
    covariance = patch_covariance(entering.cpu(), size[0]).cov
    flat = weight.flatten(1).cpu().numpy()
    of_weights = np.cov(flat, rowvar=False, bias=True).reshape(len(covariance), -1)
    sigma, tau = transfer_function(covariance, of_weights)
    count, dimension = flat.shape
    scores = {"misalignment": math.nan, "floor": math.nan, "random_bases": math.nan}
    if count > dimension:
        rng = numpy_stream(seed, "probe", "filters")
        draws = rng.standard_normal((DRAWS, count, dimension))
        turned = np.linalg.qr(rng.standard_normal((BASES, dimension, dimension)))[0]
        diagonal = np.diag(np.arange(1.0, dimension + 1))
        scores = {
            "misalignment": misalignment(covariance, of_weights),
            "floor": np.mean([misalignment(diagonal, np.cov(d, rowvar=False, bias=True)) for d in draws]),
            "random_bases": np.mean([misalignment_basis(basis, of_weights) for basis in turned]),
        }
    return pd.DataFrame({"sigma": sigma, "tau": tau}).assign(filters=count, dimension=dimension, **scores)


def _first_convolution(model, inputs):
    """The first convolution that is called, and what enters it, (n, C, H, W)."""
    seen = []

    def keep(module, arguments, output):
        if not seen:
            seen.append(module)
        if module is seen[0]:
            entered.append(arguments[0].detach().float().cpu())

    entered = []
    hooks = [m.register_forward_hook(keep) for m in model.modules() if isinstance(m, nn.Conv2d)]
    if not hooks:
        script = isinstance(model, torch.jit.ScriptModule)
        raise DoesNotApply(
            "TorchScript hides its layers" if script else "the network has no two-dimensional convolution"
        )
    try:
        _forward(model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if not seen or entered[0].ndim != 4 or sum(map(len, entered)) != len(inputs):
        raise DoesNotApply("the first convolution does not see every image once")
    return seen[0], torch.cat(entered)


@torch.no_grad()
def _forward(model, inputs):
    return torch.cat([model(part) for part in inputs.split(BATCH)])


def features(model, inputs, targets, seed):
    """Along which singular vectors of each layer's inputs the labels lie (Imani et al. 2022, Section 3).

    A layer is linear or a convolution; its features are what it reads when it is first called, flattened,
    with a constant, rows of length one; of more than 8,192 as many coordinates are drawn at random.
    ``output`` is what the network returns.

    Returns one row per layer and rank k: ``share`` of ‖Ỹ‖² (labels as one-hot columns, less their means) on
    the top k singular vectors, ``sigma`` the k-th singular value over the first; ``width``, ``coordinates``.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise DoesNotApply("TorchScript hides its layers")
    centred = labels(targets)
    if not centred.any():
        raise DoesNotApply("all targets are equal")
    kept = _layer_inputs(model, inputs, seed)
    tables = []
    for depth, (name, (values, width)) in enumerate(kept.items()):
        share, sigma = spectrum(values, centred)
        ranks = [k for k in TOP if k < len(sigma)] + [len(sigma)]
        at = np.array(ranks) - 1
        tables.append(
            pd.DataFrame(
                {"layer": name, "depth": depth, "k": ranks, "share": share[at], "sigma": sigma[at]}
            ).assign(width=width, coordinates=values.shape[1])
        )
    return pd.concat(tables, ignore_index=True)


def labels(targets):
    """Ỹ (n, k) float64: one-hot classes, or the targets themselves, less the mean of each column."""
    if targets.is_floating_point():
        columns = targets.double().reshape(len(targets), -1)
    else:
        columns = functional.one_hot(targets).double()
    return (columns - columns.mean(0)).cpu()


def spectrum(values, centred):
    """(share of ‖Ỹ‖² on the top k singular vectors, σ_k / σ_1), k = 1 … rank, of features (n, d).

    By the Gram matrix, in float64: singular values below 1e-7 of the largest count as absent.
    """
    rows = torch.cat([values.double(), values.new_ones(len(values), 1).double()], 1)
    rows = rows / rows.abs().amax(1, keepdim=True)
    rows = rows / rows.norm(dim=1, keepdim=True)
    squares, vectors = torch.linalg.eigh(rows @ rows.T)
    squares, vectors = squares.flip(0), vectors.flip(1)
    rank = int((squares > 1e-14 * squares[0] * len(squares)).sum())
    along = (vectors[:, :rank].T @ centred).square().sum(1) / centred.square().sum()
    return along.cumsum(0).numpy(), (squares[:rank] / squares[0]).sqrt().numpy()


def _layer_inputs(model, inputs, seed):
    """{layer: ((n, coordinates) float32 on the CPU, how many features there are)}, in order of the calls."""
    parts, chosen, order = {}, {}, []
    generator = torch_stream(seed, "probe", "coordinates")
    called = set()

    def keep(name, values):
        if not isinstance(values, torch.Tensor) or len(values) != size or name in called:
            return
        called.add(name)
        flat = values.detach().reshape(size, -1)
        if name not in chosen:
            order.append((name, flat.shape[1]))
            some = torch.randperm(flat.shape[1], generator=generator)[:COORDINATES].sort().values
            chosen[name] = some.to(flat.device) if flat.shape[1] > COORDINATES else slice(None)
        parts.setdefault(name, []).append(flat[:, chosen[name]].float().cpu())

    hooks = [
        module.register_forward_pre_hook(lambda _, given, name=name: keep(name, given[0] if given else None))
        for name, module in model.named_modules()
        if isinstance(module, READS)
    ]
    try:
        with torch.no_grad():
            for part in inputs.split(BATCH):
                size = len(part)
                called.clear()
                keep("output", model(part))
    finally:
        for hook in hooks:
            hook.remove()
    whole = {name: (torch.cat(parts[name]), width) for name, width in order}
    return {name: found for name, found in whole.items() if len(found[0]) == len(inputs)}


class _Some(nn.Module):
    def __init__(self, model, outputs):
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, x):
        return self.model(x)[:, self.outputs]


def tangent(model, inputs, targets, seed):
    """How far each layer's tangent kernel is aligned with the labels: A_l (Lou et al. 2022, Equation 7).

    With more than ten classes, on the ten that come most often among the targets, and their outputs.
    Returns one row per layer: ``alignment`` and ``method``, ``exact``, or ``sketched`` where the network is
    none that :func:`alignbook.tangent_alignment` takes and the layer has more than 4,096 weights.
    """
    centred, outputs = labels(targets), None
    if not targets.is_floating_point():
        counts = targets.bincount(minlength=model(inputs[:1]).shape[1])
        outputs = counts.argsort(descending=True, stable=True)[:OUTPUTS].sort().values
        rows = torch.isin(targets, outputs)
        inputs, targets = inputs[rows], targets[rows]
        classes = torch.searchsorted(outputs, targets)
        centred = (functional.one_hot(classes, len(outputs)).double() - 1 / len(outputs)).cpu()
        try:
            if isinstance(model, torch.jit.ScriptModule):
                raise ValueError("TorchScript hides its layers")
            alignment = tangent_alignment(_Some(model, outputs), inputs, classes)
            names = _called(model, inputs[:1])
            return pd.DataFrame({"layer": names, "depth": range(len(names)), "alignment": alignment}).assign(
                method="exact"
            )
        except ValueError:
            pass  # a layer of another kind: by its gradients
    else:
        centred = centred - centred.mean()
    if not centred.any():
        raise DoesNotApply("all targets are equal")
    names, alignment, exact = parameter_alignment(model, inputs, centred, outputs, seed=seed)
    rows = pd.DataFrame({"layer": names, "depth": range(len(names)), "alignment": alignment})
    return rows.assign(method=np.where(exact, "exact", "sketched"))


def _called(model, inputs):
    """Names of the linear and convolutional layers in the order of their calls."""
    names = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: names.append(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return names


def loss_of(targets):
    """Mean cross-entropy for classes (int64), mean squared error for numbers."""
    if targets.is_floating_point():
        return lambda outputs, wanted: functional.mse_loss(outputs, wanted.reshape(outputs.shape))
    return functional.cross_entropy


def curvature(model, inputs, targets, seed, k=5, basis=None, products=PRODUCTS):
    """The k eigenvalues of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a).

    basis : how many vectors of the parameters are held; products : most with the Hessian, see
    :func:`alignbook.hessian_eigenvalues`.
    Returns one row per eigenvalue: ``index`` from 1, ``eigenvalue``, ``residual``, ``converged``.
    """
    if sum(p.numel() for p in model.parameters()) <= 10 * k:
        raise DoesNotApply("the network has too few parameters")
    found = hessian_eigenvalues(
        model, loss_of(targets), inputs, targets, k=k, tol=1e-2, batch_size=128, basis=basis,
        max_products=products, seed=seed,
    )  # fmt: skip
    return pd.DataFrame(
        {"index": range(1, k + 1), "eigenvalue": found.eigenvalues, "residual": found.residuals}
    ).assign(converged=found.converged)


@torch.no_grad()
def slice_(model, inputs, targets, seed, radius=0.1, points=21):
    """The loss along one random direction in which every filter has its own norm (ICLR 2020, Appendix A).

    Returns ``alpha`` from -radius to radius and ``loss``. The model is moved and put back, bit for bit.
    """
    (direction,) = filter_normalised_directions(model, torch_stream(seed, "probe", "slice"), count=1)
    weights = {name: w for name, w in model.named_parameters() if name in direction}
    start = {name: w.clone() for name, w in weights.items()}
    alphas, losses, loss = np.linspace(-radius, radius, points), [], loss_of(targets)
    try:
        for alpha in alphas:
            for name, w in weights.items():
                w.copy_(start[name] + float(alpha) * direction[name])
            losses.append(float(loss(_forward(model, inputs), targets)))
    finally:
        for name, w in weights.items():
            w.copy_(start[name])
    return pd.DataFrame({"alpha": alphas, "loss": losses})
