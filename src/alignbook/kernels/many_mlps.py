"""Gradient descent on many equal fully connected networks, all seeds of a condition in one program.

On CUDA all networks go through every product together. A CPU gains nothing from that: activations of
many networks only drive each other out of its caches. There, networks are taken one after the other (small
ones several at once) in blocks of examples whose activations are still in the cache when the backward
pass wants them, without autograd and with buffers that are allocated once per step.
"""

import torch

from alignbook.kernels.products import float32_products

CACHED = 2048  # examples in a block on a CPU; 256 units wide, its buffers are 6 MiB


def step(weights, biases, x, targets, rate):
    """One step of full-batch gradient descent for K ReLU networks, in place; returns losses (K,) in nats.

    weights : list of (K, in, out); biases : list of (K, 1, out); x : (K, N, in); targets : (K, N, classes)
    one-hot. The loss of each network is its mean cross-entropy, before the step. Float32 products on a
    CPU: :mod:`alignbook.kernels.products`. Reference: one network at a time with autograd, in the test.
    """
    networks, examples, _ = x.shape
    together, rows = networks, examples
    if x.device.type == "cpu":
        together, rows = min(networks, max(1, CACHED // examples)), min(CACHED, examples)
    widths = [weight.shape[2] for weight in weights]
    buffers = [x.new_empty(together * rows * width) for width in [*widths, max(widths)]]
    losses = x.new_zeros(networks)
    with float32_products():
        for start in range(0, networks, together):
            block = slice(start, start + together)
            layers = [(w[block], b[block]) for w, b in zip(weights, biases, strict=True)]
            # Held as (K, out, in): with few outputs a product into (in, out) takes ten times as long.
            gradients = [(w.new_zeros(w.mT.shape), torch.zeros_like(b)) for w, b in layers]
            pieces = zip(x[block].split(rows, 1), targets[block].split(rows, 1), strict=True)
            for inputs, wanted in pieces:
                losses[block] += _accumulate(layers, gradients, inputs, wanted, buffers)
            for parameters, gradient in zip(layers, gradients, strict=True):
                parameters[0].sub_(gradient[0].mT, alpha=rate / examples)
                parameters[1].sub_(gradient[1], alpha=rate / examples)
    return losses.div_(examples)


def _accumulate(layers, gradients, x, targets, buffers):
    """Add the summed loss's gradients on x (K, n, in) to ``gradients``; returns the loss, (K,)."""

    def view(buffer, *shape):
        return buffer[: len(x) * shape[0] * shape[1]].view(len(x), *shape)

    n = x.shape[1]
    below = [x]
    for (weight, bias), buffer in zip(layers[:-1], buffers, strict=False):
        output = torch.bmm(below[-1], weight, out=view(buffer, n, weight.shape[2]))
        below.append(output.add_(bias).relu_())
    # The logits as (K, classes, n): a softmax over the last dimension is slow when that is short.
    weight, bias = (parameter.transpose(1, 2) for parameter in layers[-1])
    logits = torch.bmm(weight, below[-1].transpose(1, 2), out=view(buffers[-2], weight.shape[1], n))
    log_p = torch.log_softmax(logits.add_(bias), 1)
    targets = targets.transpose(1, 2)
    losses = -(log_p * targets).sum((1, 2))
    error = log_p.exp_().sub_(targets).transpose(1, 2)  # gradient at the logits, (K, n, classes)
    for layer in reversed(range(len(layers))):
        weight_gradient, bias_gradient = gradients[layer]
        hidden = below[layer]
        weight_gradient.baddbmm_(error.transpose(1, 2), hidden)
        bias_gradient.add_(error.sum(1, keepdim=True))
        if layer:
            spare = view(buffers[-1], n, hidden.shape[2])
            torch.bmm(error, layers[layer][0].transpose(1, 2), out=spare)
            # Zero where the unit was off, written over the activations, which nobody needs any more.
            error = torch.ops.aten.threshold_backward.grad_input(spare, hidden, 0, grad_input=hidden)
    return losses
