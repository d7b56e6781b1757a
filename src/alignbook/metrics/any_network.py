"""Layer alignments of networks of every make: what would go wrong unnoticed is refused first.

The experiments call the plain function of :mod:`alignbook.metrics.tangent_alignment`, on networks of their
own; here linear layers take a faster kernel. The plain one is the reference, in the test.
"""

from contextlib import ExitStack
from functools import wraps

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.layer_kernel import LayerKernel
from alignbook.kernels.linear_kernel import LinearKernel
from alignbook.kernels.products import float32_products

from .evaluation import evaluation_mode
from .tangent_alignment import (
    CONSTANT,
    LAYERS,
    LEFT_OUT,
    ROUNDING,
    _alignment,
    _check,
    _unfolding,
    tangent_alignment as plain,
)

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@wraps(plain)  # and its docstring
def tangent_alignment(model, inputs, labels):
    return np.array(list(by_layer(model, inputs, labels).values()), dtype=np.float64)


@torch.inference_mode(False)  # also where the caller is in it
@float32_products()
def by_layer(model, inputs, labels):
    """{layer: its alignment}, in the order of the calls."""
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        kind = inputs.dtype if isinstance(inputs, torch.Tensor) else type(inputs).__name__
        raise ValueError(f"inputs must be a floating-point tensor on the model's device, not {kind}")
    inputs, labels = (t.clone() if torch.is_inference(t) else t for t in (inputs, torch.as_tensor(labels)))
    if len(inputs) == 0:
        raise ValueError("there are no examples")
    if not inputs.isfinite().all():
        raise ValueError("inputs have entries that are not finite")
    _check_layers(model)
    with ExitStack() as stack:
        _need_gradients(model, stack)
        stack.enter_context(evaluation_mode(model))
        # Kernels are those of the model's own precision.
        stack.enter_context(torch.autocast(inputs.device.type, enabled=False))
        # A network that changes its input in place must change neither the caller's nor a leaf of the graph.
        handle = model.register_forward_pre_hook(lambda _, given: (given[0].clone(),), prepend=True)
        stack.callback(handle.remove)
        _require_kernels(model, inputs[:2])
        layers, (n, k) = _signals(model, inputs)
        labels = labels.to(inputs.device)
        if labels.shape != (n,) or labels.dtype != torch.int64 or not 0 <= labels.min() <= labels.max() < k:
            raise ValueError(f"labels must be ({n},) int64 in 0 … {k - 1}")
        centred = (functional.one_hot(labels, k).double() - 1 / k).T
        return {layer: _of_layer(*layers.pop(layer), centred) for layer in list(layers)}


@torch.enable_grad()  # also where the caller has switched gradients off
def _signals(model, inputs):
    """{layer: its inputs, gradients and unfolding}, in the order of the calls; and the outputs' shape."""
    seen = {}

    def keep(layer, arguments, output):
        seen[layer] = arguments[0].detach(), output
        return output.clone()  # an activation that works in place must not change what we keep

    handles = [m.register_forward_hook(keep) for m in model.modules() if isinstance(m, LAYERS)]
    try:
        outputs = model(inputs.detach().clone().requires_grad_(True))
    finally:
        for handle in handles:
            handle.remove()
    n, k = outputs.shape
    if k < 2:
        raise ValueError("the model must have outputs (n, k), k ≥ 2")
    gradients = _gradients(outputs, [z for _, z in seen.values()])
    layers = {
        layer: (_unit(h.clone()), _unit(g), _unfolding(layer))
        for (layer, (h, _)), g in zip(seen.items(), gradients, strict=True)
    }
    return layers, (n, k)


def _gradients(outputs, inner):
    """Per tensor z (n, …) of ``inner`` the gradients (k, n, …) of outputs (n, k), contiguous.

    Examples do not mix, so the gradient of an output's sum over them is the gradient of each.
    """
    k = outputs.shape[1]
    if all(z.ndim == 2 for z in inner):  # with convolutions it gains nothing and takes memory
        every = torch.eye(k, dtype=outputs.dtype, device=outputs.device)[:, None].expand(k, *outputs.shape)
        try:
            found = torch.autograd.grad(
                outputs, inner, every, retain_graph=True, is_grads_batched=True, materialize_grads=True
            )
        except RuntimeError:  # something in the network has no backward pass for all outputs at once
            pass
        else:
            return [g.detach().expand(k, *z.shape).contiguous() for g, z in zip(found, inner, strict=True)]
    gradients = [z.new_empty(k, *z.shape) for z in inner]
    for a in range(k):
        found = torch.autograd.grad(outputs[:, a].sum(), inner, retain_graph=True, materialize_grads=True)
        for kept, gradient in zip(gradients, found, strict=True):
            kept[a] = gradient
    return gradients


def _unit(values):
    """``values`` over the largest of them, in place: without it deep networks would underflow."""
    low, high = values.aminmax()
    scale = torch.maximum(-low, high)
    return values.div_(torch.where(scale == 0, 1, scale))


def _of_layer(inputs, gradients, unfold, centred):
    """The layer's alignment, from gradients (k, n, …) and Ỹ (k, n).

    A convolution with one position is the linear layer on all that it sees.
    """
    if unfold is not None and gradients.shape[3:].numel() == 1:
        inputs, gradients, unfold = functional.unfold(inputs, **unfold)[..., 0], gradients.flatten(2), None
    if unfold is not None:
        return _alignment(LayerKernel(inputs, gradients, unfold), centred)
    return _of_linear(LinearKernel(inputs, gradients), centred)


def _of_linear(kernel, centred):
    """As the plain ``_alignment``, which takes projections in float64 at once."""
    size = kernel.n * kernel.k
    for dtype in (kernel.inputs.dtype, torch.float64):
        # A GPU may have been allowed to round float32 products, and has its float64 units idle.
        least = torch.float64 if kernel.inputs.is_cuda else torch.float32
        means, numerator = kernel.projections(centred, torch.promote_types(dtype, least))
        means_squared = 2 * size * means.square().sum() - (size * means.mean()) ** 2  # ‖K‖² - ‖CKC‖²
        whole = kernel.squares(dtype)
        squares = float(whole - means_squared)
        # A deep kernel may be nearly constant: what centring leaves must not drown in rounding.
        if squares > torch.finfo(kernel.inputs.dtype).eps / ROUNDING * whole:
            break
    if not squares > CONSTANT**2 * whole:
        return float("nan")
    return numerator / (squares**0.5 * float(centred.square().sum()))


def _need_gradients(model, stack):
    """Frozen weights must have them, where nothing before them does; afterwards they are as they were."""
    for module in model.modules():
        if isinstance(module, LAYERS):
            stack.callback(module.weight.requires_grad_, module.weight.requires_grad)
            module.weight.requires_grad_(True)


def _check_layers(model):
    for name, module in model.named_modules():
        where = f"{f'layer {name}' if name else 'the model'} ({type(module).__name__})"
        if isinstance(module, NORMS) and module.running_mean is None:
            raise ValueError(f"{where} mixes examples: a batch normalisation without running statistics")
        own = dict(module.named_parameters(recurse=False))
        if isinstance(module, LAYERS) and "weight" not in own:
            raise ValueError(f"{where} computes its weight from other parameters")
        if own and not isinstance(module, LAYERS + LEFT_OUT):
            raise ValueError(
                f"{where} has parameters ({', '.join(own)}), but is neither nn.Linear nor nn.Conv2d"
            )
        _check(name or "model", module)
    if not any(isinstance(module, LAYERS) for module in model.modules()):
        raise ValueError("the model has no linear or convolutional layers")


@torch.enable_grad()
def _require_kernels(model, inputs):
    """Raise ValueError for layers whose kernels would not be those of their weights' gradients.

    inputs : one or two examples. Outputs must be those of each alone; and the gradient of each by each weight
    must be the sum of (gradient by the layer's output) × (its input) over positions, of which the kernel is
    made.
    """
    layers, calls = {name: m for name, m in model.named_modules() if isinstance(m, LAYERS)}, {}

    def look(name):
        def hook(layer, arguments, output):
            calls.setdefault(name, []).append((arguments[0].detach().clone() if arguments else None, output))
            return output.clone()  # what follows may work in place

        return hook

    handles = [layer.register_forward_hook(look(name)) for name, layer in layers.items()]
    try:
        outputs = model(inputs.detach().clone().requires_grad_(True))
    finally:
        for handle in handles:
            handle.remove()
    n, shape = len(inputs), getattr(outputs, "shape", type(outputs).__name__)
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != n:
        raise ValueError(f"the model must return one tensor (n, k), not {shape} for {n} examples")
    if not outputs.requires_grad or not outputs.isfinite().all():
        raise ValueError("the model's outputs have no gradient, or are not finite")
    for name in layers:
        (h, z), *more = calls.get(name, [(None, None)])
        if h is None or more or len(h) != n or len(z) != n or not z.requires_grad:
            raise ValueError(
                f"layer {name} is not called once, by position, with gradients and a row for each example"
            )
    # Unequal, so that outputs which add up to a constant, or examples that are swapped, do not cancel.
    factors = torch.linspace(0.5, 1, outputs.numel(), dtype=outputs.dtype, device=outputs.device)
    factors = factors.view_as(outputs)
    inner = [calls[name][0][1] for name in layers]
    by_output = torch.autograd.grad((outputs * factors).sum(), inner, materialize_grads=True)
    for i, example in enumerate(inputs.split(1)):
        alone = model(example.clone())
        if not _same(outputs[i : i + 1], alone):
            raise ValueError("the model mixes examples or their order, or is random: outputs change")
        weights = [layer.weight for layer in layers.values()]
        signal = (alone * factors[i]).sum()
        by_weight = torch.autograd.grad(signal, weights, materialize_grads=True)
        for (name, layer), gradient, g in zip(layers.items(), by_weight, by_output, strict=True):
            h = calls[name][0][0]
            if not _same(gradient, _product(layer, h[i : i + 1], g[i : i + 1])):
                raise ValueError(
                    f"layer {name} does more with its weight than nn.Linear and nn.Conv2d do, its weight is "
                    "used elsewhere, too, or what follows mixes examples"
                )


def _product(layer, h, gradient):
    """Gradient by the weight of a layer with input ``h``; None where the shapes are none of such a layer."""
    try:
        if isinstance(layer, nn.Linear):
            return gradient.T @ h if h.ndim == 2 else None
        options = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
        return nn.grad.conv2d_weight(h, layer.weight.shape, gradient, **options)
    except RuntimeError:
        return None


def _same(values, others):
    """Whether two tensors differ by no more than rounding."""
    if others is None or values.shape != others.shape:
        return False
    return bool((values - others).norm() <= torch.finfo(values.dtype).eps ** 0.5 * values.norm())
