"""Random orthonormal bases, to which a basis of eigenvectors is compared."""

import numpy as np


def random_bases(dimension, count, rng):
    """``count`` random orthonormal bases, (count, dimension, dimension), columns are the vectors.

    Uniform over the orthogonal group: QR of a Gaussian matrix with R's diagonal made positive.
    """
    q, r = np.linalg.qr(rng.standard_normal((count, dimension, dimension)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
