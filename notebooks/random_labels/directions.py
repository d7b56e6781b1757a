"""How far the direction of an empirical covariance is from the true one, in two dimensions (D.3)."""

import math

import numpy as np


def information(ratio):
    """Fisher information of one sample about the angle of diag(1, ratio)'s axes (D.3)."""
    return (ratio - 1) ** 2 / ratio


def root_mean_square_angle(ratio, samples, places=1500, angles=801):
    """Root mean square (rad) of the angle between the first axes of Σ = diag(1, ratio) and of Σ̂, exactly.

    ratio : λ > 1; samples : n ≥ 3. n Σ̂ is Wishart. With t the sum of its eigenvalues and r their difference
    over t, the density of the angle is, t integrated out in closed form and r by a sum,
    p(α) ∝ ∫₀¹ r (1 - r²)^((n-3)/2) (λ + 1 - r (λ - 1) cos 2α)^(-n) dr on (-π/2, π/2).
    """
    reach = min(np.pi / 2, 12 / math.sqrt(samples * information(ratio)))
    alpha = np.linspace(0, reach, angles)[:, None]
    r = (np.arange(places) + 0.5) / places
    exponent = np.log(r) + (samples - 3) / 2 * np.log1p(-(r**2))
    exponent = exponent - samples * np.log(ratio + 1 - r * (ratio - 1) * np.cos(2 * alpha))
    density = np.exp(exponent - exponent.max()).sum(1)
    alpha = alpha[:, 0]
    return math.sqrt(np.trapezoid(alpha**2 * density, alpha) / np.trapezoid(density, alpha))
