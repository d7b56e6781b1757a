"""Linear models from zero weights, w ← w − η Φᵀ(Φw − y): step by step, and as Proposition 1 solves it."""

import numpy as np

GONE = -1e4  # logarithm of a factor that is zero: finite, so that its 0th power is 1


def spectrum(phi):
    """(left singular vectors (n, r), singular values (r,), descending) of ``phi`` (n, d), float64.

    Singular values that are zero to rounding are left out: r is the rank r(Φ) of Equation 3.
    """
    left, singular, _ = np.linalg.svd(phi, full_matrices=False)
    kept = singular > max(phi.shape) * np.finfo(float).eps * singular[0]
    return left[:, kept], singular[kept]


def reducible(singular, gains, step_size, steps):
    """‖Φw_t − Φw*‖² = Σ_i (1 − η σ_i²)^(2t) (u_iᵀ y)², the square of Equation 3.

    singular, gains : (r,), σ_i and (u_iᵀ y)²; step_size : η > 0; steps : (T,) of t ≥ 0
    Returns (T,); infinite where it is beyond float64.
    """
    change = step_size * np.square(singular)
    with np.errstate(divide="ignore"):
        # log1p keeps the slow directions exact over many steps.
        logs = np.where(change < 0.5, np.log1p(-np.minimum(change, 0.5)), np.log(np.abs(1 - change)))
    with np.errstate(over="ignore"):
        return np.exp(2 * np.asarray(steps, float)[:, None] * np.maximum(logs, GONE)) @ gains


def first_steps(singular, gains, step_size, levels):
    """The first t at which :func:`reducible` is at most each of ``levels`` (m,), (m,) float64.

    Infinite where that never is, because the level is not above 0 or the descent does not converge.
    """
    levels = np.asarray(levels, float)
    shrinks = 0 < step_size * singular.min() ** 2 and step_size * singular.max() ** 2 < 2
    reachable = shrinks & (levels > 0)
    # Above the level at low, at it or below at high.
    low, high = np.full(len(levels), -1.0), np.ones(len(levels))

    def at(steps):
        return reducible(singular, gains, step_size, steps) <= levels

    while not (found := at(high) | ~reachable).all():
        high[~found] *= 2
    # Beyond 2^53 whole numbers are further apart than 1.
    while (open_ := high - low > np.maximum(1, 2 * np.spacing(high))).any():
        middle = np.floor((low + high) / 2)
        below = at(middle)
        high = np.where(open_ & below, middle, high)
        low = np.where(open_ & ~below, middle, low)
    return np.where(reachable, high, np.inf)


def descend(phi, y, step_sizes, iterations):
    """Gradient descent step by step, once for every step size.

    phi : (n, d) float64; y : (n,) float64; step_sizes : (K,) of η; iterations : T
    Returns (loss, distance), each (T + 1, K): ‖Φw_t − y‖² and ‖Φw_t − Φw*‖². Where a run diverges they end
    as infinity or NaN.
    """
    left, _ = spectrum(phi)
    outside = (y - left @ (left.T @ y))[:, None]  # y − Φw*
    rates = np.asarray(step_sizes, float)
    weights = np.zeros((phi.shape[1], len(rates)))
    loss, distance = np.empty((2, iterations + 1, len(rates)))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(iterations + 1):
            residual = phi @ weights - y[:, None]
            loss[t] = np.square(residual).sum(0)
            distance[t] = np.square(residual + outside).sum(0)
            weights -= rates * (phi.T @ residual)
    return loss, distance


def linear_model(phi, y, phi_test, y_test, step_size, steps):
    """Errors of w ← w − (η/n) Φᵀ(Φw − y) from zero weights after each of ``steps`` (T,), as it is solved:

        v_iᵀ w_t = (1 − (1 − η σ_i²/n)ᵗ) (u_iᵀ y) / σ_i                      (Proposition 1, Appendix B)

    Returns {"train_error", "test_error"}: (T,) mean squared.
    """
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    kept = singular > max(phi.shape) * np.finfo(float).eps * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    factor = 1 - step_size * singular**2 / len(y)
    gone = 1 - factor[:, None] ** np.asarray(steps, float)  # (r, T)
    gains = (left.T @ y)[:, None]
    train_error = np.square(left @ (gone * gains) - y[:, None]).mean(0)
    weights = right.T @ (gone * gains / singular[:, None])  # (d, T)
    return {
        "train_error": train_error,
        "test_error": np.square(phi_test @ weights - y_test[:, None]).mean(0),
    }
