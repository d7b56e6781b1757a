"""How the loss varies along its gradient (ICLR 2020 submission on transferability, Figures 6 and 11)."""

from dataclasses import dataclass

import numpy as np
import torch

from .landscape import batch_norm, loss_at


@dataclass(frozen=True)
class LossVariation:
    """The loss before and after steps along its gradient.

    Attributes
    ----------
    lengths : (k,) float64 array
        The s that were asked for.
    loss : (k,) float64 array
        After a step of each length; it may be inf or nan.
    start : float
        The loss before.
    gradient_norm : float
        ‖∇L‖.
    variation : float
        Largest minus smallest of all losses, the start included.
    """

    lengths: np.ndarray
    loss: np.ndarray
    start: float
    gradient_norm: float
    variation: float


@torch.inference_mode(False)  # also where the caller is in it
def loss_variation(model, loss, inputs, targets, lengths, scaled=True, mode="train"):
    """The loss after steps of several lengths along its gradient (ICLR 2020, Section 4 and Appendix A).

    Parameters
    ----------
    model : torch.nn.Module
        Left as it was, bit for bit, gradients and running statistics included. The gradient is that of all
        parameters that require gradients.
    loss : callable
        ``loss(outputs, targets)`` returns a scalar.
    inputs, targets : (n, …) tensors
        On the model's device, taken in one batch.
    lengths : sequence of float
        The factors s of the steps, in any order; the paper leaves their range open.
    scaled : bool
        If True, a step has length s ‖∇L‖, "the size of gradient" (Figure 6); if False, length s (Figure 11).
    mode : {"train", "eval"}
        "train" normalises batches with their own statistics, as the step in training does; "eval" with the
        running ones. All but batch norm is in evaluation mode in both.

    Returns
    -------
    LossVariation

    Raises
    ------
    ValueError
        Where lengths are none or not finite, the loss at the start or its gradient is not finite, or the
        gradient is zero and to be scaled to length one; for a model that answers differently twice.

    Notes
    -----
    The loss at θ - s ∇L(θ), after Santurkar et al. 2018, https://arxiv.org/abs/1805.11604. Cost: one gradient
    and a forward pass per length.

    Examples
    --------
    >>> import torch
    >>> from alignbook import loss_variation
    >>> model = torch.nn.Linear(1, 1, bias=False).double()
    >>> _ = model.weight.data.fill_(1.0)
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> found = loss_variation(model, torch.nn.functional.mse_loss, one, 0 * one, [0.5, 1.0], scaled=False)
    >>> print(found.loss, found.variation)  # of w² at w = 1, steps of a half and of one
    [0.25 0.  ] 1.0
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    if lengths.ndim != 1 or len(lengths) == 0 or not np.isfinite(lengths).all():
        raise ValueError("lengths must be a list of finite numbers, at least one")
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise ValueError("no parameter requires a gradient")
    with batch_norm(model, mode), torch.autocast(inputs.device.type, enabled=False):
        buffers = {name: value.clone() for name, value in model.named_buffers()}
        with torch.enable_grad():
            outputs = torch.func.functional_call(model, {**parameters, **buffers}, (inputs,))
            value = loss(outputs, targets)
            found = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
        start = float(value.detach())
        norm = float(torch.stack([part.double().square().sum() for part in found]).sum().sqrt())
        if not np.isfinite([start, norm]).all():
            raise ValueError(f"the loss is {start}, its gradient has norm {norm}")
        if not scaled and norm == 0:
            raise ValueError("the gradient is zero: it has no direction")
        with torch.no_grad():
            losses = np.empty(len(lengths))
            for i, length in enumerate(lengths if scaled else lengths / norm):
                moved = {
                    name: parameter - float(length) * part
                    for (name, parameter), part in zip(parameters.items(), found, strict=True)
                }
                losses[i] = loss_at(model, moved, loss, inputs, targets)
    every = np.append(losses, start)
    return LossVariation(lengths, losses, start, norm, float(every.max() - every.min()))
