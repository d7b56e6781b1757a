"""Hessians, Jacobians and tangent kernels held whole: what kernels and metrics are compared with."""

import numpy as np
import torch
from torch.func import functional_call, jacrev
from torch.nn.functional import one_hot


def hessian(model, loss, inputs, targets, names=None):
    """∇² of the loss by the parameters of these names, by default those that require gradients, flattened."""
    weights = {
        name: weight.detach()
        for name, weight in model.named_parameters()
        if (weight.requires_grad if names is None else name in names)
    }
    sizes = [weight.numel() for weight in weights.values()]

    def value(flat):
        parts = zip(weights.items(), flat.split(sizes), strict=True)
        moved = {name: part.view_as(weight) for (name, weight), part in parts}
        return loss(functional_call(model, moved, (inputs,)), targets)

    return jacrev(jacrev(value))(torch.cat([weight.flatten() for weight in weights.values()])).detach()


def largest(values, k):
    """The k of the largest magnitude, largest first."""
    values = np.asarray(values, dtype=np.float64)
    return values[np.argsort(-np.abs(values), kind="stable")][:k]


def jacobian(model, inputs, names):
    """(n k, entries) of outputs (n, k) by the parameters of these names."""
    weights = {name: model.get_parameter(name).detach() for name in names}
    parts = jacrev(lambda moved: functional_call(model, moved, (inputs.clone(),)))(weights)
    return torch.cat([parts[name].flatten(2) for name in names], 2).flatten(0, 1).detach()


def layers(model):
    """Names of the weights of linear and convolutional layers."""
    return [name for name, weight in model.named_parameters() if name.endswith("weight") and weight.ndim > 1]


def alignments(model, inputs, labels):
    """Of each layer's tangent kernel with the labels (Lou et al., Equations 6 and 7)."""
    outputs = model(inputs.clone())
    target = one_hot(labels, outputs.shape[1]).double().flatten()
    target = target - target.mean()
    values = []
    for name in layers(model):
        rows = jacobian(model, inputs, [name])
        centred = rows - rows.mean(0)
        kernel = centred @ centred.T
        values.append(target @ kernel @ target / (kernel.norm() * target.square().sum()))
    return torch.stack(values).numpy()
