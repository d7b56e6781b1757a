"""Layer alignments of networks of any make, by the gradients of their parameters themselves.

:func:`alignbook.tangent_alignment` is exact and far faster, on linear and convolutional layers that are used
once. Here a layer is a parameter: attention, grouped convolutions and tied weights have some.
"""

import math

import numpy as np
import torch

from alignbook.seeding import torch_stream

from .errors import DoesNotApply
from .features import selected

NONE = "no parameter of two or more dimensions trains (parameters='all' takes all of them)"
BUCKETS = 2048  # of each of the two sketches of a gradient that is longer


def parameter_alignment(model, network, rows, centred, shuffled, layers=None, buckets=BUCKETS, seed=0):
    """A_l (Lou et al. 2022, Equation 7) of every parameter of two or more dimensions.

    model : maps rows (n,) to (n, k); network : whose parameters they are, in evaluation mode.
    Only those count that require gradients.
    centred : (n, k) float64, Ỹ: targets less their mean; shuffled : the same in another order.
    layers : names and patterns of modules, or None.
    buckets : gradients with more than twice as many entries are replaced by two sketches of that length
    (Charikar et al. 2002), drawn from ``seed``: signed sums of entries, whose inner products have the right
    mean. ‖C K C‖² is the inner product of the two sketches' kernels, so that it has the right mean as well.

    Returns ([(module, parameter)], (layers,) float64, the same for shuffled targets, (layers,) bool: exact).
    A layer whose kernel is constant has nan. One backward pass for each example and output; memory is
    16 · n · k · layers · buckets bytes at most. Raises ValueError where the outputs are not (n, k).
    """
    weights = {whose: w for whose, w in named_weights(network.model).items() if selected(whose[0], layers)}
    if not weights:
        raise DoesNotApply(NONE)
    generator = torch_stream(seed, "sketch")
    sketches = {whose: _sketches(w, buckets, generator) for whose, w in weights.items()}
    n, k = centred.shape
    # Allocated at once: one by one between gradients, sketches would hold the gradients' memory, too.
    gradients = {
        whose: [w.new_empty(n * k, w.numel() if sketch is None else buckets) for sketch in sketches[whose]]
        for whose, w in weights.items()
    }
    with torch.enable_grad():
        for i, row in enumerate(rows.split(1)):
            _of_example(model(row), slice(i * k, (i + 1) * k), weights, sketches, gradients)
    targets = torch.stack([centred.flatten(), shuffled.flatten()], 1).to(next(iter(weights.values())).device)
    alignments = np.array(
        [_alignment([features.double() for features in gradients.pop(whose)], targets) for whose in weights]
    )
    exact = np.array([len(sketches[whose]) == 1 for whose in weights])
    return list(weights), alignments[:, 0], alignments[:, 1], exact


def named_weights(model):
    """{(module, parameter): tensor} of two or more dimensions, of floats that train, each once."""
    return {
        (name.rpartition(".")[0] or "(network)", name.rpartition(".")[2]): w
        for name, w in model.named_parameters()
        if w.ndim >= 2 and w.is_floating_point() and w.requires_grad
    }


def _of_example(signal, where, weights, sketches, rows):
    """Write the gradients of one example's outputs (1, k), or their sketches, into rows of ``kept``."""
    k = where.stop - where.start
    if signal.shape != (1, k):
        raise ValueError(f"outputs must be (n, {k}), not {tuple(signal.shape)} for one example")
    for a in range(k):
        gradients = torch.autograd.grad(
            signal[0, a], list(weights.values()), retain_graph=a + 1 < k, allow_unused=True
        )
        for (whose, w), gradient in zip(weights.items(), gradients, strict=True):
            flat = (torch.zeros_like(w) if gradient is None else gradient).flatten()
            for features, sketch in zip(rows[whose], sketches[whose], strict=True):
                features[where.start + a] = flat if sketch is None else sketch(flat)


def _sketches(weight, buckets, generator):
    """[None] where gradients are kept whole, else two functions (P,) → (buckets,)."""
    size = weight.numel()
    if size <= 2 * buckets:
        return [None]

    def drawn():
        bucket = torch.randint(buckets, (size,), generator=generator).to(weight.device)
        sign = (torch.randint(2, (size,), generator=generator) * 2 - 1).to(weight)
        # The same sums as index_add_, in the same order, in a third of the time.
        return lambda flat: flat.new_zeros(buckets).scatter_add_(0, bucket, flat * sign)

    return [drawn(), drawn()]


def _alignment(features, targets):
    """One for each of the targets (n·k, m), from one or two (n·k, ·) float64 matrices.

    The matrices' products with their transposes are the kernel.
    """
    features = [f / (f.abs().max() if f.any() else 1) for f in features]
    means = [f - f.mean(0) for f in features]
    whole = math.prod(float((f @ f.T).norm()) for f in (features[0], features[-1])) ** 0.5
    squares = float((means[0].T @ means[-1]).square().sum()) if len(features) == 1 else None
    if squares is None:
        squares = float(((means[0] @ means[0].T) * (means[1] @ means[1].T)).sum())
    if not squares > (1e-6 * whole) ** 2:
        return [math.nan] * targets.shape[1]
    numerators = sum((f.T @ targets).square().sum(0) for f in means) / len(means)
    return (numerators / (math.sqrt(squares) * targets.square().sum(0))).tolist()
