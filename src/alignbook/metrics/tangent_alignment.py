"""Alignment of layer tangent kernels with labels (Lou et al. 2022, Equations 6, 7 and 9)."""

import numpy as np
import torch
from torch import nn

TILE = 2**19  # entries of the (nk)² kernel held at once


def tangent_alignment(model, inputs, labels):
    """A_l = Ỹᵀ K_l Ỹ / (‖C K_l C‖_F ‖Ỹ‖²), one value per linear layer, in forward order.

    K_l = Ψ_lᵀ Ψ_l is the kernel of the outputs' gradients with respect to the *weights* of layer l;
    biases are left out, since the paper's networks (Equation 8) have none. Rows run over all n·k pairs
    of an example i and an output a; labels are one-hot, Y ∈ R^{nk}; C = I - 11ᵀ/(nk), Ỹ = CY.
    By Equation 9 the kernel is the forward kernel ∘ the backward kernel,
    K_l[(i,a),(j,b)] = ⟨h_i, h_j⟩ · ⟨g_i^a, g_j^b⟩, with the layer's input h and its output's gradient
    g^a = ∂f_a/∂z.

    model : network whose layers with parameters are all nn.Linear on (n, features), each used once;
    evaluated in evaluation mode, left as it was. inputs : (n, …) tensor on the model's device;
    labels : (n,) int64, 0 … k - 1 for k ≥ 2 outputs.
    Returns (layers,) float64 in [0, 1]; nan where the centred kernel is zero (a dead layer).
    Kernel entries are formed in the model's precision, a block of rows at a time; row means, numerators
    and sums are float64. Memory: the layers' inputs and n·k output gradients each.
    Raises ValueError for other networks or labels.
    """
    layers, outputs = _signals(model, inputs)
    n, k = outputs
    labels = torch.as_tensor(labels, device=inputs.device)
    if labels.shape != (n,) or labels.dtype != torch.int64 or not 0 <= labels.min() <= labels.max() < k:
        raise ValueError(f"labels must be ({n},) int64 in 0 … {k - 1}")
    centred = nn.functional.one_hot(labels, k).double() - 1 / k  # Ỹ as (n, k)
    alignment = [_alignment(*layers.pop(0), centred) for _ in range(len(layers))]
    return np.array(alignment, dtype=np.float64)


@torch.enable_grad()  # also where the caller has switched gradients off
def _signals(model, inputs):
    """Per layer its input h (n, in) and output gradients g (k, n, out), scaled; and the outputs' shape.

    The scale drops out of the alignment; without it deep networks would underflow.
    """
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)) and not isinstance(module, nn.Linear):
            raise ValueError(f"layer {name or 'model'} ({type(module).__name__}) is no nn.Linear")
    forward, backward = [], []

    def keep(module, arguments, output):
        if arguments[0].ndim != 2:
            raise ValueError(f"a linear layer's input is {tuple(arguments[0].shape)}, not (n, features)")
        if any(module is seen for seen, _ in forward):
            raise ValueError("a linear layer is used more than once")
        forward.append((module, arguments[0].detach()))
        backward.append(output)
        return output.clone()  # an activation that works in place must not change what we keep

    training = [module for module in model.modules() if module.training]
    handles = [m.register_forward_hook(keep) for m in model.modules() if isinstance(m, nn.Linear)]
    try:
        model.eval()
        # The graph must not hinge on the weights, which may be frozen.
        outputs = model(inputs.detach().clone().requires_grad_(True))
    finally:
        for handle in handles:
            handle.remove()
        for module in training:
            module.training = True
    if outputs.ndim != 2 or outputs.shape[1] < 2 or not forward:
        raise ValueError("the model must have linear layers and outputs of shape (n, k), k ≥ 2")
    gradients = [
        torch.autograd.grad(outputs[:, a].sum(), backward, retain_graph=True, materialize_grads=True)
        for a in range(outputs.shape[1])
    ]  # examples do not mix, so the gradient of the sum is the gradient of each
    layers = [
        (_unit(h), _unit(torch.stack(g)))
        for (_, h), g in zip(forward, zip(*gradients, strict=True), strict=True)
    ]
    return layers, tuple(outputs.shape)


def _unit(values):
    scale = values.abs().max()
    return values / torch.where(scale == 0, 1, scale)


def _alignment(h, g, centred):
    """A_l of one layer: h (n, in), g (k, n, out), centred (n, k) float64."""
    k, n, _ = g.shape
    size = n * k
    wide_h, wide_g = h.double(), g.double()
    # Ψ_l v is the weight gradient Σ_ia v_ia g_i^a h_iᵀ, so products with K_l need no kernel.
    numerator = (torch.einsum("ja,ajo->jo", centred, wide_g).T @ wide_h).square().sum()  # ‖Ψ_l Ỹ‖²
    total = wide_g.sum(0).T @ wide_h  # Ψ_l 1, (out, in)
    means = torch.einsum("aio,io->ai", wide_g, wide_h @ total.T) / size  # row means of K_l, (k, n)
    grand = means.mean()
    # Centre the entries before squaring: deep kernels are nearly constant, and a difference of
    # large sums would lose what is left.
    rows, columns = means.to(h.dtype), (means - grand).to(h.dtype)
    squares = torch.zeros((), dtype=torch.float64, device=h.device)
    step = max(1, TILE // (k * size))
    for start in range(0, n, step):
        stop = min(start + step, n)
        # The kernel is symmetric: only columns from ``start`` on, those right of the block twice.
        kernel = g[:, start:stop].reshape(-1, g.shape[2]) @ g[:, start:].reshape(-1, g.shape[2]).T
        kernel = kernel.view(k, stop - start, k, n - start)
        kernel *= (h[start:stop] @ h[start:].T)[:, None, :]
        kernel -= rows[:, start:stop, None, None]
        kernel -= columns[:, start:]
        norms = torch.linalg.vector_norm(kernel, dim=3).double().square().sum()
        block = torch.linalg.vector_norm(kernel[..., : stop - start], dim=3).double().square().sum()
        squares += 2 * norms - block
    # Entries of K_l below rounding of its largest are no kernel: the rest of a constant one.
    if squares.sqrt() <= torch.finfo(h.dtype).eps * size * means.abs().max():
        return float("nan")
    return float(numerator / (squares.sqrt() * centred.square().sum()))
