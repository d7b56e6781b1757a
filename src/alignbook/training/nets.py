"""The convolutional network of Maennel et al. 2020 (A.2, E.3) and its initialisation (A.3)."""

import math

from torch import nn


class SimpleCNN(nn.Module):
    """Convolutions 3×3 (SAME padding, stride 1) + ReLU each, optional max pooling, dense + ReLU, head.

    in_shape : (C, H, W) of the images.
    filters : list[int], how many filters each convolution has; the layers are in ``convs``.
    units : int, width of the dense layer ``dense``.
    classes : int, outputs of ``head`` (logits).
    pool : None, or (size, stride, padding) of one max pooling after the last convolution, with
        padding ``"same"`` (an output for every started stride) or ``"valid"``.

    Maps (n, C, H, W) to logits (n, classes). Weights are left as PyTorch makes them: call
    :func:`he_normal_`. Raises ValueError for an unknown padding.
    """

    def __init__(self, in_shape, filters, units, classes, pool=None):
        super().__init__()
        channels, height, width = in_shape
        sizes = [channels, *filters]
        self.convs = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1) for before, after in zip(sizes, filters, strict=False)
        )
        self.pool = None
        if pool is not None:
            size, stride, padding = pool
            if padding not in ("same", "valid"):
                raise ValueError(f"pool padding is {padding!r}; known: same, valid")
            same = padding == "same"
            outputs = [
                math.ceil(side / stride) if same else (side - size) // stride + 1 for side in (height, width)
            ]
            # SAME puts half of what is missing, rounded down, before the first row and column, the rest
            # after the last: windows that hang over the edge (ceil_mode).
            missing = [
                max(0, (count - 1) * stride + size - side)
                for count, side in zip(outputs, (height, width), strict=True)
            ]
            before = tuple(count // 2 for count in missing)
            self.pool = nn.MaxPool2d(size, stride, padding=before, ceil_mode=same)
            height, width = outputs
        self.dense = nn.Linear(sizes[-1] * height * width, units)
        self.head = nn.Linear(units, classes)

    def features(self, x, layers):
        """Output of the first ``layers`` convolutions and ReLUs, (n, C', H, W); 0: ``x`` itself."""
        for conv in self.convs[:layers]:
            x = conv(x).relu_()
        return x

    def forward(self, x):
        """Logits (n, classes) of images ``x`` (n, C, H, W)."""
        x = self.features(x, len(self.convs))
        if self.pool is not None:
            x = self.pool(x)
        # Channels last: training keeps activations in that order, where this is a view, not a copy.
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.head(self.dense(x).relu_())


def he_normal_(net, scale, generator):
    """Draw every convolution and dense layer of ``net`` anew, in place; returns ``net``.

    Weights are normal with mean 0 and standard deviation ``scale``·√(2 / fan_in), biases are zero (A.3;
    that the scale multiplies weights, not variances, and that the normal is not truncated, is our reading).
    ``generator`` is a torch.Generator on the CPU, so that every device gets the same weights.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            he_normal_layer_(module, scale, generator)
    return net


def he_normal_layer_(layer, scale, generator):
    """One convolution or dense layer of :func:`he_normal_`."""
    weight = layer.weight.detach()
    fan_in = weight[0].numel()
    draw = weight.new_empty(weight.shape, device="cpu").normal_(generator=generator)
    weight.copy_(draw * (scale * math.sqrt(2 / fan_in)))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
