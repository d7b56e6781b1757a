"""Checked float64 arrays from what callers hand in."""

import numpy as np
import torch

SYMMETRY = 1e-8  # largest |m - mᵀ| taken for rounding, relative to the largest |entry|


def float64(values, name):
    """``values`` (array, tensor or nested list) as a finite float64 NumPy array, else ValueError."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has entries that are not finite")
    return values


def symmetric(values, name):
    """``values`` as a symmetric (d, d) float64 array, rounding averaged out, else ValueError."""
    matrix = float64(values, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"{name} must be a square matrix, not of shape {matrix.shape}")
    if np.abs(matrix - matrix.T).max() > SYMMETRY * np.abs(matrix).max():
        raise ValueError(f"{name} is not symmetric")
    return (matrix + matrix.T) / 2


def same_shape(first, second, names):
    """Raise ValueError unless the two arrays have the same shape."""
    if first.shape != second.shape:
        raise ValueError(f"{names} have different shapes, {first.shape} and {second.shape}")


def eigenspaces(matrix, rtol):
    """Eigenvalues ascending, their unit eigenvectors (columns), and where each eigenspace starts.

    Neighbouring eigenvalues closer than ``rtol`` times the largest |eigenvalue| share an eigenspace.
    """
    values, vectors = np.linalg.eigh(matrix)
    gaps = np.diff(values) > rtol * np.abs(values).max()
    return values, vectors, np.flatnonzero(np.concatenate([[True], gaps]))
