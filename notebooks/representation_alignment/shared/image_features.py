"""Hand-made features of small colour images: gradients' orientations, words of local descriptors, kernels."""

import numpy as np
from skimage.color import rgb2gray
from skimage.feature import SIFT, hog
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin


def grey(x):
    """(n, H, W) float64 in [0, 1] of images (n, 3, H, W) or (n, 1, H, W) in [-1, 1], float arrays."""
    x = (np.asarray(x, float) + 1) / 2
    return x[:, 0] if x.shape[1] == 1 else rgb2gray(x.transpose(0, 2, 3, 1))


def histograms_of_gradients(images):
    """HOG (Dalal and Triggs 2005) of grey images (n, H, W): 9 orientations, 8×8 pixels a cell, 2×2 cells a
    block (Section 7.2: 64 pixels and 4 cells). (n, features) float64; 324 features of 32×32 pixels.
    """
    made = [hog(image, orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2)) for image in images]
    return np.array(made)


def descriptors(images):
    """SIFT descriptors (Lowe 2004) of each grey image: list of (k, 128) float64, k = 0 where none is found.

    Images are doubled in size first, as Lowe does.
    """
    made = []
    for image in images:
        sift = SIFT(upsampling=2)
        try:
            sift.detect_and_extract(image)
            made.append(sift.descriptors.astype(float))
        except RuntimeError:  # an image without a keypoint
            made.append(np.empty((0, 128)))
    return made


def words(found, size, generator):
    """The dictionary of descriptors (lists of :func:`descriptors`): (k, 128), k-means centres.

    k is ``size``, or the number of descriptors where there are fewer. generator : numpy Generator.
    """
    every = np.concatenate(found)
    seed = int(generator.integers(2**31))
    centres = min(size, len(every))
    return MiniBatchKMeans(centres, random_state=seed, n_init=1, batch_size=2048).fit(every).cluster_centers_


def bags(found, centres):
    """How often each word is the nearest to an image's descriptors: (n, k) float64."""
    counts = np.zeros((len(found), len(centres)))
    for row, one in zip(counts, found, strict=True):
        if len(one):
            row += np.bincount(pairwise_distances_argmin(one, centres), minlength=len(centres))
    return counts


def radial_basis(x, centres, bandwidth):
    """exp(−‖x_i − c_j‖² / (2 bandwidth²)): x (n, d), centres (k, d) -> (n, k), float64."""
    squares = np.square(x).sum(1)[:, None] + np.square(centres).sum(1) - 2 * x @ centres.T
    return np.exp(-np.maximum(squares, 0) / (2 * bandwidth**2))
