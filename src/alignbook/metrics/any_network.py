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
@torch.inference_mode(False)  # also where the caller is in it
@float32_products()
def tangent_alignment(model, inputs, labels):
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
        _watch(model, inputs[:2])
        layers, (n, k) = _signals(model, inputs)
        labels = labels.to(inputs.device)
        if labels.shape != (n,) or labels.dtype != torch.int64 or not 0 <= labels.min() <= labels.max() < k:
            raise ValueError(f"labels must be ({n},) int64 in 0 … {k - 1}")
        centred = (functional.one_hot(labels, k).double() - 1 / k).T
        alignment = [_of_layer(*layers.pop(0), centred) for _ in range(len(layers))]
    return np.array(alignment, dtype=np.float64)


@torch.enable_grad()  # also where the caller has switched gradients off
def _signals(model, inputs):
    """Per layer the arguments of :func:`_kernel`, in the order of the calls; and the outputs' shape."""
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
    layers = [
        (_unit(h.clone()), _unit(g), _unfolding(layer))
        for (layer, (h, _)), g in zip(seen.items(), gradients, strict=True)
    ]
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
        where = f"layer {name}" if name else "the model"
        where = f"{where} ({type(module).__name__})"
        if isinstance(module, NORMS) and module.running_mean is None:
            raise ValueError(f"{where} mixes examples: a batch normalisation without running statistics")
        own = dict(module.named_parameters(recurse=False))
        if any(parameter.is_inference() for parameter in own.values()):
            raise ValueError(f"{where} was made in inference mode, in which nothing has a gradient")
        if isinstance(module, LAYERS) and "weight" not in own:
            raise ValueError(f"{where} computes its weight from other parameters")
        if own and not isinstance(module, LAYERS + LEFT_OUT):
            raise ValueError(
                f"{where} has parameters ({', '.join(own)}), but is neither nn.Linear nor nn.Conv2d"
            )
        _check(name or "model", module)
    weights = [module.weight for module in model.modules() if isinstance(module, LAYERS)]
    if not weights:
        raise ValueError("the model has no linear or convolutional layers")
    if len(set(map(id, weights))) < len(weights):
        raise ValueError("layers share one weight")


def _watch(model, inputs):
    """ValueError for layers and networks that would go wrong.

    inputs : one or two examples. Outputs of neither may depend on rows of the other, inside the network or
    before it; the first one alone must give the same outputs; and the gradient by each weight must be the sum
    of (gradient by the layer's output) × (its input) over rows and positions, of which the kernel is made.
    """
    layers = {name: m for name, m in model.named_modules() if isinstance(m, LAYERS)}
    weights = {name: layer.weight.detach().requires_grad_(True) for name, layer in layers.items()}
    seen = {}

    def look(name):
        def hook(layer, arguments, output):
            if name in seen:
                raise ValueError(f"layer {name} is used more than once")
            if not arguments:
                raise ValueError(f"layer {name} is called by keyword: hand its input by position")
            seen[name] = arguments[0].detach().clone(), output
            return output.clone()  # what follows may work in place

        return hook

    handles = [layer.register_forward_hook(look(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            x = inputs.detach().clone().requires_grad_(True)
            called = {f"{name}.weight".lstrip("."): weight for name, weight in weights.items()}
            outputs = torch.func.functional_call(model, called, (x,))
            for handle in handles:
                handle.remove()
            _inspect(layers, weights, seen, x, outputs, lambda: model(inputs[:1]))
    finally:
        for handle in handles:
            handle.remove()


def _inspect(layers, weights, seen, x, outputs, alone):
    shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[0] != len(x):
        raise ValueError(f"the model must return one tensor (n, k), not {shape} for {len(x)} examples")
    for name in layers:
        if name not in seen:
            raise ValueError(f"layer {name} is not called, so that it has no outputs to look at")
        h, output = seen[name]
        if isinstance(layers[name], nn.Linear) and h.ndim != 2:
            raise ValueError(f"layer {name} is linear, but its input is {tuple(h.shape)}, not (n, features)")
        if len(output) != len(x):
            raise ValueError(f"layer {name} has {len(output)} rows for {len(x)} examples")
        if not output.requires_grad:
            raise ValueError(f"layer {name} is called without gradients")
    if not outputs.requires_grad:
        raise ValueError("the model's outputs have no gradient")
    if not outputs.isfinite().all():
        raise ValueError("the model's outputs are not finite")
    # Unequal factors, so that outputs which add up to a constant do not cancel.
    factors = torch.linspace(0.5, 1, outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
    sums = outputs @ factors
    inner = [x, *(output for _, output in seen.values())]
    for i, other in ((0, 1), (1, 0))[: len(x)]:
        gradients = torch.autograd.grad(sums[i], inner, retain_graph=True, materialize_grads=True)
        if any(gradient[other : other + 1].any() for gradient in gradients):
            raise ValueError("the model mixes examples, or their order")
    with torch.no_grad():
        again = alone()
    if not _same(outputs[:1].detach(), again):
        raise ValueError("the model is random in evaluation mode, or mixes examples: outputs change")
    gradients = torch.autograd.grad(sums.sum(), [*inner[1:], *weights.values()], materialize_grads=True)
    by_output = dict(zip(seen, gradients, strict=False))
    by_weight = dict(zip(weights, gradients[len(seen) :], strict=True))
    for name, (h, _) in seen.items():
        if not _same(by_weight[name], _product(layers[name], h, by_output[name])):
            raise ValueError(
                f"layer {name} does more with its weight than nn.{_base(layers[name])} does, or its weight "
                "is used outside it"
            )


def _product(layer, h, gradient):
    """Gradient by the weight of a layer with input ``h``; None where the shapes are none of such a layer."""
    try:
        if isinstance(layer, nn.Linear):
            return gradient.T @ h
        options = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
        return nn.grad.conv2d_weight(h, layer.weight.shape, gradient, **options)
    except RuntimeError:
        return None


def _same(values, others):
    """Whether two tensors differ by no more than rounding."""
    if others is None or values.shape != others.shape:
        return False
    return bool((values - others).norm() <= torch.finfo(values.dtype).eps ** 0.5 * values.norm())


def _base(layer):
    return next(kind.__name__ for kind in LAYERS if isinstance(layer, kind))
