"""Residual networks for 32×32 images, in place of the paper's ResNet-50 (ICLR 2020 submission, Appendix A).

A 3×3 convolution, three stages of basic blocks (He et al. 2016) whose width doubles and whose resolution
halves from stage to stage, the mean over places, a linear head.
"""

import math

import torch
from torch import nn

from .nets import he_normal_layer_


class Block(nn.Module):
    """Two 3×3 convolutions with batch norm beside a shortcut, which projects where the shape changes.

    The projection is a 1×1 convolution of every other place: written as such, since PyTorch 2.13's own 1×1
    convolution with stride 2 writes past its memory on CPUs with AVX2 when there are few channels.
    """

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.stride = stride
        self.shortcut = None
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        if self.shortcut is not None:
            x = self.shortcut(x[:, :, :: self.stride, :: self.stride])
        return (y + x).relu()


class ResNet(nn.Module):
    """Maps images (n, channels, H, W) to logits (n, classes).

    width : filters of the first stage; the others have 2·width and 4·width. blocks : per stage.
    stride : of the first convolution. 1 is the network of He et al. for CIFAR; 2 (our default) computes
    everything at half the resolution, at a quarter of the cost.
    generator : CPU torch.Generator; convolutions are drawn He normal (fan-in), the head as
    :func:`fresh_head_` does. None leaves all as PyTorch makes them.
    """

    def __init__(self, classes, *, width=32, blocks=1, channels=3, stride=2, generator=None):
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        widths = [width, width, 2 * width, 4 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(
                *(
                    Block(widths[s] if b == 0 else widths[s + 1], widths[s + 1], 2 if s and b == 0 else 1)
                    for b in range(blocks)
                )
            )
            for s in range(3)
        )
        self.head = nn.Linear(widths[-1], classes)
        if generator is not None:
            for _, layer in conv_layers(self):
                he_normal_layer_(layer, 1, generator)
            fresh_head_(self, classes, generator)

    def features(self, x):
        """What the head reads, (n, 4·width)."""
        x = self.norm(self.stem(x)).relu()
        for stage in self.stages:
            x = stage(x)
        return x.mean((2, 3))

    def forward(self, x):
        """Logits (n, classes)."""
        return self.head(self.features(x))


def conv_layers(net):
    """[(name, module)] of the convolutions of ``net``, from the input on; ``net.get_submodule(name)``."""
    return [(name, module) for name, module in net.named_modules() if isinstance(module, nn.Conv2d)]


@torch.no_grad()
def fresh_head_(net, classes, generator):
    """Put a new linear ``net.head`` with ``classes`` outputs in place of the old one; returns ``net``.

    Weights and biases are uniform in ±1/√fan_in, as PyTorch makes them, but drawn from ``generator`` (CPU).
    """
    old = net.head
    head = nn.utils.skip_init(nn.Linear, old.in_features, classes)  # without PyTorch's own draws
    for parameter in head.parameters():
        parameter.uniform_(-1, 1, generator=generator).div_(math.sqrt(old.in_features))
    net.head = head.to(old.weight)
    return net
