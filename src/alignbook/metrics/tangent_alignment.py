"""Alignment of layer tangent kernels with labels (Lou et al. 2022, Equations 6, 7 and 9)."""

import numpy as np
import torch
from torch import nn

from alignbook.kernels.layer_kernel import LayerKernel
from alignbook.kernels.products import float32_products

LAYERS = (nn.Linear, nn.Conv2d)
# Between the layers; their own parameters have no kernel here.
LEFT_OUT = (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)
ROUNDING = 1e-5  # relative error of ‖CKC‖² that rounding of the entries may cause
CONSTANT = 1e-7  # ‖CKC‖ / ‖K‖ below which only rounding is left


@float32_products()
def tangent_alignment(model, inputs, labels):
    """Alignment of each layer's tangent kernel with the labels, from 0 to 1.

    Parameters
    ----------
    model : torch.nn.Module
        Every parameter belongs to an nn.Linear on (n, features), an nn.Conv2d without groups, or a batch,
        group or layer normalisation, each linear or convolutional layer used once and called by position;
        evaluated in evaluation mode, left as it was.
    inputs : (n, …) tensor
        Floating point, finite, on the model's device.
    labels : (n,) int64 tensor
        0 … k - 1 for k ≥ 2 outputs.

    Returns
    -------
    (layers,) float64 array
        One value in [0, 1] per linear or convolutional layer, in the order in which they are called; nan
        where the centred kernel is below 1e-7 of the kernel (a dead or constant layer).

    Raises
    ------
    ValueError
        For other networks or labels. ``alignbook.tangent_alignment`` runs the network on two examples first
        and refuses what would be wrong: examples that mix, outputs that are random, layers that share a
        weight, compute it, use it otherwise than their class does, are not called or see other rows than
        the examples. The function of the module ``metrics.tangent_alignment``, which the experiments call,
        does not look.

    Notes
    -----
    A_l = Ỹᵀ K_l Ỹ / (‖C K_l C‖_F ‖Ỹ‖²) (Lou et al. 2022, Equations 6, 7 and 9). K_l = Ψ_lᵀ Ψ_l is the
    kernel of the outputs' gradients with respect to the *weights* of layer l. Biases are left out, since
    the networks of the paper's Equation 8 have none, and so are the parameters of normalisation layers.
    Rows run over all n·k pairs of an example and an output; labels are one-hot, Y ∈ R^(nk);
    C = I - 11ᵀ/(nk), Ỹ = CY.

    Kernel entries are formed in the model's precision, row means and numerators in float64
    (``alignbook.tangent_alignment`` on a CPU, linear layers: in the model's, at least float32), and all in
    float64 for a layer whose kernel is so close to constant that centring would lose digits; sums over the
    kernel are float64.

    Cost: k backward passes and O((nk)²) products a layer. Memory: the layers' inputs, n·k output gradients
    each, and blocks of bounded size; no kernel is held.

    Examples
    --------
    >>> import torch
    >>> from alignbook import tangent_alignment
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False)).double()
    >>> inputs = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], dtype=torch.float64)
    >>> tangent_alignment(model, inputs, torch.tensor([0, 0, 1])).round(2)
    array([0.61])
    """
    layers, (n, k) = _signals(model, inputs)
    labels = torch.as_tensor(labels, device=inputs.device)
    if labels.shape != (n,) or labels.dtype != torch.int64 or not 0 <= labels.min() <= labels.max() < k:
        raise ValueError(f"labels must be ({n},) int64 in 0 … {k - 1}")
    centred = (nn.functional.one_hot(labels, k).double() - 1 / k).T  # Ỹ as (k, n)
    alignment = [_alignment(LayerKernel(*layers.pop(0)), centred) for _ in range(len(layers))]
    return np.array(alignment, dtype=np.float64)


def _alignment(kernel, centred):
    size = kernel.n * kernel.k
    means, numerator = kernel.projections(centred)
    means_squared = 2 * size * means.square().sum() - (size * means.mean()) ** 2  # ‖K‖² - ‖CKC‖²
    whole = kernel.squares()
    # A deep kernel may be nearly constant: what centring leaves must not drown in rounding.
    if not whole - means_squared > torch.finfo(kernel.inputs.dtype).eps / ROUNDING * whole:
        whole = kernel.squares(torch.float64)
    squares = float(whole - means_squared)
    if not squares > CONSTANT**2 * whole:
        return float("nan")
    return numerator / (squares**0.5 * float(centred.square().sum()))


@torch.enable_grad()  # also where the caller has switched gradients off
def _signals(model, inputs):
    """Per layer the arguments of LayerKernel, with inputs and gradients scaled; and the outputs' shape.

    The scale drops out of the alignment; without it deep networks would underflow.
    """
    for name, module in model.named_modules():
        _check(name or "model", module)
    forward, backward = [], []

    def keep(module, arguments, output):
        if isinstance(module, nn.Linear) and arguments[0].ndim != 2:
            raise ValueError(f"a linear layer's input is {tuple(arguments[0].shape)}, not (n, features)")
        if any(module is seen for seen, _ in forward):
            raise ValueError("a layer is used more than once")
        forward.append((module, arguments[0].detach()))
        backward.append(output)
        return output.clone()  # an activation that works in place must not change what we keep

    training = [module for module in model.modules() if module.training]
    handles = [m.register_forward_hook(keep) for m in model.modules() if isinstance(m, LAYERS)]
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
        raise ValueError("the model must have linear or convolutional layers and outputs (n, k), k ≥ 2")
    k = outputs.shape[1]
    gradients = [torch.empty(k, *z.shape, dtype=z.dtype, device=z.device) for z in backward]
    for a in range(k):  # examples do not mix, so the gradient of the sum is the gradient of each
        total = outputs[:, a].sum()
        of_output = torch.autograd.grad(total, backward, retain_graph=True, materialize_grads=True)
        for kept, gradient in zip(gradients, of_output, strict=True):
            kept[a] = gradient
    layers = [
        (_unit(h.clone()), _unit(g), _unfolding(module))
        for (module, h), g in zip(forward, gradients, strict=True)
    ]
    return layers, tuple(outputs.shape)


def _check(name, module):
    kind = type(module).__name__
    if list(module.parameters(recurse=False)) and not isinstance(module, LAYERS + LEFT_OUT):
        raise ValueError(f"layer {name} ({kind}) is neither linear nor convolutional")
    if isinstance(module, nn.Conv2d) and (
        module.groups != 1 or isinstance(module.padding, str) or module.padding_mode != "zeros"
    ):
        raise ValueError(f"layer {name} ({kind}) must have one group and a padding with zeros, in numbers")


def _unfolding(module):
    if isinstance(module, nn.Linear):
        return None
    return {name: getattr(module, name) for name in ("kernel_size", "dilation", "padding", "stride")}


def _unit(values):
    scale = torch.linalg.vector_norm(values, torch.inf)
    return values.div_(torch.where(scale == 0, 1, scale))
