"""Layer alignments of networks of any make, by the gradients of their parameters themselves.

:func:`alignbook.tangent_alignment` is exact and far faster, on linear and convolutional layers that are used
once. Here a layer is a parameter: attention, grouped convolutions, tied weights and TorchScript have some.
"""

import math

import numpy as np
import torch

from alignbook.seeding import torch_stream

BUCKETS = 2048  # of each of the two sketches of a gradient that is longer


def parameter_alignment(model, inputs, centred, outputs=None, buckets=BUCKETS, seed=0):
    """A_l (Lou et al. 2022, Equation 7) of every parameter of two or more dimensions.

    model : maps ``inputs`` (n, …) to (n, k') ; in evaluation mode, its parameters of one precision. They need
    not require gradients, and are left as they are.
    centred : (n, k) float64, Ỹ: targets less their mean. outputs : the k columns of the model's outputs that
    they belong to; None: all.
    buckets : gradients with more than twice as many entries are replaced by two sketches of that length
    (Charikar et al. 2002), drawn from ``seed``: signed sums of entries, whose inner products have the right
    mean. ‖C K C‖² is the inner product of the two sketches' kernels, so that it has the right mean as well.

    Returns ([names], (layers,) float64, (layers,) bool: exact). A layer whose kernel is constant has nan.
    One backward pass for each example and output; memory is 16 · n · k · layers · buckets bytes at most.
    Raises ValueError where the outputs are not (n, k').
    """
    weights = {name: w for name, w in model.named_parameters() if w.ndim >= 2 and w.is_floating_point()}
    if not weights:
        raise ValueError("the network has no parameters of two or more dimensions")
    n, k = centred.shape
    generator = torch_stream(seed, "sketch")
    sketches = {name: _sketches(w, buckets, generator) for name, w in weights.items()}
    rows = {name: [[] for _ in sketches[name]] for name in weights}
    required = {name: w.requires_grad for name, w in weights.items()}
    try:
        for w in weights.values():
            w.requires_grad_(True)
        with torch.enable_grad():
            for i in range(n):
                signal = model(inputs[i : i + 1])
                if signal.ndim != 2 or len(signal) != 1:
                    raise ValueError(f"outputs must be (n, k), not {tuple(signal.shape)} for one example")
                signal = signal[0] if outputs is None else signal[0, outputs]
                if len(signal) != k:
                    raise ValueError(f"the network has {len(signal)} outputs, the targets {k}")
                for a in range(k):
                    gradients = torch.autograd.grad(
                        signal[a], list(weights.values()), retain_graph=a + 1 < k, allow_unused=True
                    )
                    for (name, w), gradient in zip(weights.items(), gradients, strict=True):
                        flat = (torch.zeros_like(w) if gradient is None else gradient).flatten()
                        for kept, sketch in zip(rows[name], sketches[name], strict=True):
                            kept.append(flat if sketch is None else sketch(flat))
    finally:
        for name, w in weights.items():
            w.requires_grad_(required[name])
    target = centred.flatten().to(inputs.device)
    alignment = [
        _alignment([torch.stack(kept).double() for kept in rows.pop(name)], target) for name in weights
    ]
    return list(weights), np.array(alignment), np.array([len(sketches[name]) == 1 for name in weights])


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


def _alignment(features, target):
    """From one or two (n·k, ·) float64 matrices whose products with their transposes are the kernel."""
    features = [f / (f.abs().max() if f.any() else 1) for f in features]
    means = [f - f.mean(0) for f in features]
    whole = math.prod(float((f @ f.T).norm()) for f in (features[0], features[-1])) ** 0.5
    squares = float((means[0].T @ means[-1]).square().sum()) if len(features) == 1 else None
    if squares is None:
        squares = float(((means[0] @ means[0].T) * (means[1] @ means[1].T)).sum())
    if not squares > (1e-6 * whole) ** 2:
        return math.nan
    numerator = sum(float((target @ f).square().sum()) for f in means) / len(means)
    return numerator / (math.sqrt(squares) * float(target.square().sum()))
