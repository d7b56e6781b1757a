"""A network with one hidden ReLU layer and one output, trained by Adam on the mean squared error.

    f(x) = a · max(W x + b, 0) + c,    loss = mean over the batch of (f(x) − y)²

A step of so small a network is dispatch, not arithmetic: forward and backward pass are written out
on one flat vector of parameters and one of gradients, which ``torch.optim.Adam(fused=True)`` updates
in one call. Reference: autograd and ``torch.optim.Adam`` on ``nn.Sequential``, in this module's test.
Runs on CPU and CUDA, without a synchronisation inside a step.

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


def adam_step(network, x, y):
    """A step for :func:`alignbook.training.loop.train` that trains a :class:`TwoLayer` in place.

    x (n, in_features), y (n,) : the network's dtype and device. The rate is Adam's step size; β = (0.9,
    0.999) and ε = 1e-8 are the defaults of Kingma and Ba. The loss is the mean squared error.
    """
    parameter = torch.nn.Parameter(network.flat)  # shares the network's memory
    parameter.grad = network.gradient
    optimiser = torch.optim.Adam([parameter], fused=True)

    def step(index, rate):
        optimiser.param_groups[0]["lr"] = rate
        total = network.backward(x.index_select(0, index), y.index_select(0, index))
        optimiser.step()
        return total / len(index)

    return step
