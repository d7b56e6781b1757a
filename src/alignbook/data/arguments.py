"""What ``load`` refuses before it looks for an image set.

A decorator that changes nothing for arguments it lets through.
"""

from functools import wraps
from numbers import Integral

from ..errors import AlignbookError


def checked(load):
    """Refuses a name that is no text, and an ``n`` or ``seed`` that is no integer, with AlignbookError."""

    @wraps(load)
    def of_checked(name, split="train", n=None, seed=0):
        if not isinstance(name, str):
            raise AlignbookError(f"the name of an image set is a text, not {name!r}")
        if n is not None and not _integer(n):
            raise AlignbookError(f"n must be an integer or None, not {n!r}")
        if not _integer(seed) or seed < 0:
            raise AlignbookError(f"seed must be an integer from 0 on, not {seed!r}")
        return load(name, split, n, seed)

    return of_checked


def _integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)
