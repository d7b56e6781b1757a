"""Fisher information of covariances: the direction of an empirical one (D.3), distances of two (D.4)."""

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


def _ratios(one, other):
    """Eigenvalues of Σ₁⁻¹ Σ₂ of two matrices or numbers: all that these distances depend on."""
    return np.linalg.eigvals(np.linalg.solve(np.atleast_2d(one), np.atleast_2d(other))).real


def half_information(one, other, places=200):
    """Half of the Fisher information of N(0, Σ), integrated from Σ = ``one`` to ``other`` on a straight line.

    That is D.4's first formula, ½ ∫₀¹ ½ tr((Σ(t)⁻¹ (Σ₂ - Σ₁))²) dt, by Gauss and Legendre's rule.
    """
    points, weights = np.polynomial.legendre.leggauss(places)
    step = _ratios(one, other) - 1
    eigenvalues = step / (1 + step * (points[:, None] + 1) / 2)  # of Σ(t)⁻¹ (Σ₂ - Σ₁), t in (0, 1)
    return weights / 2 @ np.square(eigenvalues).sum(1) / 4


def divergence(one, other):
    """D.4's definition: half of the sum of both Kullback-Leibler divergences of N(0, Σ₁) and N(0, Σ₂)."""
    both = (_ratios(one, other), _ratios(other, one))
    return sum((ratio - 1 - np.log(ratio)).sum() / 2 for ratio in both) / 2


def printed_distance(one, other):
    """D.4's closed form of the same, as printed: tr(Σ₁⁻¹ Σ₂ + Σ₂⁻¹ Σ₁) / 2 - d."""
    ratio = _ratios(one, other)
    return (ratio + 1 / ratio).sum() / 2 - len(ratio)
