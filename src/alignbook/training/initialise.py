"""Filters computed from the data's covariances, layer after layer (Maennel et al. 2020, Sections 2.5, E.3).

The patches that enter a convolution, given the layers before it, have a covariance with eigenvectors
e₁, e₂, … (largest eigenvalue first). The filters are τᵢeᵢ, or samples of N(0, Σ τᵢ² eᵢeᵢᵀ).
"""

import math

import torch

from alignbook.metrics import patch_covariance

SIZE = 3  # convolutions are 3×3


@torch.no_grad()
def input_covariance(net, layer, images, centred=True, stride=SIZE, batch_size=250):
    """Covariance of the 3×3 patches that enter convolution ``layer`` (0: the images themselves).

    images : (N, C, H, W) float32 on the device of ``net``.
    centred : subtract the patches' mean (covariance) or not (second moment).
    stride : pixels from one patch to the next. 3: patches do not overlap, and every pixel of every image
        counts at most once, at a ninth of the work of 1, all patches.

    Only patches that lie inside the image. Returns float64 (d, d) on the CPU,
    d = 9·(channels entering the layer), in the order of ``conv.weight[0].flatten()``.
    """
    entering = torch.cat([net.features(batch, layer) for batch in images.split(batch_size)])
    patches = patch_covariance(entering, SIZE, stride)
    cov, mean = torch.from_numpy(patches.cov), torch.from_numpy(patches.mean)
    return cov if centred else cov + torch.outer(mean, mean)


def eigenvectors(covariance):
    """Eigenvectors as rows, largest eigenvalue first: (d, d), of a symmetric (d, d) tensor."""
    return torch.linalg.eigh(covariance).eigenvectors.flip(1).T


def eigenvector_filters(vectors, tau, generator):
    """±τᵢeᵢ as rows: ``vectors`` (k, d), ``tau`` (k,); returns (k, d).

    An eigenvector has no sign but a filter before a ReLU has: each is drawn from ``generator``.
    """
    signs = torch.randint(0, 2, (len(vectors), 1), generator=generator) * 2 - 1
    return signs * torch.as_tensor(tau, dtype=vectors.dtype)[:, None] * vectors


def sampled_filters(vectors, tau, generator):
    """k samples of N(0, Σ τᵢ² eᵢeᵢᵀ) as rows: ``vectors`` (k, d), ``tau`` (k,); returns (k, d)."""
    k = len(vectors)
    weights = torch.randn(k, k, generator=generator, dtype=vectors.dtype)
    return weights * torch.as_tensor(tau, dtype=vectors.dtype) @ vectors


@torch.no_grad()
def covariance_filters_(
    net,
    images,
    layers,
    *,
    make,
    tau,
    first=(0, 0, 0),
    filter_scale="unit",
    centred=True,
    stride=SIZE,
    generator,
):
    """Compute the filters of the first ``layers`` convolutions of ``net`` from ``images``, in place.

    make : :func:`eigenvector_filters` or :func:`sampled_filters`.
    tau : one factor per filter.
    first : per layer, the index of the first eigenvector used (0: e₁; negative: from the end).
    filter_scale : ``"unit"`` multiplies each layer by one number so that the mean square of its
        filters' ℓ₂ norms is 1, as it is for eigenvectors as they are; ``"he"``: 2, the expected one
        of He's initialisation; ``"raw"`` leaves the filters as made.
    centred, stride : see :func:`input_covariance`.
    generator : torch.Generator on the CPU.

    Biases become zero. Returns ``net``; raises ValueError for an unknown ``filter_scale``.
    """
    if filter_scale not in ("unit", "he", "raw"):
        raise ValueError(f"filter_scale is {filter_scale!r}; known: unit, he, raw")
    for layer in range(layers):
        conv = net.convs[layer]
        count = conv.out_channels
        directions = eigenvectors(input_covariance(net, layer, images, centred, stride))
        start = first[layer] % len(directions)
        filters = make(directions[start : start + count], tau, generator)
        if filter_scale != "raw":
            mean_square = {"unit": 1, "he": 2}[filter_scale]
            filters = filters * (math.sqrt(mean_square * count) / filters.norm())
        conv.weight.copy_(filters.reshape(conv.weight.shape))
        conv.bias.zero_()
    return net
