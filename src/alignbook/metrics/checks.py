"""What the metrics refuse, and scales that keep their numbers in range.

They change no number a metric returns for arguments in range, but their code counts for stored results: what
is refused of strangers alone stands in :mod:`alignbook.public`.
"""

import inspect
from functools import wraps
from numbers import Integral

import numpy as np
import torch

from . import arrays

RANGE = 1e100  # float64 entries of a matrix below that, and above its inverse, are left as they are


def integer(value, name, least):
    """Raise ValueError unless ``value`` is an integer ≥ ``least`` (a bool is none)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer from {least} on, not {value!r}")


def finite_moments(patch_covariance):
    """Refuses sizes that are no integers, and images whose moments are not finite.

    The moments tell: looking at the images would take another pass.
    """

    @wraps(patch_covariance)
    def checked(images, size=3, stride=1):
        integer(size, "size", 1)
        integer(stride, "stride", 1)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = patch_covariance(images, size, stride)
        if not (np.isfinite(moments.mean).all() and np.isfinite(moments.cov).all()):
            if getattr(images, "x", images).isfinite().all():
                raise ValueError("images have entries so large that their squares leave the range of float64")
            raise ValueError("images have entries that are not finite")
        return moments

    return checked


def squares_in_range(alignment_curve):
    """Refuses labels whose squared length is no normal float64 number, and a ``bias`` that is no bool."""

    @wraps(alignment_curve)
    def checked(features, labels, thresholds=None, bias=True):
        if not isinstance(bias, bool | np.bool_):
            raise ValueError(f"bias must be True or False, not {bias!r}")
        entries = arrays.float64(labels, "labels")
        with np.errstate(over="ignore", under="ignore"):
            squared = np.square(entries).sum()
        if entries.any() and not np.finfo(np.float64).tiny <= squared < np.inf:
            largest = np.abs(entries).max()
            raise ValueError(
                f"labels up to {largest:.3g}: their squares leave the range of float64; scale them"
            )
        return alignment_curve(features, labels, thresholds, bool(bias))

    return checked


def scaled(measure):
    """Brings float64 matrices ``a`` and ``b`` of which the scale does not matter into range first."""
    signature = inspect.signature(measure)

    @wraps(measure)
    def moderate(*positional, **named):
        given = signature.bind(*positional, **named).arguments
        return measure(**{k: _moderate(v)[0] if k in ("a", "b") else v for k, v in given.items()})

    return moderate


def scaled_back(transfer_function):
    """The same for two covariance matrices, of which standard deviations are scaled back."""

    @wraps(transfer_function)
    def moderate(cov_x, cov_w, rtol=None):
        (cov_x, x), (cov_w, w) = _moderate(cov_x), _moderate(cov_w)
        sigma, tau = transfer_function(cov_x, cov_w, rtol)
        return (np.ldexp(sigma, x // 2) if x else sigma), (np.ldexp(tau, w // 2) if w else tau)

    return moderate


def _moderate(values):
    """``values`` over 2^exponent, and that even exponent: not 0 where float64 entries come near its ends."""
    if isinstance(values, torch.Tensor):
        array = values.detach().cpu().numpy() if values.dtype == torch.float64 else None
    else:
        array = np.asarray(values)
    if array is None or array.dtype != np.float64:
        return values, 0
    largest = np.abs(array).max(initial=0.0)
    if not np.isfinite(largest) or largest == 0 or 1 / RANGE <= largest <= RANGE:
        return values, 0
    exponent = int(np.frexp(largest)[1]) // 2 * 2
    return np.ldexp(array, -exponent), exponent
