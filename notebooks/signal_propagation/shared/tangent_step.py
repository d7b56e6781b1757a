"""What one step of gradient descent does to ΨỸ, and what foretells it (Lou et al. 2022, Appendix B.4).

With outputs F ∈ R^{nk}, tangent features Ψ = ∂F/∂θ (parameters × nk), w = ∇_F L and H_v = Σ v·∂²F/∂θ². H_v is
the Hessian of Σ v·F with v held: its products need no matrix. It is taken almost everywhere; what a step adds
to ΨỸ where a ReLU switches is in none of the predictions.
"""

import torch
from torch import nn

from alignbook.kernels.hessian_product import HessianProduct
from companion.studies.signal_propagation.shared.dense import centred_labels, error_signal


def second_order(net, x, y, rate):
    """A step of gradient descent from ``net`` on x (n, d), y (n,) with rate η > 0, and what foretells it.

    net : nn.Sequential of linear layers and ReLUs, in x's precision, left as it was.
    Returns a dict of cosines, and ΨỸ, its change ΔΨỸ and -H_w ΨỸ, (P,) each:

    predicted : ΔΨỸ, -H_w ΨỸ. first_order : ΔΨỸ, -H_Ỹ Ψw. relus_held : the same for the change if every
    ReLU stayed on or off as it was. swapped : H_Ỹ Ψw, H_w ΨỸ. gradients : -Ψw, ΨỸ. collinearity : -w, Ỹ.
    theorem_a : no cosine but the relative error of H_w θ = (L - 1) ∇L.
    """
    centred = centred_labels(y).to(x.dtype)
    with torch.no_grad():
        w = error_signal(net(x), y)
    theta = flat(net)
    features, descent = gradient(net, x, centred), gradient(net, x, w)
    by_w = product(net, x, w)
    predicted, first = -by_w(features), -product(net, x, centred)(descent)
    error = by_w(theta) - (layers_of(net) - 1) * descent
    fixed = held(net, x)
    put(net, theta - rate * descent)
    change = gradient(net, x, centred) - features
    smooth = gradient(fixed, x, centred) - features  # its layers are those of net
    put(net, theta)
    row = {
        "predicted": cosine(change, predicted),
        "first_order": cosine(change, first),
        "relus_held": cosine(smooth, first),
        "swapped": cosine(first, predicted),
        "gradients": -cosine(descent, features),
        "collinearity": -cosine(w, centred),
        "theorem_a": float(error.norm() / ((layers_of(net) - 1) * descent.norm())),
    }
    return row, features, change, predicted


class Mask(nn.Module):
    """Multiplies (n, width) by a constant of the same shape."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, z):
        return z * self.mask


@torch.no_grad()
def held(net, x):
    """``net`` with the same layers, its ReLUs held on or off as they are on x, the only input it takes."""
    modules, h = [], x
    for module in net:
        if isinstance(module, nn.ReLU):
            module = Mask((h > 0).to(h.dtype))
        modules.append(module)
        h = module(h)
    return nn.Sequential(*modules)


def weighted(outputs, weights):
    """Σ v·F: its gradient by the parameters is Ψv, its Hessian H_v, as long as v is held."""
    return (outputs * weights).sum()


def product(net, x, v):
    """u ↦ H_v u for u (P,), P the number of parameters."""
    size = sum(p.numel() for p in net.parameters())
    return HessianProduct(net, weighted, x, v, len(x), least=size)  # in entries of θ, not of their span


def gradient(net, x, v):
    """Ψv, (P,)."""
    parts = torch.autograd.grad(weighted(net(x), v), list(net.parameters()))
    return torch.cat([part.reshape(-1) for part in parts])


def flat(net):
    """All parameters, (P,), a copy."""
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()


def put(net, theta):
    """Write ``theta`` (P,) into ``net``, which is returned."""
    with torch.no_grad():
        for p, part in zip(net.parameters(), split(net, theta), strict=True):
            p.copy_(part.view_as(p))
    return net


def split(net, vector):
    """The parts of ``vector`` (P,) that belong to each layer."""
    return vector.split([p.numel() for p in net.parameters()])


def layers_of(net):
    """How many linear layers, L."""
    return len(list(net.parameters()))


def cosine(a, b):
    """Cosine of two tensors as vectors, a float."""
    return float((a * b).sum() / (a.norm() * b.norm()))
