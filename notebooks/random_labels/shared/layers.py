"""The layers of a network that can be handed on to another (Maennel et al. 2020, Figures 6, 9, 12 to 15)."""

from torch import nn

from alignbook.training.deep import ResNet18
from alignbook.training.nets import SimpleCNN, he_normal_layer_


def parts(net):
    """The layers of ``net`` that can be transferred, from the input on: modules in a list.

    Convolutions (and the dense layer of SimpleCNN, after them); of a ResNet-18 its first convolution, then
    its stages, the last with the normalisation after it.
    """
    if isinstance(net, ResNet18):
        return [[net.stem], *([stage] for stage in net.stages[:-1]), [net.stages[-1], net.norm]]
    if isinstance(net, SimpleCNN):
        return [*([conv] for conv in net.convs), [net.dense]]
    return [[conv] for conv in net.convs]


def transfer_(net, source, layers):
    """Give ``net`` the first ``layers`` of :func:`parts` of ``source``; returns ``net``."""
    for to, made in zip(parts(net)[:layers], parts(source)[:layers], strict=True):
        for one, other in zip(to, made, strict=True):
            one.load_state_dict(other.state_dict())
    return net


def draw_layer_(layer, init, scale, generator):
    """Draw a convolution or dense layer anew: He normal ("he", A.3) or "orthogonal" (B.2), times ``scale``.

    Orthogonal: the weights as a matrix (outputs × fan-in) have orthonormal rows or columns, times ``scale``;
    biases are zero.
    """
    if init == "he":
        he_normal_layer_(layer, scale, generator)
        return
    nn.init.orthogonal_(layer.weight, scale, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
