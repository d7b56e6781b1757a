"""Fully connected ReLU networks without biases, trained by SGD with momentum.

    z_1 = W_1 x,   z_l = W_l max(z_{l-1}, 0) for 2 <= l <= L            (Lou et al. 2022, Eq. 8)
    v <- momentum v + (dLoss/dW + weight_decay W),   W <- W - rate v     (torch.optim.SGD)

Loss: softmax cross-entropy, mean over the batch. A hundred narrow layers on a batch of 128 spend more
time in dispatch and autograd than in arithmetic; here forward pass, backward pass and update are
written out on buffers that are allocated once, the gradient is accumulated into the velocity by the
matrix product itself, and the update touches all layers at once. Reference: autograd and
``torch.optim.SGD`` on :meth:`MLP.sequential`, in this module's test. Runs on CPU and CUDA, without a
synchronisation inside a step; on CUDA steps are soon replayed from a recording of their kernels
(:mod:`alignbook.kernels.cuda_graph`), for which it waits once.
"""

import math

import torch
from torch import nn

from .cuda_graph import replayed


class MLP:
    """``depth`` linear layers of sizes d -> width -> ... -> width -> classes, with their velocity.

    in_features, width, depth, classes : ints; depth >= 2
    generator : CPU torch.Generator of the He initialisation N(0, 2 / fan_in), every layer
    device, dtype : where and in what to compute; the initial weights are the same on every device

    Attributes: ``flat`` (P,) all parameters, ``weights`` list of (out, in) views of it.
    Raises ValueError for fewer than two layers.
    """

    def __init__(self, in_features, width, depth, classes, generator, *, device="cpu", dtype=torch.float32):
        if depth < 2:
            raise ValueError(f"depth {depth}: at least two linear layers are needed")
        sizes = [in_features] + [width] * (depth - 1) + [classes]
        self.shapes = [(out, fan_in) for fan_in, out in zip(sizes, sizes[1:], strict=False)]
        count = sum(out * fan_in for out, fan_in in self.shapes)
        self.flat = torch.empty(count, device=device, dtype=dtype)
        self.velocity = torch.zeros_like(self.flat)
        self.weights, self._velocities = self._split(self.flat), self._split(self.velocity)
        for weight in self.weights:
            draw = torch.randn(weight.shape, generator=generator, dtype=dtype)
            weight.copy_(draw * math.sqrt(2 / weight.shape[1]))
        self._buffers = {}  # batch size -> activations and gradients; two entries: whole and last batch

    def _split(self, flat):
        pieces = flat.split([out * fan_in for out, fan_in in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def _buffer(self, batch):
        if batch not in self._buffers:

            def empty(columns):
                return torch.empty(batch, columns, device=self.flat.device, dtype=self.flat.dtype)

            width = self.shapes[0][0]
            outputs = [empty(out) for out, _ in self.shapes]
            self._buffers[batch] = outputs, empty(width), empty(width), empty(self.shapes[-1][0])
        return self._buffers[batch]

    def logits(self, inputs):
        """Network outputs (n, classes) for ``inputs`` (n, d); new memory, no buffers."""
        hidden = inputs
        for weight in self.weights[:-1]:
            hidden = torch.mm(hidden, weight.t()).relu_()
        return torch.mm(hidden, self.weights[-1].t())

    @replayed
    def step(self, inputs, labels, learning_rate, momentum, weight_decay):
        """One update on a batch: inputs (b, d), labels (b,) int64. Returns the loss before it, () tensor."""
        batch = len(inputs)
        outputs, delta, other, delta_out = self._buffer(batch)

        hidden = inputs
        for weight, output in zip(self.weights[:-1], outputs[:-1], strict=True):
            hidden = torch.mm(hidden, weight.t(), out=output).relu_()  # (b, width)
        torch.mm(hidden, self.weights[-1].t(), out=outputs[-1])  # (b, classes)

        # dLoss/dz_L = (softmax(z_L) - one-hot) / b
        log_p = torch.log_softmax(outputs[-1], 1)
        index = labels[:, None]
        loss = log_p.gather(1, index).mean().neg_()
        torch.exp(log_p, out=delta_out)
        delta_out.scatter_add_(1, index, torch.full_like(log_p[:, :1], -1.0)).div_(batch)

        gradient = delta_out
        for layer in range(len(self.weights) - 1, 0, -1):
            hidden = outputs[layer - 1]
            self._velocities[layer].addmm_(gradient.t(), hidden, beta=momentum)
            target = delta if gradient is not delta else other
            torch.mm(gradient, self.weights[layer], out=target)
            gradient = target.mul_(hidden.sign_())  # hidden >= 0 and no longer needed: its sign is the mask
        self._velocities[0].addmm_(gradient.t(), inputs, beta=momentum)

        if weight_decay:
            self.velocity.add_(self.flat, alpha=weight_decay)
        self.flat.add_(self.velocity, alpha=-learning_rate)
        return loss

    def sequential(self):
        """The network as ``nn.Sequential`` of nn.Linear and nn.ReLU, with a copy of the weights."""
        modules = []
        for weight in self.weights:
            linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
            linear.weight = nn.Parameter(weight.clone())
            modules += [linear, nn.ReLU()]
        return nn.Sequential(*modules[:-1])
