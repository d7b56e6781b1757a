"""Gradients at the layers of a network (ICLR 2020 submission on transferability, Section 4, Figure 7)."""

import copy
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class LayerGradients:
    """inputs : {layer: ∂L_i/∂X, (n, …)}, of each example's own loss (their sum is differentiated) by what
    the layer reads. weights : {layer: ∂L/∂W}, of the mean loss, of the weight's shape.
    """

    inputs: dict
    weights: dict


@torch.inference_mode(False)  # also where the caller is in it
def layer_gradients(model, inputs, targets, layers):
    """Cross-entropy's gradient by the inputs and the weights of ``layers``, batch norm in training mode.

    model : nn.Module, left as it was. inputs (n, …), targets (n,) int64: one batch on the model's device.
    layers : names of modules with a ``weight``, each run once. What a layer reads may also go elsewhere, as
    around a residual block: the gradient by it is the whole one. With the batch's own statistics an example
    also moves the losses of others; these parts count.
    Raises ValueError for a layer that is not run.
    """
    model = copy.deepcopy(model).train()  # running statistics move: those of the copy
    read, hooks = {}, []
    modules = {name: model.get_submodule(name) for name in layers}
    for name, module in modules.items():
        hooks.append(
            module.register_forward_pre_hook(lambda module, args, name=name: read.update({name: args[0]}))
        )
    with torch.enable_grad():
        x = inputs.detach().clone().requires_grad_()  # the first layer reads the images
        loss = nn.functional.cross_entropy(model(x), targets, reduction="sum")
        for hook in hooks:
            hook.remove()
        if missing := [name for name in layers if name not in read]:
            raise ValueError(f"not run: {', '.join(missing)}")
        wanted = [read[name] for name in layers] + [module.weight for module in modules.values()]
        found = torch.autograd.grad(loss, wanted)
    count = len(modules)
    weights = (gradient / len(inputs) for gradient in found[count:])
    return LayerGradients(
        dict(zip(layers, found[:count], strict=True)), dict(zip(layers, weights, strict=True))
    )


def gradient_projections(weight, gradient):
    """How much of a layer's weight lies in the singular directions of its gradient (Figure 7c).

    weight, gradient : (out, …) tensors of the same shape, taken as matrices W, G (out, everything else);
    G = Σ_i σ_i u_i v_iᵀ, σ descending.
    Returns {"singular": σ_i, "both": |u_iᵀ W v_i|, "left": ‖u_iᵀ W‖, "right": ‖W v_i‖}, each a float64
    tensor (min(out, else),), on the CPU.
    """
    w, g = (value.detach().cpu().double().flatten(1) for value in (weight, gradient))
    u, sigma, vt = torch.linalg.svd(g, full_matrices=False)
    left, right = u.T @ w, w @ vt.T  # (r, else), (out, r)
    return {
        "singular": sigma,
        "both": (u * right).sum(0).abs(),
        "left": left.norm(dim=1),
        "right": right.norm(dim=0),
    }
