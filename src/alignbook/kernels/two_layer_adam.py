"""A network with one hidden ReLU layer and one output, trained by Adam on the mean squared error.

    f(x) = a · max(W x + b, 0) + c,    loss = mean over the batch of (f(x) − y)²

A step of so small a network is dispatch, not arithmetic: forward and backward pass are written out
on one flat vector of parameters and one of gradients, which ``torch.optim.Adam(fused=True)`` updates
in one call. Reference: autograd and ``torch.optim.Adam`` on ``nn.Sequential``, in this module's test.
Runs on CPU and CUDA, with one synchronisation per epoch.

float64 by default: squared gradients of inputs far from a radial basis function's centre fall below
the smallest normal float32, and arithmetic on such numbers is twice as slow on a CPU.
"""

import math

import torch


class TwoLayer:
    """in_features → width → 1, with its gradient.

    generator : CPU torch.Generator of the initial weights and biases, uniform on ± 1/√fan_in,
        which is the default of ``nn.Linear``
    device, dtype : where and in what to compute; the initial weights are the same on every device

    Attributes: ``flat`` (P,) all parameters; ``W`` (width, in_features), ``b`` (width,), ``a``
    (width,) and ``c`` (1,) are views of it; ``gradient`` (P,) in the same order.
    """

    def __init__(self, in_features, width, generator, *, device="cpu", dtype=torch.float64):
        self._shapes = ((width, in_features), (width,), (width,), (1,))
        bounds = [1 / math.sqrt(in_features)] * 2 + [1 / math.sqrt(width)] * 2
        draws = [
            (2 * torch.rand(math.prod(shape), generator=generator, dtype=torch.float64) - 1) * bound
            for shape, bound in zip(self._shapes, bounds, strict=True)
        ]
        self.flat = torch.cat(draws).to(device, dtype)
        self.gradient = torch.zeros_like(self.flat)
        self.W, self.b, self.a, self.c = self._views(self.flat)
        self._gradients = self._views(self.gradient)

    def _views(self, flat):
        pieces = flat.split([math.prod(shape) for shape in self._shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def hidden(self, x):
        """The hidden representation (n, width) of ``x`` (n, in_features): max(W x + b, 0)."""
        return torch.addmm(self.b, x, self.W.t()).relu_()

    def backward(self, x, y):
        """Overwrite ``gradient`` with that of the loss on x (n, in_features), y (n,).

        Returns the sum of squared errors before the update, () tensor.
        """
        grad_W, grad_b, grad_a, grad_c = self._gradients
        hidden = self.hidden(x)  # (n, width)
        residual = torch.addmv(self.c.expand(len(y)), hidden, self.a).sub_(y)  # (n,)
        total = residual.dot(residual)
        residual.mul_(2 / len(y))  # dloss/df
        torch.mv(hidden.t(), residual, out=grad_a)
        torch.sum(residual, 0, keepdim=True, out=grad_c)
        delta = torch.outer(residual, self.a).mul_(hidden.sign_())  # (n, width); hidden is used up
        torch.mm(delta.t(), x, out=grad_W)
        torch.sum(delta, 0, out=grad_b)
        return total


@torch.no_grad()
def adam_epochs(network, x, y, *, batch_size, step_size, generator):
    """Train ``network`` (a :class:`TwoLayer`) in place, without end; one epoch per ``next``.

    x (n, in_features), y (n,) : the network's dtype and device
    batch_size : the last batch of an epoch is smaller when n is not a multiple of it
    step_size : Adam's; β = (0.9, 0.999) and ε = 1e-8, the defaults of Kingma and Ba
    generator : CPU torch.Generator that shuffles every epoch

    Yields the mean squared error over the epoch, each batch's before its update, float.
    """
    parameter = torch.nn.Parameter(network.flat)  # shares the network's memory
    parameter.grad = network.gradient
    optimiser = torch.optim.Adam([parameter], lr=step_size, fused=True)
    while True:
        order = torch.randperm(len(y), generator=generator).to(x.device)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for batch_x, batch_y in zip(x[order].split(batch_size), y[order].split(batch_size), strict=True):
            total += network.backward(batch_x, batch_y)
            optimiser.step()
        yield float(total) / len(y)
