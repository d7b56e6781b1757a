"""From a pre-trained network to a downstream one (Maennel et al. 2020, Appendix A.4)."""

import math

import torch
from torch import nn


def layers_of(net):
    """The convolutions and dense layers of ``net``, in the order in which they were made."""
    return [module for module in net.modules() if isinstance(module, nn.Conv2d | nn.Linear)]


def layer_norms(net):
    """ℓ₂ norm of all parameters, weights and biases together, of each of :func:`layers_of`; floats."""
    return [
        math.sqrt(sum(parameter.detach().double().square().sum().item() for parameter in layer.parameters()))
        for layer in layers_of(net)
    ]


@torch.no_grad()
def rescale_(net, norms):
    """Multiply each layer's parameters by one positive number so that its norm is the one in ``norms``.

    ``norms`` are those of :func:`layer_norms` at initialisation. A.4 says that this leaves the
    predictions as they are; that holds exactly only where the biases of later layers are zero,
    since they are not scaled with the earlier layers. Returns ``net``.
    """
    for layer, before, after in zip(layers_of(net), norms, layer_norms(net), strict=True):
        for parameter in layer.parameters():
            parameter.mul_(before / after)
    return net


@torch.no_grad()
def copy_convolutions_(net, source, layers):
    """Give ``net`` the first ``layers`` convolutions of ``source``, filters and biases; returns ``net``."""
    for to, made in zip(net.convs[:layers], source.convs[:layers], strict=True):
        to.load_state_dict(made.state_dict())
    return net
