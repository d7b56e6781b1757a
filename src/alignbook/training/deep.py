"""VGG and ResNet-18 of any width, for images of any size (Maennel et al. 2020, A.2; Lou et al. 2022).

Weights are left as PyTorch makes them: call :func:`alignbook.training.nets.he_normal_`, or draw them as the
paper at hand says. ``width`` is that of the first convolution: 64 is the networks' own; the others keep their
ratios to it. No layer works in place, so that every layer's inputs and outputs can be kept.
"""

import math

from torch import nn
from torch.nn import functional

VGG_GROUPS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # convolutions between poolings
GROUP_WIDTHS = (1, 2, 4, 8, 8)
RESNET_WIDTHS = (1, 2, 4, 8)
NORM_GROUPS = 8  # of group normalisation


def _norm(kind, channels):
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "group":
        return nn.GroupNorm(math.gcd(NORM_GROUPS, channels), channels)
    if kind is None:
        return nn.Identity()
    raise ValueError(f"norm is {kind!r}; known: batch, group, None")


class VGG(nn.Module):
    """Convolutions 3×3 (padding 1), each with ``norm`` and ReLU, 2×2 max pooling after each group, a head.

    depth : 16 (configuration D) or 19 (E). in_shape : (C, H, W). classes : outputs of ``head``, the only
    dense layer: as at 32×32, one place is left before it where H and W are at most 32 (SAME pooling).
    norm : ``"batch"``, ``"group"`` or None. Maps (n, C, H, W) to logits (n, classes).

    The convolutions are in ``convs``, their normalisations in ``norms``. Raises ValueError for an unknown
    depth or norm.
    """

    def __init__(self, depth, in_shape, classes, *, width=64, norm=None):
        super().__init__()
        if depth not in VGG_GROUPS:
            raise ValueError(f"depth is {depth}; known: {', '.join(map(str, VGG_GROUPS))}")
        channels, height, side = in_shape
        groups = zip(VGG_GROUPS[depth], GROUP_WIDTHS, strict=True)
        widths = [width * factor for count, factor in groups for _ in range(count)]
        self.convs = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1)
            for before, after in zip([channels, *widths], widths, strict=False)
        )
        self.norms = nn.ModuleList(_norm(norm, after) for after in widths)
        ends = [sum(VGG_GROUPS[depth][: group + 1]) for group in range(len(GROUP_WIDTHS))]
        self.pooled = frozenset(ends)  # after how many convolutions a pooling comes
        places = math.ceil(height / 2 ** len(ends)) * math.ceil(side / 2 ** len(ends))
        self.head = nn.Linear(widths[-1] * places, classes)

    def features(self, x, layers):
        """What enters convolution ``layers`` (from 0), (n, C', H', W'); 0: ``x`` itself; all: the head."""
        for count, (conv, norm) in enumerate(zip(self.convs[:layers], self.norms, strict=False), start=1):
            x = norm(conv(x)).relu()
            if count in self.pooled:
                x = functional.max_pool2d(x, 2, 2, ceil_mode=True)
        return x

    def forward(self, x):
        """Logits (n, classes) of images ``x`` (n, C, H, W)."""
        x = self.features(x, len(self.convs))
        return self.head(x.permute(0, 2, 3, 1).flatten(1))


class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut: version 1 (He et al. 2016a) or 2 (2016b, pre-activation).

    https://arxiv.org/abs/1512.03385 and https://arxiv.org/abs/1603.05027.
    """

    def __init__(self, before, after, stride, norm, version):
        super().__init__()
        self.stride, self.version = stride, version
        self.norm1 = _norm(norm, before if version == 2 else after)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm2 = _norm(norm, after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.shortcut = None
        if stride != 1 or before != after:
            self.shortcut = nn.Conv2d(before, after, 1, bias=False)
            self.shortcut_norm = _norm(norm if version == 1 else None, after)

    def _beside(self, x):
        # Every other place, then 1×1: PyTorch 2.13's own 1×1 convolution with stride 2 writes past its memory
        # on CPUs with AVX2 when there are few channels.
        if self.shortcut is None:
            return x
        return self.shortcut_norm(self.shortcut(x[:, :, :: self.stride, :: self.stride]))

    def forward(self, x):
        if self.version == 1:
            y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            return (y + self._beside(x)).relu()
        y = self.norm1(x).relu()
        beside = x if self.shortcut is None else self._beside(y)
        return beside + self.conv2(self.norm2(self.conv1(y)).relu())


class ResNet18(nn.Module):
    """A 3×3 convolution (stride 1, for small images), four stages of two basic blocks, the mean, a head.

    in_shape : (C, H, W). norm : ``"batch"``, ``"group"`` (8 groups) or None. version : 1, or 2 with
    normalisation and ReLU before each convolution. Maps (n, C, H, W) to logits (n, classes).
    ``stages`` holds the blocks. Raises ValueError for an unknown norm or version.
    """

    def __init__(self, in_shape, classes, *, width=64, norm="batch", version=1):
        super().__init__()
        if version not in (1, 2):
            raise ValueError(f"version is {version}; known: 1, 2")
        widths = [width * factor for factor in RESNET_WIDTHS]
        self.version = version
        self.stem = nn.Conv2d(in_shape[0], width, 3, 1, 1, bias=False)
        self.stages = nn.ModuleList(
            nn.Sequential(
                Block(before, after, 1 if before == after else 2, norm, version),
                Block(after, after, 1, norm, version),
            )
            for before, after in zip([width, *widths], widths, strict=False)
        )
        self.norm = _norm(norm, width if version == 1 else widths[-1])
        self.head = nn.Linear(widths[-1], classes)

    def features(self, x):
        """What the head reads, (n, 8·width)."""
        x = self.stem(x)
        if self.version == 1:
            x = self.norm(x).relu()
        for stage in self.stages:
            x = stage(x)
        if self.version == 2:
            x = self.norm(x).relu()
        return x.mean((2, 3))

    def forward(self, x):
        """Logits (n, classes)."""
        return self.head(self.features(x))
