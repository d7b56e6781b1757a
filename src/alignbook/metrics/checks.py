"""What the metrics refuse, and scales that keep their numbers in range.

They change no number a metric returns for arguments in range.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from numbers import Integral, Real
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from alignbook.errors import on_one_line

from . import arrays

P, R = ParamSpec("P"), TypeVar("R")
LARGEST = float(np.finfo(float).max)

RANGE = 1e100  # float64 entries of a matrix below that, and above its inverse, are left as they are


def integer(value, name, least):
    """Raise ValueError unless ``value`` is an integer ≥ ``least`` (a bool is none)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer from {least} on, not {value!r}")


def one_sentence(function: Callable[P, R], finite: bool = True) -> Callable[P, R]:
    """``function``, whose errors are one sentence; ``finite``: as are results that are not."""
    name = function.__name__

    @wraps(function)
    def checked(*positional: P.args, **named: P.kwargs) -> R:
        result = in_one_sentence(name, lambda: function(*positional, **named))
        if finite and not all(np.isfinite(values).all() for values in numbers_of(result)):
            raise ValueError(f"{name} of these arguments leaves the range of numbers: scale them")
        return result

    return checked


def in_one_sentence(what, call):
    """``call()``; an error that is not the package's own becomes a ValueError: ``what`` failed."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        ours = trace.tb_frame.f_globals.get("__name__", "").startswith("alignbook.")
        if ours and "\n" not in str(error):
            raise
        raise ValueError(f"{what} failed: {on_one_line(error)}") from error
    except Exception as error:
        raise ValueError(f"{what} failed: {type(error).__name__}: {on_one_line(error)}") from error


def numbers_of(result):
    """All numbers of a result, as arrays."""
    if is_dataclass(result):
        result = [getattr(result, field.name) for field in fields(result)]
    if isinstance(result, dict | list | tuple):
        for part in result.values() if isinstance(result, dict) else result:
            yield from numbers_of(part)
    else:
        tensor = isinstance(result, torch.Tensor)
        yield result.detach().double().cpu().numpy() if tensor else np.asarray(result)


def shown(value):
    return on_one_line(repr(value))[:60]


def whole(value, name, least, most=2**31):
    integer(value, name, least)
    if value > most:
        raise ValueError(f"{name} must be at most {most:.3g}, not {shown(value)}")
    return int(value)


def above(value, name, most=LARGEST, least=False):
    """A number above 0 (or from 0 on, if ``least``) and at most ``most``."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not (0 <= value <= most) or (value == 0 and not least):
        limits = "from 0 on" if least else "between 0 and 1" if most == 1 else "above 0"
        raise ValueError(f"{name} must be a number {limits}, not {shown(value)}")
    return float(value)


def one_of(value, name, choices):
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, not {shown(value)}")


def instance(value, name, kinds, what):
    if not isinstance(value, kinds):
        raise TypeError(f"{name} must be {what}, not {type(value).__name__}")


def tensor(value, name):
    instance(value, name, torch.Tensor, "a tensor")
    if value.ndim == 0 or value.shape[0] == 0:
        raise ValueError(f"{name} must have one entry per example, at least one, not {tuple(value.shape)}")
    if value.is_floating_point() and not value.isfinite().all():
        raise ValueError(f"{name} have entries that are not finite")


def patterns(value):
    if value is None:
        return None
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple | set) or not all(isinstance(part, str) for part in patterns):
        raise TypeError(f"layers must be names of modules, or patterns of them, not {shown(value)}")
    return list(patterns)


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
