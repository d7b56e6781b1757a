"""Gradient descent on many equal fully connected networks in one batched program."""

import torch
from torch.nn import functional


def step(weights, biases, x, targets, rate):
    """One step of full-batch gradient descent for K ReLU networks, in place; returns losses (K,) in nats.

    weights : list of (K, in, out); biases : list of (K, 1, out); x : (K, N, in); targets : (K, N, classes)
    one-hot. The loss of each network is its mean cross-entropy, before the step. Reference: one network
    at a time with autograd, in the test.
    """
    activations = [x]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        activations.append(torch.baddbmm(bias, activations[-1], weight).relu_())  # (K, N, out)
    logits = torch.baddbmm(biases[-1], activations[-1], weights[-1])
    log_p = functional.log_softmax(logits, -1)
    losses = -(log_p * targets).sum(-1).mean(-1)
    error = log_p.exp_().sub_(targets).div_(x.shape[1])  # (K, N, classes): gradient at the logits
    for layer in reversed(range(len(weights))):
        below = activations[layer]
        previous = torch.bmm(error, weights[layer].transpose(1, 2)) if layer else None
        weights[layer].baddbmm_(below.transpose(1, 2), error, alpha=-rate)
        biases[layer].sub_(error.sum(1, keepdim=True), alpha=rate)
        if layer:
            error = previous.mul_(below > 0)
    return losses
