"""Transfer function from data to weight covariance (Maennel et al. 2020, Definition 3)."""

import numpy as np

from . import arrays
from .checks import scaled_back


@scaled_back
def transfer_function(
    cov_x: np.typing.ArrayLike, cov_w: np.typing.ArrayLike, rtol: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Spread τ of the weights along each principal axis of the data, against the data's own spread σ.

    Parameters
    ----------
    cov_x, cov_w : (d, d) array or tensor
        Symmetric and positive semidefinite: the covariance of the data and that of the weights.
    rtol : float, optional
        When eigenvalues of ``cov_x`` count as equal, as for :func:`misalignment`.

    Returns
    -------
    sigma, tau : (d,) float64 arrays
        Standard deviations, not variances, of the data and of the weights, sigma ascending.

    Raises
    ------
    ValueError
        For matrices that, beyond the rounding of their precision, are not symmetric or have a negative
        eigenvalue, and where they differ in shape.

    Notes
    -----
    f: σᵢ ↦ τᵢ = √(vᵢᵀ Σ_w vᵢ), where Σ_x vᵢ = σᵢ² vᵢ and ‖vᵢ‖ = 1 (Maennel et al. 2020, Definition 3). Where
    eigenvalues of ``cov_x`` coincide the vectors are not unique; τ² is then the mean over the eigenspace,
    which is Definition 3 whenever Σ_w is aligned with Σ_x. Cost: O(d³).

    Examples
    --------
    >>> import numpy as np
    >>> from alignbook import transfer_function
    >>> sigma, tau = transfer_function(np.diag([1.0, 4.0]), np.diag([9.0, 16.0]))
    >>> print(sigma, tau)
    [1. 2.] [3. 4.]
    """
    handed = cov_x, cov_w
    cov_x, cov_w = arrays.symmetric(cov_x, "cov_x"), arrays.symmetric(cov_w, "cov_w")
    arrays.same_shape(cov_x, cov_w, "cov_x and cov_w")
    rtol = arrays.coincidence(handed[0]) if rtol is None else rtol
    variances, vectors, starts = arrays.eigenspaces(cov_x, rtol)
    projected = np.einsum("ji,jk,ki->i", vectors, cov_w, vectors, optimize=True)
    sizes = np.diff(np.append(starts, len(cov_x)))
    projected = np.repeat(np.add.reduceat(projected, starts) / sizes, sizes)
    for name, matrix, given in zip(("cov_x", "cov_w"), (cov_x, cov_w), handed, strict=True):
        smallest, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
        if smallest < -arrays.rounding(given) * max(largest, 0):
            raise ValueError(f"{name} is not positive semidefinite: one eigenvalue is {smallest:.3g}")
    return np.sqrt(variances.clip(min=0)), np.sqrt(projected.clip(min=0))
