"""Mean and covariance of image patches (Maennel et al. 2020, Section 2.2: covariance of the data)."""

from dataclasses import dataclass

import numpy as np
import torch

BLOCK = 2**18  # float64 entries of the patch matrix held at once: 2 MiB, which stays in the cache


@dataclass(frozen=True)
class PatchCovariance:
    """Moments of the patches.

    mean : (d,) float64; cov : (d, d) float64, E[(p - mean)(p - mean)ᵀ], divided by ``count``;
    count : number of patches.
    """

    mean: np.ndarray
    cov: np.ndarray
    count: int


def patch_covariance(images, size=3, stride=1):
    """Moments of all ``size`` × ``size`` patches that lie wholly inside the images.

    images : (N, C, H, W) floating-point tensor on any device, or an object with such an ``x``.
    Patches start every ``stride`` pixels; entries are ordered (channel, row, column), like
    ``conv.weight.reshape(out, -1)``, so d = C·size². Images are read in blocks of bounded size, sums are
    kept in float64. Raises ValueError for images that are no such tensor or smaller than a patch.
    """
    x = getattr(images, "x", images)
    if not isinstance(x, torch.Tensor) or x.ndim != 4 or not x.is_floating_point() or len(x) == 0:
        raise ValueError("images must be a floating-point tensor (N, C, H, W) with at least one image")
    count_images, channels, height, width = x.shape
    if not 1 <= size <= min(height, width) or stride < 1:
        raise ValueError(f"no {size} × {size} patches with stride {stride} in {height} × {width} images")
    d = channels * size**2
    per_image = ((height - size) // stride + 1) * ((width - size) // stride + 1)

    # Sums of deviations from a value near the mean: no cancellation where the mean is large.
    shift = _patches(x[:1].detach(), size, stride).mean(1, keepdim=True)  # (d, 1)
    total = torch.zeros(d, dtype=torch.float64, device=x.device)
    moment = torch.zeros(d, d, dtype=torch.float64, device=x.device)
    for block in x.detach().split(max(1, BLOCK // (d * per_image))):
        patches = _patches(block, size, stride).sub_(shift)  # (d, patches of the block)
        total += patches.sum(1)
        moment.addmm_(patches, patches.T)
    count = count_images * per_image
    offset = total / count
    cov = (moment / count - torch.outer(offset, offset)).cpu().numpy()
    return PatchCovariance((shift[:, 0] + offset).cpu().numpy(), (cov + cov.T) / 2, count)


def _patches(x, size, stride):
    """(B, C, H, W) → (C·size², B·patches) float64, a copy."""
    windows = x.unfold(2, size, stride).unfold(3, size, stride)  # (B, C, rows, columns, size, size)
    windows = windows.permute(1, 4, 5, 0, 2, 3)
    # Copy and convert in one pass.
    patches = torch.empty(windows.shape, dtype=torch.float64, device=x.device).copy_(windows)
    return patches.reshape(x.shape[1] * size**2, -1)
