"""Convolutional networks of one architecture, trained side by side as one network with grouped convolutions.

    layer l, network k:   z_{l,k} = W_{l,k} * x_{l,k} + b_{l,k},   all k in one x_l (n, K·C, H, W)
    loss = Σ_k mean over its batch of cross-entropy(logits_k, y_k): no gradient goes from one to another

A small network spends much of a step in dispatch and in the passes around its convolutions: side by side
they share these. Batch norm works channel by channel, so that each network has its own statistics, and SGD
with momentum and weight decay number by number. Every network has its own order of images, crops and flips.
Reference: one network after the other, in the test; only rounding differs.

What it gains shrinks as the convolutions fill the processor by themselves. Per network, four at once, one
thread of an AMD EPYC with AVX2 (family 23), float32: VGG-16 of width 8 on 16×16 pixels, batches of 32, takes
its steps 1.8 times faster; a ResNet of width 16 1.1 times on batches of 32, and more slowly on batches of 64.
"""

import copy
import functools

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

FEW_CHANNELS = 4  # of images: up to which one convolution after the other is faster than a grouped one
SMALL_SIDE = 2  # of maps: up to which a dense layer needs fewer operations than a 3×3 convolution
SAME = 1e-3  # relative distance up to which outputs in float32 are the same


def stacked(nets, x):
    """A network that computes what all K of ``nets`` do, with copies of their parameters and buffers.

    nets : of one architecture, on one device. Layers with parameters are nn.Conv2d (one group, padded with
    zeros), nn.BatchNorm2d and at the end one nn.Linear; what is between them works channel by channel.
    x : a few images (n, C, H, W), on which its outputs are compared with those of ``nets``.

    Maps images (n, K·C, H, W), the first C channels for the first network, to logits (K, n, classes). In
    training mode and channels last; :func:`unstack_` takes the networks out again.
    Raises ValueError for networks that are none of these, and where outputs differ.
    """
    many = copy.deepcopy(nets[0])
    for name, layer in list(many.named_modules()):
        if list(layer.parameters(recurse=False)):
            parent, _, own = name.rpartition(".")
            setattr(many.get_submodule(parent), own, _together(layer, len(nets)))
    try:
        _copy(many, nets, lambda together, one: together.copy_(one))
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ValueError(f"the networks are not of one architecture: {error}") from error
    many.to(x.device, memory_format=torch.channels_last)
    with torch.no_grad():
        found = copy.deepcopy(many).eval()(torch.cat([x] * len(nets), 1))
        wanted = torch.stack([copy.deepcopy(net).eval()(x) for net in nets])
    if found.shape != wanted.shape or not (found - wanted).norm() <= SAME * wanted.norm():
        raise ValueError("side by side they compute something else: channels are mixed between layers")
    return many.train()


def unstack_(many, nets):
    """Give each of ``nets`` its parameters and buffers in ``many``, see :func:`stacked`; returns ``nets``."""
    _copy(many, nets, lambda together, one: one.copy_(together))
    return nets


def step_of(many, x, y, optimiser, *, generators, transforms=None):
    """A ``step`` for :func:`alignbook.training.loop.train` from :func:`stacked` networks.

    It takes the loop's counts of examples alone: each network sees its own images in its own order, as the
    loop would draw it from the network's own generator.

    x, y : lists with each network's images (N, C, H, W) and labels (N,) int64. optimiser : of ``many``'s
    parameters. generators : list with each network's torch.Generator. transforms : ``transforms[k](batch)``
    before network k sees it, e.g. crops and flips.
    The step returns the mean of the networks' losses, cross-entropies, () tensor.
    """
    orders = [()] * len(x)

    def step(index, rate):
        many.train()
        for group in optimiser.param_groups:
            group["lr"] = rate
        size = len(index)
        batches, labels = [], []
        for k, (images, classes, generator) in enumerate(zip(x, y, generators, strict=True)):
            if len(orders[k]) < size:  # an epoch ends; what is left of it the loop has dropped
                drawn = torch.randperm(len(images), generator=generator, device=generator.device)
                orders[k] = drawn.to(images.device)
            own, orders[k] = orders[k][:size], orders[k][size:]
            batch = images.index_select(0, own)
            batches.append(batch if transforms is None else transforms[k](batch))
            labels.append(classes.index_select(0, own))
        optimiser.zero_grad(set_to_none=True)
        logits = many(torch.cat(batches, 1).contiguous(memory_format=torch.channels_last))  # (K, b, classes)
        # Batches are of one size: the sum of the networks' mean losses.
        loss = len(x) * functional.cross_entropy(logits.flatten(0, 1), torch.cat(labels))
        loss.backward()
        optimiser.step()
        return loss.detach() / len(x)

    return step


@torch.no_grad()
def _copy(many, nets, copy_):
    """``copy_(own, other)`` for every tensor ``other`` of each network and its own place in ``many``."""
    for name, layer in many.named_modules():
        if isinstance(layer, _Convolution | _Norm | _Head):
            for key, value in layer.state_dict().items():
                owns = value if isinstance(layer, _Head) else value.chunk(len(nets)) if value.ndim else None
                for k, net in enumerate(nets):
                    copy_(value if owns is None else owns[k], net.get_submodule(name).state_dict()[key])


def _together(layer, count):
    """The layer that stands for ``count`` of this one, with any parameters."""
    options = {"device": layer.weight.device, "dtype": layer.weight.dtype}
    biased = getattr(layer, "bias", None) is not None
    if type(layer) is nn.Linear:
        return _Head(count, layer.in_features, layer.out_features, biased, options)
    if type(layer) is nn.BatchNorm2d:
        return _Norm(
            count * layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats,
            **options,
        )  # fmt: skip
    if type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros":
        return _Convolution(
            count * layer.in_channels, count * layer.out_channels, layer.kernel_size, layer.stride,
            layer.padding, layer.dilation, groups=count, bias=biased, **options,
        )  # fmt: skip
    raise ValueError(f"a layer is {layer}, which cannot be put side by side")


class _Norm(nn.BatchNorm2d):
    pass


class _Head(nn.Module):
    """(n, K·in) to (K, n, out)."""

    def __init__(self, count, before, after, biased, options):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, after, before, **options))
        self.bias = nn.Parameter(torch.empty(count, after, **options)) if biased else None

    def forward(self, x):
        outputs = x.view(len(x), len(self.weight), -1).transpose(0, 1) @ self.weight.mT
        return outputs if self.bias is None else outputs + self.bias[:, None]


class _Convolution(nn.Conv2d):
    """Grouped, one group per network: by whichever way is fastest."""

    def forward(self, x):
        if self.in_channels <= FEW_CHANNELS * self.groups:
            biases = [None] * self.groups if self.bias is None else self.bias.chunk(self.groups)
            parts = zip(x.chunk(self.groups, 1), self.weight.chunk(self.groups), biases, strict=True)
            options = self.stride, self.padding, self.dilation
            return torch.cat([functional.conv2d(*part, *options) for part in parts], 1)
        plain = (self.kernel_size, self.stride, self.dilation) == ((3, 3), (1, 1), (1, 1))
        if plain and self.padding == (1, 1) and max(x.shape[2:]) <= SMALL_SIDE:
            outputs = _Dense.apply(x, self.weight, self.groups)
            return outputs if self.bias is None else outputs + self.bias[:, None, None]
        return super().forward(x)


class _Dense(torch.autograd.Function):
    """Grouped 3×3 convolution, padding 1, of maps so small that every place sees every other, as a matrix."""

    @staticmethod
    def forward(ctx, x, weight, count):
        n, _, height, width = x.shape
        ctx.shape = (count, len(weight) // count, 9, weight.shape[1])  # (K, out, taps, in)
        taps = _taps(height, width, x.device)
        kernels = weight.permute(0, 2, 3, 1).reshape(ctx.shape)
        matrix = kernels.index_select(2, taps).view(count, ctx.shape[1] * height * width, -1)
        # (n, H, W, K·in) as (K, n, places·in)
        inputs = x.permute(0, 2, 3, 1).reshape(n, height * width, count, -1).permute(2, 0, 1, 3)
        inputs = inputs.reshape(count, n, -1)
        ctx.save_for_backward(inputs, matrix)
        outputs = torch.bmm(inputs, matrix.mT).view(count, n, -1, height * width)  # (K, n, out, places)
        return outputs.permute(1, 3, 0, 2).reshape(n, height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        inputs, matrix = ctx.saved_tensors
        n, _, height, width = gradient.shape
        count, out, _, into = ctx.shape
        gradient = gradient.reshape(n, count, -1).transpose(0, 1).contiguous()  # (K, n, out·places)
        by_input = torch.bmm(gradient, matrix).view(count, n, height, width, into)
        by_input = by_input.permute(1, 2, 3, 0, 4).reshape(n, height, width, -1).permute(0, 3, 1, 2)
        by_matrix = torch.bmm(gradient.mT, inputs).view(count, out, -1, into)
        by_weight = by_matrix.new_zeros(ctx.shape)
        by_weight.index_add_(2, _taps(height, width, gradient.device), by_matrix)
        return by_input, by_weight.view(count * out, 3, 3, into).permute(0, 3, 1, 2), None


@functools.cache
def _taps(height, width, device):
    """(places²,) which of the nine weights leads to place q from place p, for all (q, p) in their order."""
    row, column = torch.arange(height * width) // width, torch.arange(height * width) % width
    taps = 3 * (row - row[:, None] + 1) + column - column[:, None] + 1
    return taps.flatten().to(device)
