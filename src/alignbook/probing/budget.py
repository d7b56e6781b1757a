"""How many of the examples an instrument sees, so that a probe ends in time."""

import itertools
import time
from collections.abc import Callable
from typing import Any

from .errors import DoesNotApply, OutOfTime

LEAST = 8  # examples, or the instrument is left out
GROWTH = 4
clock = time.perf_counter


def spread(values, n: int):
    """n of the values, at :func:`positions`."""
    return values if n == len(values) else values[positions(len(values), n)]


def positions(count: int, n: int) -> list[int]:
    """The numbers of ``n`` of ``count`` examples, evenly from first to last, always the same; or of all.

    One example of each of n equal parts: sorted targets keep their classes. Where in its part moves on by the
    golden ratio: so do targets that repeat with a period.
    """
    if count <= n:
        return list(range(count))
    starts = [i * count // n for i in range(n + 1)]
    return [a + (b - a) * (i * 40503 % 65536) // 65536 for i, (a, b) in enumerate(itertools.pairwise(starts))]


def within(measure: Callable[[int], Any], most: int, seconds: float) -> tuple[Any, int]:
    """(what ``measure(n)`` returns, n) for as many examples n ≤ ``most`` as the seconds allow.

    It is measured on 8, 32, 128, … examples, until the next would take more than what is left of the time if
    cost grew with the square of n, and at once on all that would fit. When the time is over, the last counts.
    """
    start, n, last = clock(), min(LEAST, most), None
    while True:
        began = clock()
        try:
            last = measure(n), n
        except OutOfTime:
            if last is None:
                raise
            return last
        except (DoesNotApply, ValueError, RuntimeError):  # few examples may have one class alone
            if n == most:
                raise
            n = min(GROWTH * n, most)
            continue
        now = clock()
        left, each = seconds - (now - start), (now - began) / n**2
        larger = [m for m in (most, GROWTH * n) if n < m <= most and each * m**2 <= left]
        if not larger:
            return last
        n = larger[0]
