"""Mean and covariance of image patches (Maennel et al. 2020, Section 2.1: covariance of the data)."""

from dataclasses import dataclass

import numpy as np
import torch

from .checks import finite_moments

BLOCK = 2**20  # float64 entries of images or patches held at once: 8 MiB
STRIP = 96  # entries of an image's row that are multiplied with each other, over all channels


@dataclass(frozen=True)
class PatchCovariance:
    """Mean and covariance of the patches.

    Attributes
    ----------
    mean : (d,) float64 array
    cov : (d, d) float64 array
        E[(p - mean)(p - mean)ᵀ], divided by ``count``.
    count : int
        Number of patches.
    """

    mean: np.ndarray
    cov: np.ndarray
    count: int


@finite_moments
def patch_covariance(images: torch.Tensor, size: int = 3, stride: int = 1) -> PatchCovariance:
    """Mean and covariance of all ``size`` × ``size`` patches that lie wholly inside the images.

    Parameters
    ----------
    images : (N, C, H, W) tensor, or an object with such an ``x``
        Floating point, on any device.
    size : int
        Height and width of a patch.
    stride : int
        Patches start every ``stride`` pixels.

    Returns
    -------
    PatchCovariance
        Entries are ordered (channel, row, column), as in ``conv.weight.flatten(1)``, so d = C·size².

    Raises
    ------
    ValueError
        For images that are no such tensor, smaller than a patch or of moments that are not finite.

    Notes
    -----
    Images are read in blocks of bounded size (8 MiB); products and sums are float64. With stride 1 no patch
    is made: entries of a patch are products of two pixels at most ``size`` - 1 rows and columns apart, and
    Gram matrices of image rows hold all of them. The covariance of the data of Maennel et al. 2020, Section
    2.1.

    Cost: O(d²) operations a patch, d = C·size². With stride 1 rows are cut into strips of w pixels, at most
    max(2·size, 96 / C), and it is O(size·C·w) for each entry of an image. Memory: a block, and matrices of
    (C·w)² entries.

    Examples
    --------
    >>> import torch
    >>> from alignbook import patch_covariance
    >>> images = torch.rand(100, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> found = patch_covariance(images)
    >>> found.cov.shape, found.count
    ((27, 27), 3600)
    """
    x = getattr(images, "x", images)
    if not isinstance(x, torch.Tensor) or x.ndim != 4 or not x.is_floating_point() or len(x) == 0:
        raise ValueError("images must be a floating-point tensor (N, C, H, W) with at least one image")
    count_images, channels, height, width = x.shape
    if not 1 <= size <= min(height, width) or stride < 1:
        raise ValueError(f"no {size} × {size} patches with stride {stride} in {height} × {width} images")
    per_image = ((height - size) // stride + 1) * ((width - size) // stride + 1)

    # Sums of deviations from a value near the mean: no cancellation where the mean is large.
    x = x.detach()
    shift = x[0].double().mean((1, 2))  # (C,)
    sums = _by_rows if stride == 1 else _by_patches
    total, moment = sums(x, shift, size, stride)
    count = count_images * per_image
    offset = total / count
    cov = (moment / count - torch.outer(offset, offset)).cpu().numpy()
    mean = shift.repeat_interleave(size**2) + offset
    return PatchCovariance(mean.cpu().numpy(), (cov + cov.T) / 2, count)


def _by_patches(x, shift, size, stride):
    """Sums of deviations and of their products, (d,) and (d, d), from all patches of a block of images."""
    channels, height, width = x.shape[1:]
    d = channels * size**2
    per_image = ((height - size) // stride + 1) * ((width - size) // stride + 1)
    total, moment = shift.new_zeros(d), shift.new_zeros(d, d)
    for block in x.split(max(1, BLOCK // (d * per_image))):
        windows = block.unfold(2, size, stride).unfold(3, size, stride)  # (B, C, rows, columns, size, size)
        windows = windows.permute(1, 4, 5, 0, 2, 3)
        patches = shift.new_empty(windows.shape).copy_(windows)  # converts in the same pass
        patches = patches.sub_(shift.view(-1, 1, 1, 1, 1, 1)).view(d, -1)
        total += patches.sum(1)
        moment.addmm_(patches, patches.T)
    return total, moment


def _by_rows(x, shift, size, _stride):
    """The same with stride 1, from Gram matrices of image rows, strip by strip of the images' width.

    Every patch lies in one strip. For rows p and p + a of a strip's images, Y_p and Y_{p + a} (images,
    C·columns), entry (i, j), (i + a, j') of a patch needs Σ_p Y_pᵀ Y_{p + a} over p = i, …, i + R - 1, with
    R patches above each other: one product for the p that all i share, and one for each other p.
    """
    channels, width = x.shape[1], x.shape[3]
    columns = max(2 * size, STRIP // channels)
    total = shift.new_zeros(channels, size, size)
    moment = shift.new_zeros(channels, size, size, channels, size, size)
    for start in range(0, width - size + 1, columns - size + 1):
        _add_strip(total, moment, x[..., start : start + columns], shift, size)
    d = channels * size**2
    return total.view(d), moment.view(d, d)


def _add_strip(total, moment, strip, shift, size):
    _, channels, height, width = strip.shape
    rows, entries = height - size + 1, channels * width
    sums = shift.new_zeros(height, entries)
    lags = []  # per a: products summed over the shared p, those of the p above and below
    for a in range(size):
        edge = size - 1 - a
        lags.append([shift.new_zeros(count, entries, entries) for count in (2, edge, min(rows, edge))])
    for block in strip.split(max(1, BLOCK // (height * entries))):
        y = shift.new_empty(height, len(block), channels, width).copy_(block.permute(2, 0, 1, 3))
        y = y.sub_(shift.view(-1, 1)).view(height, len(block), entries)
        sums += y.sum(1)
        for a, (shared, above, below) in enumerate(lags):
            edge, end = size - 1 - a, rows + size - 1 - a
            if edge < rows:
                # A product of so few columns takes a second thread as a second product.
                halves = 2 - (rows - edge) * len(block) % 2
                upper = y[edge:rows].view(halves, -1, entries)
                lower = y[edge + a : rows + a].view(halves, -1, entries)
                shared[:halves].baddbmm_(upper.mT, lower)
            if edge:
                above.baddbmm_(y[:edge].mT, y[a : edge + a])
                below.baddbmm_(y[end - len(below) : end].mT, y[end - len(below) + a : end + a])
    total += _sums(sums.view(height, channels, width), size)
    for a, (shared, above, below) in enumerate(lags):
        edge = size - 1 - a
        first = rows + edge - len(below)  # p of below[0]
        for i in range(size - a):
            gram = shared.sum(0) + above[i : i + rows].sum(0) + below[: max(0, i + rows - first)].sum(0)
            part = _diagonal_sums(gram.view(channels, width, channels, width), size)
            moment[:, i, :, :, i + a, :] += part
            if a:
                moment[:, i + a, :, :, i, :] += part.permute(2, 3, 0, 1)


def _sums(pixels, size):
    """(H, C, W) → (C, size, size): sums over all places of a patch, for each of its entries."""
    height, _, width = pixels.shape
    windows = pixels.unfold(0, height - size + 1, 1).unfold(2, width - size + 1, 1)
    return windows.sum((-2, -1)).permute(1, 0, 2)


def _diagonal_sums(gram, size):
    """(C, W, C, W) → (C, size, C, size): Σ_q gram[:, q + j, :, q + j'] over all places q of a patch."""
    places = gram.shape[1] - size + 1
    windows = gram.unfold(1, places, 1).unfold(3, places, 1)
    return windows.diagonal(dim1=-2, dim2=-1).sum(-1)
