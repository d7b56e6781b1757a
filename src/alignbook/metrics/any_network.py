"""Layer alignments of networks of every make: what would go wrong unnoticed is refused or rewritten first.

The experiments call :func:`alignbook.metrics.tangent_alignment` itself, on networks of their own.
"""

import copy
from functools import wraps

import torch
from torch import nn
from torch.nn import functional

from . import tangent_alignment as plain
from .tangent_alignment import LAYERS, _check

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


@wraps(plain)  # and its docstring
@torch.inference_mode(False)  # also where the caller is in it
def tangent_alignment(model, inputs, labels):
    inputs, labels = (t.clone() if torch.is_inference(t) else t for t in (inputs, torch.as_tensor(labels)))
    if len(inputs) == 0:
        raise ValueError("there are no examples")
    for name, module in model.named_modules():
        _check(name or "model", module)
        if isinstance(module, NORMS) and module.running_mean is None:
            raise ValueError(f"layer {name} mixes examples: a batch normalisation without running statistics")
    single = _watch(model, inputs[:2])
    if single:
        model = copy.deepcopy(model)
        for name in single:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, _AsLinear(model.get_submodule(name)))
    return plain(model, inputs, labels)


def _watch(model, inputs):
    """Names of the convolutions with one output position; ValueError for layers that would go wrong."""
    layers = {name: m for name, m in model.named_modules() if isinstance(m, LAYERS)}
    if len({id(layer.weight) for layer in layers.values()}) < len(layers):
        raise ValueError("layers share one weight")
    seen = {}
    handles = [
        layer.register_forward_hook(lambda _, arguments, output, name=name: seen.update({name: output}))
        for name, layer in layers.items()
    ]
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        with torch.enable_grad():
            model(inputs.detach().clone().requires_grad_(True))
    finally:
        for handle in handles:
            handle.remove()
        for module in training:
            module.training = True
    for name in layers:
        if name not in seen:
            raise ValueError(f"layer {name} is not called, so that it has no outputs to look at")
        if len(seen[name]) != len(inputs):
            raise ValueError(f"layer {name} has {len(seen[name])} rows for {len(inputs)} examples")
        if not seen[name].requires_grad:
            raise ValueError(f"layer {name} is called without gradients")
    return [name for name, output in seen.items() if output.ndim == 4 and output.shape[2:].numel() == 1]


class _AsLinear(nn.Module):
    """A convolution with one output position: the linear layer on all that it sees."""

    def __init__(self, convolution):
        super().__init__()
        names = ("kernel_size", "dilation", "padding", "stride")
        self.unfold = {name: getattr(convolution, name) for name in names}
        weight = convolution.weight.detach().flatten(1)
        self.linear = nn.Linear(*weight.shape[::-1], device=weight.device, dtype=weight.dtype)
        self.linear.weight = nn.Parameter(weight)
        self.linear.bias = convolution.bias

    def forward(self, x):
        return self.linear(functional.unfold(x, **self.unfold)[..., 0])[..., None, None]
