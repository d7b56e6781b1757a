"""Centred kernel alignment: how alike two representations are (Kornblith et al. 2019; Nguyen et al. 2021)."""

import numpy as np
import torch

from . import arrays
from .checks import integer, one_of, one_sentence

LEAST = 4  # examples: the unbiased estimator divides by n (n - 3)
BLOCK = 2**22  # entries of Gram matrices that are held at once: 32 MiB
EQUAL = 1e-10  # the debiased Gram matrix squared and summed, over the squared trace: below it, no structure


@one_sentence
def cka(
    x: np.ndarray | torch.Tensor, y: np.ndarray | torch.Tensor, debiased: bool = True,
    batch_size: int | None = None,
) -> float:  # fmt: skip
    """Linear centred kernel alignment (CKA) of two representations of the same examples.

    Parameters
    ----------
    x, y : array or tensor, (n, ...)
        Features of the same n ≥ 4 examples in the same order, from two layers or two networks; axes after
        the first are flattened. The numbers of features may differ.
    debiased : bool
        Whether to estimate HSIC without bias. The plain estimator is too large where there are few examples
        for the number of features: it gives independent features of 100 examples and 1000 dimensions 0.9.
    batch_size : int, optional
        Average HSIC over consecutive batches of at least so many examples instead (debiased alone).

    Returns
    -------
    float
        1 for representations that are equal up to rotation, shift and scale, 0 for independent ones;
        at most 1, and with ``debiased`` slightly below 0 at times.

    Raises
    ------
    ValueError
        Fewer than four examples (or in a batch), different numbers of examples, entries that are not finite
        or complex, features that are the same for all examples, and, debiased, examples that are all equally
        far from each other: their similarity is 0/0. Also a batch size with the plain estimator.

    Notes
    -----
    CKA(X, Y) = HSIC(K, L) / √(HSIC(K, K) HSIC(L, L)), K = XXᵀ, L = YYᵀ. With C = I - 11ᵀ/n the plain
    estimator is tr(CKCL) (https://arxiv.org/abs/1905.00414, Equations 3 and 4). The unbiased one, of
    matrices K̃ and L̃ whose diagonals are set to zero, is

    .. math::

       \\frac{1}{n(n-3)} \\Bigl[ & \\mathrm{tr}(\\tilde K \\tilde L) + \\frac{\\mathbf{1}^\\top \\tilde K
       \\mathbf{1} \\; \\mathbf{1}^\\top \\tilde L \\mathbf{1}}{(n-1)(n-2)} \\\\
       & - \\frac{2}{n-2}\\, \\mathbf{1}^\\top \\tilde K \\tilde L \\mathbf{1} \\Bigr];

    over batches each of the three HSIC is averaged before they are divided (https://arxiv.org/abs/2010.15327,
    Equations 2 and 3). The ratio of unbiased estimates has a small bias of its own. All sums are float64;
    the smaller of the two matrices XᵀY and K is formed, K in blocks.

    Cost, for n examples with d and e features: O(n d e) operations, or O(n² (d + e)) where that is less, for
    each of the three HSIC; with batches n is a batch's, and so many times. Memory: float64 copies of the
    features, and the d × e, d × d and e × e matrices one after the other, or a block of K.

    Examples
    --------
    >>> import numpy as np, alignbook
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((100, 20))
    >>> turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    >>> print(f"{alignbook.cka(x, 3 * x @ turn + 1):.3f}")
    1.000
    >>> abs(alignbook.cka(x, rng.standard_normal((100, 500)))) < 0.1
    True
    >>> alignbook.cka(x, rng.standard_normal((100, 500)), debiased=False) > 0.3
    True
    """
    one_of(debiased, "debiased", (True, False))
    least = _least(x), _least(y)
    x, y = _features(x, "x"), _features(y, "y")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} examples and y {len(y)}: CKA compares the same ones")
    enough(len(x))
    count = 1
    if batch_size is not None:
        integer(batch_size, "batch_size", LEAST)
        if not debiased:
            raise ValueError("batches need debiased=True: the plain estimator's bias grows with their number")
        count = max(1, len(x) // batch_size)
    pairs = zip(np.array_split(x, count), np.array_split(y, count), strict=True)
    similar, of_x, of_y = np.sum([_similarities(a, b, least, debiased) for a, b in pairs], 0)
    for own, name in ((of_x, "x"), (of_y, "y")):
        if not own > 0:
            raise ValueError(f"{name} tells no examples apart: its features are constant, or all its examples"
                             " are equally far from each other")  # fmt: skip
    return float(similar / np.sqrt(of_x) / np.sqrt(of_y))


def _features(values, name):
    values = arrays.float64(values, name)
    if values.ndim < 2 or 0 in values.shape:
        raise ValueError(f"{name} must be (n, features), not of shape {values.shape}")
    values = values.reshape(len(values), -1)
    return values / (np.abs(values).max() or 1.0)


def _least(values):
    """Variation, relative to the mean square, that is more than rounding in the caller's precision."""
    return (arrays.UNITS * max(arrays.unit(values), np.finfo(np.float64).eps)) ** 2


def enough(n):
    """Raises ValueError for fewer examples than the unbiased estimator takes."""
    if n < LEAST:
        raise ValueError(f"CKA needs at least {LEAST} examples in a batch, not {n}")


def _similarities(x, y, least, debiased):
    """HSIC of x with y, of x and of y with themselves; the last two 0 where rounding alone is left."""
    scale = np.square(x).sum(), np.square(y).sum()  # before centring: what rounding is relative to
    x, y = x - x.mean(0), y - y.mean(0)
    lengths = np.square(x).sum(1), np.square(y).sum(1)
    cross = _hsic(x, y, *lengths, debiased)
    own = []
    for features, length, whole, rounding in zip((x, y), lengths, scale, least, strict=True):
        value, trace = _hsic(features, features, length, length, debiased), length.sum()
        varies = trace > rounding * whole and value > EQUAL * (trace / len(features)) ** 2
        own.append(value if varies else 0.0)
    return cross, *own


def _hsic(x, y, x_lengths, y_lengths, debiased):
    """Of centred features (n, d), whose Gram matrices have rows of sum zero and the diagonals ``lengths``."""
    n = len(x)
    product = _gram_product(x, y)
    if not debiased:
        return product / (n - 1) ** 2
    both, sums = x_lengths @ y_lengths, x_lengths.sum() * y_lengths.sum()
    return (product - n / (n - 2) * both + sums / ((n - 1) * (n - 2))) / (n * (n - 3))


def _gram_product(x, y):
    """tr(XXᵀ YYᵀ) = ‖XᵀY‖², by the cheaper side."""
    n, features = len(x), x.shape[1] + y.shape[1]
    if x.shape[1] * y.shape[1] <= n * features:
        return np.square(x.T @ y).sum()
    step = max(1, BLOCK // (2 * n))
    return sum(np.vdot(x[i : i + step] @ x.T, y[i : i + step] @ y.T) for i in range(0, n, step))


def centred_gram(output, name):
    """The U-centred Gram matrix (n, n) of an output (n, ...), or None where it tells no examples apart.

    Inner products of such matrices are n(n - 3) times the unbiased HSIC.
    """
    x = arrays.float64(output, name).reshape(n := len(output), -1)
    whole, x = np.square(x).sum(), x - x.mean(0)
    gram = x @ x.T
    trace = np.trace(gram)
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(0) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    gram -= means[:, None] + means
    np.fill_diagonal(gram, 0.0)
    varies = trace > _least(output) * whole and np.square(gram).sum() > EQUAL * trace**2
    return gram if varies else None
