"""Checked float64 arrays from what callers hand in."""

import numpy as np
import torch

ROUNDING = 1e-8  # what passes for rounding, relative to the largest number
UNITS = 4  # where the caller's precision is lower: so many of its rounding units
COINCIDENCE = 1e-9  # eigenvalues of float64 matrices that are closer, relative to the largest, are one


def unit(values):
    """Relative spacing of the numbers that ``values`` are handed in as; 0 for integers."""
    if isinstance(values, torch.Tensor):
        return torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0
    kind = np.asarray(values).dtype
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def rounding(values):
    """What passes for rounding in ``values`` as they were handed in, relative to the largest of them."""
    return max(ROUNDING, UNITS * unit(values))


def coincidence(values):
    """How close eigenvalues count as one, relative to the largest: rounding parts equal ones by a unit."""
    return max(COINCIDENCE, UNITS * unit(values))


def float64(values, name):
    """``values`` (array, tensor or nested list) as a finite float64 NumPy array, else ValueError."""
    if torch.is_complex(values) if isinstance(values, torch.Tensor) else np.iscomplexobj(values):
        raise ValueError(f"{name} has complex entries")
    if isinstance(values, torch.Tensor):
        values = values.detach().to("cpu", torch.float64).numpy()
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has entries that are not finite")
    return values


def symmetric(values, name):
    """``values`` as a symmetric (d, d) float64 array, :func:`rounding` averaged out, else ValueError."""
    try:
        matrix = float64(values, name)
    except TypeError:
        remedy = "" if callable(getattr(values, "cov", print)) else "; hand in its .cov"
        raise ValueError(f"{name} is no matrix but a {type(values).__name__}{remedy}") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"{name} must be a square matrix, not of shape {matrix.shape}")
    if np.abs(matrix - matrix.T).max() > rounding(values) * np.abs(matrix).max():
        raise ValueError(f"{name} is not symmetric")
    return (matrix + matrix.T) / 2


def same_shape(first, second, names):
    """Raise ValueError unless the two arrays have the same shape."""
    if first.shape != second.shape:
        raise ValueError(f"{names} have different shapes, {first.shape} and {second.shape}")


def eigenspaces(matrix, rtol):
    """Eigenvalues ascending, their unit eigenvectors (columns), and where each eigenspace starts.

    Neighbouring eigenvalues closer than ``rtol`` times the largest |eigenvalue| share an eigenspace.
    Raises ValueError for a negative ``rtol`` or nan.
    """
    if not rtol >= 0:
        raise ValueError(f"rtol must be at least 0, not {rtol}")
    values, vectors = np.linalg.eigh(matrix)
    gaps = np.diff(values) > rtol * np.abs(values).max()
    return values, vectors, np.flatnonzero(np.concatenate([[True], gaps]))
