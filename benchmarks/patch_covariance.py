"""Covariance of image patches, against scikit-learn's IncrementalPCA and sums by NumPy."""

import numpy as np
import torch

from alignbook.data import available, load
from alignbook.metrics import patch_covariance
from alignbook.metrics.patch_covariance import BLOCK

from .work import Aim, Contender, Scaling, Work, entrywise_error

SIDE, CHANNELS = 32, 3
CHUNK = 100  # images per batch of IncrementalPCA: 90,000 patches, the fastest of 10, 30, 100 and 300 here


def setup(device, n, size):
    """(images (n, 3, 32, 32) float32, size): CIFAR-10 where it is at hand, else crops with seeded noise."""
    if available("cifar10"):
        return load("cifar10", n=n).x.to(device), size
    crops = load("photos").x
    images = crops[torch.arange(n) % len(crops)]
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    return (images + 0.02 * noise).to(device), size


def ours(state):
    """Eigenvalues of the covariance, (d,) float64, ascending."""
    images, size = state
    return np.linalg.eigvalsh(patch_covariance(images, size=size).cov)


def unfolded(images, size):
    """All patches, (patches, 3·size²) float64, entries ordered (channel, row, column)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, CHANNELS * size**2).astype(np.float64)


def incremental_pca(state):
    """Eigenvalues from IncrementalPCA fed with unfolded patches, batch by batch, (d,) ascending."""
    from sklearn.decomposition import IncrementalPCA

    images, size = state
    pca = IncrementalPCA()
    for start in range(0, len(images), CHUNK):
        pca.partial_fit(unfolded(images[start : start + CHUNK], size))
    count = pca.n_samples_seen_
    return pca.explained_variance_[::-1] * (count - 1) / count


def all_at_once(state):
    """Eigenvalues from ``np.cov`` of all patches in memory, (d,) ascending."""
    images, size = state
    return np.linalg.eigvalsh(np.cov(unfolded(images, size), rowvar=False, bias=True))


def in_chunks(state):
    """Eigenvalues from sums over all unfolded patches in float64, (d,) ascending; any number of images."""
    images, size = state
    moment, total, count = 0.0, 0.0, 0
    for start in range(0, len(images), CHUNK):
        patches = unfolded(images[start : start + CHUNK], size)
        moment, total, count = moment + patches.T @ patches, total + patches.sum(0), count + len(patches)
    mean = total / count
    return np.linalg.eigvalsh(moment / count - np.outer(mean, mean))


def as_array(state):
    """The images as a NumPy array."""
    images, size = state
    return images.cpu().numpy(), size


def cost(n, size):
    """Gram matrices of image rows in the strips that need fewest operations, and the images read once."""
    places = SIDE - size + 1

    def operations(width):
        """Of one image row: every row with itself, symmetry used, and with size - 1 rows below it."""
        entries = CHANNELS * width
        return places / (width - size + 1) * (entries * (entries + 1) + 2 * (size - 1) * entries**2)

    fewest = min(operations(width) for width in range(size, SIDE + 1))
    return {"float64": n * places * fewest, "bytes": 4 * n * CHANNELS * SIDE**2}


def held(n, size):
    """Bytes of a block of images and of the sums, at most: nothing needs to grow with n."""
    block = min(BLOCK, n * CHANNELS * SIDE**2)
    return 8 * block + 8 * (size + 1) * size * (CHANNELS * SIDE) ** 2 + 8 * (CHANNELS * size**2) ** 2


OURS = Contender("alignbook", "alignbook", ours)
PCA = Contender("IncrementalPCA", "scikit-learn", incremental_pca, prepare=as_array)
COV = Contender("np.cov", "numpy", all_at_once, prepare=as_array)
CHUNKS = Contender("sums in float64", "numpy", in_chunks, prepare=as_array)
WHAT = "largest relative difference of an eigenvalue, the smallest included"
BANDWIDTH = Aim("at least 0.6 of the memory bandwidth", "floor", 1 / 0.6, device="cuda")
DATA = "cifar10" if available("cifar10") else "photos, tiled, with noise"


def compared(size, n):
    """Ours, IncrementalPCA and np.cov on as many images as the slowest finishes five times."""
    return Work(
        name=f"patch_covariance/{size}x{size}",
        title=f"Patch covariance {size}×{size}: {n:,} images (data: {DATA})",
        setup=setup,
        sizes={"n": n, "size": size},
        small={"n": 10, "size": size},
        contenders=(OURS, PCA, COV, CHUNKS),
        cost=cost,
        agreement=f"{WHAT}; np.cov is the float64 reference",
        error=entrywise_error,
        tolerance=1e-6,
        aims=(
            Aim("at least 10 times faster than IncrementalPCA", "faster", 10, "IncrementalPCA"),
            Aim("at most a tenth of the memory of unfolding everything", "memory share", 0.1, "np.cov"),
            Aim("every eigenvalue within 1e-6 of float64", "error", 1e-6, "np.cov"),
            BANDWIDTH,
        ),
        note="Fewer images than the row with 50,000: IncrementalPCA's time and np.cov's memory.",
    )


def many(size):
    """Ours and sums by NumPy on 50,000 images."""
    return Work(
        name=f"patch_covariance/{size}x{size}-50000",
        title=f"Patch covariance {size}×{size}: 50,000 images (data: {DATA})",
        setup=setup,
        sizes={"n": 50000, "size": size},
        small={"n": 10, "size": size},
        contenders=(OURS, CHUNKS),
        cost=cost,
        agreement=WHAT,
        error=entrywise_error,
        tolerance=1e-6,
        aims=(Aim("every eigenvalue within 1e-6 of float64", "error", 1e-6, CHUNKS.name), BANDWIDTH),
    )


works = (compared(3, 1000), many(3), compared(5, 500), many(5))
scalings = (
    Scaling(
        "patch_covariance/n",
        "3×3 patches",
        "n",
        (1000, 3000, 10000, 30000, 50000),
        setup,
        OURS,
        cost,
        held,
        {"size": 3},
    ),
    Scaling(
        "patch_covariance/size",
        "1,000 images",
        "size",
        (3, 5, 7, 9),
        setup,
        OURS,
        cost,
        held,
        {"n": 1000},
    ),
)
