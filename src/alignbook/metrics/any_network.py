"""Layer alignments of networks of every make: what would go wrong unnoticed is refused or rewritten first.

The experiments call the function of :mod:`alignbook.metrics.tangent_alignment`, on networks of their own.
"""

from contextlib import ExitStack, contextmanager
from functools import wraps

import torch
from torch import nn
from torch.nn import functional

from .tangent_alignment import LAYERS, LEFT_OUT, _check
from .tangent_alignment import tangent_alignment as plain

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@wraps(plain)  # and its docstring
@torch.inference_mode(False)  # also where the caller is in it
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
        # A network that changes its input in place must change neither the caller's nor a leaf of the graph.
        handle = model.register_forward_pre_hook(lambda _, given: (given[0].clone(),), prepend=True)
        stack.callback(handle.remove)
        for name in _watch(model, inputs[:2]):
            stack.enter_context(_as_linear(model, name))
        return plain(model, inputs, labels)


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
    if len(set(map(id, weights))) < len(weights):
        raise ValueError("layers share one weight")


def _watch(model, inputs):
    """Names of the convolutions with one output position; ValueError for layers that would go wrong.

    inputs : one or two examples. The network must give the same outputs a second time; the first example's
    must not depend on rows of the second; and the gradient by each weight must be the sum of (gradient by the
    layer's output) × (its input) over rows and positions, of which the kernel is made.
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

    training = [module for module in model.modules() if module.training]
    handles = [layer.register_forward_hook(look(name)) for name, layer in layers.items()]
    try:
        model.eval()
        with torch.enable_grad():
            x = inputs.detach().clone().requires_grad_(True)
            called = {f"{name}.weight".lstrip("."): weight for name, weight in weights.items()}
            outputs = torch.func.functional_call(model, called, (x,))
            for handle in handles:
                handle.remove()
            with torch.no_grad():
                again = model(inputs)
            return _inspect(layers, weights, seen, x, outputs, again)
    finally:
        for handle in handles:
            handle.remove()
        for module in training:
            module.training = True


def _inspect(layers, weights, seen, x, outputs, again):
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != len(x):
        shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(f"the model must return one tensor (n, k), not {shape}")
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
    if not outputs.isfinite().all():
        raise ValueError("the model's outputs are not finite")
    if not _same(outputs.detach(), again):
        raise ValueError("the model is random in evaluation mode: its outputs differ from call to call")
    # Unequal factors, so that outputs which add up to a constant do not cancel.
    factors = torch.arange(1, outputs.shape[1] + 1, dtype=outputs.dtype, device=outputs.device)
    sums = outputs @ factors
    inner = [x, *(output for _, output in seen.values())]
    first = torch.autograd.grad(sums[0], inner, retain_graph=True, materialize_grads=True)
    if any(gradient[1:].any() for gradient in first):
        raise ValueError("the model mixes examples, or their order")
    gradients = torch.autograd.grad(sums.sum(), [*inner[1:], *weights.values()], materialize_grads=True)
    by_output = dict(zip(seen, gradients, strict=False))
    by_weight = dict(zip(weights, gradients[len(seen) :], strict=True))
    for name, (h, _) in seen.items():
        if not _same(by_weight[name], _product(layers[name], h, by_output[name])):
            raise ValueError(
                f"layer {name} does more with its weight than nn.{_base(layers[name])} does, or its weight "
                "is used outside it"
            )
    return [name for name, (_, output) in seen.items() if output.ndim == 4 and output.shape[2:].numel() == 1]


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


@contextmanager
def _as_linear(model, name):
    parent, _, last = name.rpartition(".")
    parent = model.get_submodule(parent)
    convolution = getattr(parent, last)
    setattr(parent, last, _AsLinear(convolution))
    try:
        yield
    finally:
        setattr(parent, last, convolution)


class _AsLinear(nn.Module):
    """A convolution with one output position: the linear layer on all that it sees."""

    def __init__(self, convolution):
        super().__init__()
        self.replaced = (convolution,)  # in a tuple, so that it is no submodule
        names = ("kernel_size", "dilation", "padding", "stride")
        self.unfold = {name: getattr(convolution, name) for name in names}
        weight = convolution.weight.detach().flatten(1)
        self.linear = nn.Linear(*weight.shape[::-1], device="meta")  # draws no random numbers
        self.linear.weight = nn.Parameter(weight)
        self.linear.bias = convolution.bias

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.replaced[0], name)

    def forward(self, x):
        return self.linear(functional.unfold(x, **self.unfold)[..., 0])[..., None, None]
