"""How many of the examples an instrument sees, so that a probe ends in time and fits into memory."""

import itertools
import time
from dataclasses import dataclass
from numbers import Integral, Real

from .errors import DoesNotApply, OutOfTime, TooLong

MEMORY = 4e9  # bytes, unless the reader says otherwise
LEAST = 8  # examples, or the instrument is left out
TRIAL = 2
GROWTH = 4
# The time's share is rounded down to these, so that one and the same machine mostly comes to the same.
SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)
clock = time.perf_counter


@dataclass(frozen=True)
class Limits:
    """minutes : for everything, infinity: no limit. memory : bytes that an instrument holds at most for its
    examples, and for vectors of parameters. examples : how many each instrument sees, where it takes as many;
    None: as many as the time allows. Raises ValueError, one line, for what is none of these.
    """

    minutes: float = 10.0
    memory: float = MEMORY
    examples: int | None = None

    def __post_init__(self):
        for name in ("minutes", "memory"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not value > 0:
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        few = self.examples
        if few is not None and (isinstance(few, bool) or not isinstance(few, Integral) or few < LEAST):
            raise ValueError(f"examples must be an integer from {LEAST} on, not {few!r}")

    @property
    def seconds(self):
        return 60.0 * self.minutes

    def fits(self, held, most, what="examples"):
        """How many examples ≤ ``most`` that take so many bytes each. Raises DoesNotApply for too few."""
        n = size(self.memory / max(held, 1), most)
        if not n or (self.examples is not None and n < most):
            least = LEAST if self.examples is None else most
            needed = f"{least} {what} take {gigabytes(least * held)}"
            raise DoesNotApply(f"{needed}, more than {gigabytes(self.memory)} (--memory)")
        return n


def size(count, most):
    """``most``, or where ``count`` is less the next of ``SIZES`` below, 0 below the least."""
    return most if count >= most else max((n for n in SIZES if n <= count), default=0)


def spread(values, n):
    """n of the values, at :func:`positions`."""
    return values if n == len(values) else values[positions(len(values), n)]


def positions(count, n):
    """The numbers of ``n`` of ``count`` examples, evenly from first to last, always the same; or of all.

    One example of each of n equal parts: sorted targets keep their classes. Where in its part moves on by the
    golden ratio: so do targets that repeat with a period.
    """
    if count <= n:
        return list(range(count))
    starts = [i * count // n for i in range(n + 1)]
    return [a + (b - a) * (i * 40503 % 65536) // 65536 for i, (a, b) in enumerate(itertools.pairwise(starts))]


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


def within(measure, most, share, left, say=None, fixed=False):
    """(what ``measure(n)`` returns, n, its seconds): n ≤ ``most`` examples, as many as ``share`` allows.

    measure : callable, number of examples → result. It is tried on 2, 8, 32, … examples until the trials
    foretell that all will fit, or that the next would take more than a quarter of what is left; then it is
    called once more with what fits, if that is more than the last trial, whose result it is otherwise.
    share, left : seconds; ``left`` is what ``LEAST`` examples may take, at the others' cost.
    say : callable (n, expected seconds) before a call that is more than a trial.
    fixed : whether ``most`` examples are to be taken or none; they may take all that is left.
    Raises what ``measure`` raises at last (DoesNotApply, ValueError or RuntimeError on few examples may be
    otherwise on more), and DoesNotApply where ``LEAST`` examples would take more than ``left``.
    """
    begun, times = clock(), []
    n, again = min(TRIAL, most), True
    least = most if fixed else LEAST
    while True:
        start, error = clock(), None
        try:
            result = measure(n)
        except OutOfTime:
            raise
        except (DoesNotApply, ValueError, RuntimeError) as caught:
            error = caught
        now = (n, clock() - start)
        rest = (left if fixed else share) - (clock() - begun)
        if error is None:
            needed = now[1] / n * least
            if n == min(TRIAL, most) and again and n < least and needed > left - (clock() - begun):
                again = False  # the first call of all may wait for what others do not: another machine's load
                continue
            times.append(now)
            larger, last = (_all if fixed else _following)(times, most, rest)
            needed = now[1] / n * least
            if n < least and (fixed or not last) and needed > left - (clock() - begun):
                raise TooLong(too_long(f"{least} examples", needed))
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


def _all(times, most, rest):
    return (None, True) if times[-1][0] == most else (most, True)


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
    return f"{what} would take about {duration(needed)}, more than is left (--minutes)"


def duration(needed):
    """``needed`` seconds in words."""
    if needed < 100:
        return f"{needed:.2g} s" if needed < 10 else f"{needed:.0f} s"
    return f"{needed / 60:.0f} min"


def gigabytes(count):
    """Bytes in words."""
    return f"{count / 1e9:.0f} GB" if count >= 1e10 else f"{count / 1e9:.2g} GB"
