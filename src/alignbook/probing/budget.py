"""How many of the examples an instrument sees, so that a probe ends in time and fits into memory."""

import time

from .instruments import DoesNotApply

MEMORY = 4e9  # bytes that an instrument holds at most for its examples, and for vectors of parameters
LEAST = 8  # examples, or the instrument is left out
TRIAL = 2
GROWTH = 4
# The time's share is rounded down to these, so that one and the same machine mostly comes to the same.
SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)
clock = time.perf_counter


def seconds(minutes):
    """Of a budget. Raises ValueError where it is no number above 0 (infinity is: no limit)."""
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise ValueError(f"minutes must be a number above 0, not {minutes!r}")
    return 60.0 * minutes


def size(count, most):
    """``most``, or where ``count`` is less the next of ``SIZES`` below, 0 below the least."""
    return most if count >= most else max((n for n in SIZES if n <= count), default=0)


def spread(values, n):
    """n of the rows, evenly from first to last: sorted targets keep their classes."""
    if n == len(values):
        return values
    return values[[i * len(values) // n for i in range(n)]]


def predicted(times, n):
    """Seconds for n examples from [(examples, seconds), …] of trials, ascending.

    Of one trial, as if cost grew with the square; of more, a n + b n² through the last two, with a, b ≥ 0.
    """
    count, took = times[-1]
    slope = took / count**2
    if len(times) > 1:
        before, took_before = times[-2]
        slope = min(max((took / count - took_before / before) / (count - before), 0.0), slope)
    return (took / count - slope * count) * n + slope * n**2


def within(measure, most, share, left, say=None):
    """(what ``measure(n)`` returns, n, its seconds): n ≤ ``most`` examples, as many as ``share`` allows.

    measure : callable, number of examples → result. It is tried on 2, 8, 32, … examples until the trials
    foretell that all will fit, or that the next would take more than a quarter of what is left; then it is
    called once more with what fits, if that is more than the last trial, whose result it is otherwise.
    share, left : seconds; ``left`` is what ``LEAST`` examples may take, at the others' cost.
    say : callable (n, expected seconds) before a call that is more than a trial.
    Raises what ``measure`` raises at last (DoesNotApply, ValueError or RuntimeError on few examples may be
    otherwise on more), and DoesNotApply where ``LEAST`` examples would take more than ``left``.
    """
    begun, times = clock(), []
    n = min(TRIAL, most)
    while True:
        start, error = clock(), None
        try:
            result = measure(n)
        except (DoesNotApply, ValueError, RuntimeError) as caught:
            error = caught
        now = (n, clock() - start)
        rest = share - (clock() - begun)
        if error is None:
            times.append(now)
            larger, last = _following(times, most, rest)
            if n < LEAST and not last and now[1] / n * LEAST > left - (clock() - begun):
                raise DoesNotApply(too_long(f"{LEAST} examples", now[1] / n * LEAST))
        else:  # how long the whole takes is not known yet
            larger, last = min(GROWTH * n, most), False
            if n == most or predicted([now], larger) > rest:
                larger = None
        if larger is None:
            if error is not None:
                raise error
            return result, *now
        n = larger
        if last and say is not None:
            say(n, predicted(times, n))


def _following(times, most, rest):
    """(how many examples next, whether that is meant to be the last); (None, True): no more."""
    n = times[-1][0]
    if n == most:
        return None, True
    if predicted(times, most) <= rest:
        return most, True
    if n < LEAST:
        return min(LEAST, most), False
    if predicted(times, GROWTH * n) <= rest / GROWTH:
        return GROWTH * n, False
    return next((m for m in reversed(SIZES) if n < m < most and predicted(times, m) <= rest), None), True


def too_long(what, needed):
    """Why an instrument is left out for time; with what would do."""
    return f"{what} would take about {duration(needed)}, more than is left of the time (--minutes)"


def duration(needed):
    """``needed`` seconds in words."""
    return f"{needed:.0f} s" if needed < 100 else f"{needed / 60:.0f} min"


def gigabytes(count):
    """Bytes in words."""
    return f"{count / 1e9:.0f} GB" if count >= 1e10 else f"{count / 1e9:.2g} GB"
