"""Claims of the papers, and verdicts that a test on the seeds decides.

Every constructor takes one measured value per seed (or an interval that a bootstrap made) and
returns a :class:`Claim`. Margins and smallest effects that matter are part of the claim's definition: they
are written down before the result is seen. Intervals are 95 % intervals.

The four outcomes of a statement:

holds, contradicted
    the interval lies on one side of the value that the statement names, and the estimate is at least the
    smallest effect that matters away from it (or the interval lies within the statement's margin, or outside)
no effect
    the interval lies within the smallest effect that matters: a bounded null
open
    none of these; :func:`needed` says how many seeds would decide it

A reader's own parameters may leave a statement *untested* (profile smoke) or *not run* (nothing measured).
"""

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

HOLDS, CONTRADICTED, NO_EFFECT, OPEN = "holds", "contradicted", "no effect", "open"
NOT_JUDGED, NOT_RUN = "untested", "not run"
OUTCOMES = (HOLDS, CONTRADICTED, NO_EFFECT, OPEN, NOT_JUDGED, NOT_RUN)
CONFIDENCE, POWER = 0.95, 0.8
MOST_SEEDS = 10_000  # more than this, and no affordable number decides
_ZERO = re.compile(r"^[+-](0(?:\.0+)?)(?![\d.])")  # 0.0 has no sign
_PIECES = 400  # of the distribution of a standard deviation; power to three digits
ROUNDING = 1e-12  # relative spread below which values are the same


@dataclass(frozen=True)
class KeyNumber:
    """One of the numbers beside a figure: what it is, ours, and the one that the paper prints, if any.

    here, paper : float, str (a number with its spread, as it is to be shown) or None
    interval : of ``here``, where that is a number
    """

    what: str
    here: float | str | None
    paper: float | str | None = None
    interval: tuple[float, float] | None = None


def with_case(sentence, words):
    """``sentence`` with ``words`` in parentheses at its end, or after what stands in parentheses there.

    Parentheses of a formula, as in ``m^(-1/4)``, take no words.
    """
    stem, stop = sentence.removesuffix("."), "." * sentence.endswith(".")
    aside = re.search(r" \([^()]*(\([^()]*\)[^()]*)*\)$", stem)
    return f"{stem[:-1]}; {words}){stop}" if aside else f"{stem} ({words}){stop}"


@dataclass(frozen=True)
class Claim:
    """One statement of a paper beside what was measured.

    ``values`` of the constructors: one float per seed, or per ``what``, at least three for a verdict;
    :meth:`computed`, of a quantity without randomness, needs none. They raise ValueError for values that are
    not finite or are no list of one number per seed, and for a negative margin.

    Examples
    --------
    >>> from companion import Claim
    >>> claim = Claim.greater("faster", "It is faster.", "Figure 1", [1.1, 0.9, 1.0], than=0.0)
    >>> claim.outcome, claim.seeds
    ('holds', 3)
    >>> Claim.greater("faster", "It is faster.", "Figure 1", [1.1, -0.9, 1.0], than=0.0).outcome
    'open'
    """

    id: str  # short, unique within its notebook, e.g. below-random-basis
    statement: str  # in our words, one sentence
    source: str  # where in the paper, e.g. Figure 2 or Section 2.3
    paper: float | str | None = None  # the value that the paper prints
    tolerance: float | None = None  # the margin around it
    measured: float | None = None  # mean over the seeds
    interval: tuple[float, float] | None = None  # (low, high), 95 %
    outcome: str = NOT_RUN  # one of OUTCOMES, see the module
    seeds: int = 0  # how many measured values the verdict rests on
    test: str = ""  # how the verdict was reached, one line
    group: str | None = None  # the statement that it and others are replicates of (per data set, per ε, …)
    case: str = ""  # which of them it is
    ours: bool = False  # what is judged is a bound, a reading or a coefficient of ours, not the paper's
    headline: bool = False  # the figure or table exists for this claim; one per notebook
    part: str = ""  # what the page calls this part of the paper's claim; empty where it is none
    matters: float | None = None  # the smallest effect that matters; None where nothing is directional
    unit: str = ""  # of measured, interval and matters, e.g. points
    because: str = ""  # why an effect smaller than that would not count, one line
    post_hoc: str | None = None  # why the reading was chosen after its data were seen, one line
    opposed_by: str | None = None  # where the paper says the opposite, one line
    against: float | None = None  # the value that the interval is held against
    spread: float | None = None  # standard deviation of the measured values
    needed: dict | None = None  # of an open claim: what needed() says, with its core_hours or None
    what: str = "seed"  # what there is one measured value of: a seed, a group of networks, …
    runs: str = ""  # how the planned runs that it rests on differ from the page's; empty for the page's own

    def as_dict(self) -> dict[str, Any]:
        """The claim as a JSON-ready dict."""
        return asdict(self)

    def not_judged(self, why: str) -> "Claim":
        """The same claim, measured, without a verdict: it cannot decide; ``why`` is one line.

        A claim for which nothing was measured stays *not run*.
        """
        return replace(self, outcome=NOT_RUN if self.measured is None else NOT_JUDGED, test=why)

    def within(self, low: float = -math.inf, high: float = math.inf) -> "Claim":
        """The same claim, its interval cut to ``low`` … ``high``, and its test says so.

        A t interval of few seeds knows nothing of the bounds of a correlation or an accuracy. The outcome
        stays: a bound lies beyond every value that the claim could be judged against.
        """
        cut = _cut(self.interval or (), low, high) or None
        if cut == self.interval:
            return self
        return replace(self, interval=cut, test=f"{self.test}; shown up to the bound of the quantity")

    @classmethod
    def missing(cls, id: str, statement: str, source: str, why: str) -> "Claim":
        """A claim for which nothing was measured; ``why`` is one line."""
        return cls(id, statement, source, test=why)

    @classmethod
    def greater(cls, id, statement, source, values, than=0.0, matters=None, what="seed") -> "Claim":
        """``values`` (one per seed, or per ``what``) lie above ``than``: two-sided t interval of their mean.

        No effect when the whole interval is within ``than`` ± ``matters``, if given; holds when it is above
        ``than`` and the mean at least ``matters`` above it, contradicted when the same is so below, else
        open; fewer than three seeds, or seeds without any spread, are open.
        """
        _require_finite([than])
        values, mean, interval = t_interval(values)
        low, high = interval or (-math.inf, math.inf)
        outcome = OPEN
        if matters is not None and than - matters <= low and high <= than + matters:
            outcome = NO_EFFECT
        elif (low > than or high < than) and abs(mean - than) >= (matters or 0.0):
            outcome = HOLDS if low > than else CONTRADICTED
        test = f"mean of {_counted(values, what)} against {than:g}"
        claim = cls(id, statement, source, None, None, mean, interval, outcome, len(values), test, what=what)
        return replace(claim, matters=matters, against=float(than), spread=_spread(values))

    @classmethod
    def less(cls, id, statement, source, values, than=0.0, matters=None, what="seed") -> "Claim":
        """Like :meth:`greater`, the other way round: ``values`` lie below ``than``."""
        claim = cls.greater(id, statement, source, values, than, matters, what)
        turned = {HOLDS: CONTRADICTED, CONTRADICTED: HOLDS}
        return replace(claim, outcome=turned.get(claim.outcome, claim.outcome))

    @classmethod
    def equals(cls, id, statement, source, values, paper, tolerance, what="seed") -> "Claim":
        """The mean of ``values`` is ``paper`` within ``tolerance`` (same unit).

        Holds when the t interval lies within the margin (an equivalence test), contradicted when it
        lies outside, else open; fewer than three seeds, or seeds without any spread, are open.
        """
        paper, tolerance = _checked(paper, tolerance)
        values, mean, interval = t_interval(values)
        low, high = interval or (-math.inf, math.inf)
        outcome = OPEN
        if paper - tolerance <= low and high <= paper + tolerance:
            outcome = HOLDS
        elif high < paper - tolerance or low > paper + tolerance:
            outcome = CONTRADICTED
        test = f"mean of {_counted(values, what)} against {paper:g} ± {tolerance:g}"
        claim = cls(id, statement, source, paper, tolerance, mean, interval, outcome, len(values), test)
        return replace(claim, against=paper, spread=_spread(values), what=what)

    @classmethod
    def one_run(cls, id, statement, source, values, paper, tolerance=None, what="seed") -> "Claim":
        """The printed value ``paper``, of one run, is what one more run like ours could give.

        The interval is the 95 % prediction interval of one run, mean ± t s √(1 + 1/n), and not that of the
        mean, which a perfect reproduction would leave as often as not. Holds when ``paper`` lies within it,
        contradicted when it lies outside; open below three values, where these have no spread, and with a
        ``tolerance``, where the interval reaches further than that from the mean, so that it says little.
        """
        paper, tolerance = _checked(paper, 0.0 if tolerance is None else tolerance)
        values, mean, interval = t_interval(values)
        test = f"printed value against what one more run could give, by {_counted(values, what)}"
        outcome = OPEN
        if interval is not None:
            half = (interval[1] - mean) * math.sqrt(len(values) + 1)
            interval = (mean - half, mean + half)
            outcome = HOLDS if abs(paper - mean) <= half else CONTRADICTED
            if outcome == HOLDS and 0 < tolerance < half:
                outcome = OPEN
                test += f", which is wider than ± {tolerance:g}"
        return cls(id, statement, source, paper, None, mean, interval, outcome, len(values), test, what=what)

    @classmethod
    def computed(cls, id, statement, source, measured, paper, tolerance) -> "Claim":
        """A quantity without randomness: ``measured`` is ``paper`` within ``tolerance``."""
        measured = float(measured)
        paper, tolerance = _checked(paper, tolerance)
        _require_finite([measured])
        outcome = HOLDS if abs(measured - paper) <= tolerance else CONTRADICTED
        test = f"computed without randomness; {paper:g} ± {tolerance:g}"
        return cls(id, statement, source, paper, tolerance, measured, None, outcome, 1, test)


def needed(claim):
    """What would decide an open ``claim``: {"seeds": int or None, "why": str}; None for any other.

    The least number of new seeds (or of ``what`` the claim has one value of) with which, at the mean and the
    spread that were seen, a verdict comes out with 80 % power, whichever it is: *holds*, *contradicted* or
    *no effect*. None where there is nothing to plan by, or where more than 10,000 would be needed; ``why``
    says which.
    """
    if claim.outcome != OPEN:
        return None
    if claim.seeds == 1:
        return {"seeds": None, "why": f"one {claim.what} has no spread to plan by"}
    if claim.spread is None or claim.against is None:
        return {"seeds": None, "why": "the interval of this test does not narrow as that of a mean does"}
    if claim.spread <= ROUNDING * abs(claim.measured):
        return {"seeds": None, "why": f"the {claim.what}s have no spread: another statistic is needed"}
    count = _seeds(lambda n: _power(claim, n))
    if count is None:
        return {"seeds": None, "why": f"it would take more than {MOST_SEEDS:,} at the mean and spread seen"}
    return {"seeds": count, "why": f"80 % power at the mean and spread of {claim.seeds} {claim.what}s"}


def _seeds(power):
    """The least n from 3 to ``MOST_SEEDS`` with ``power(n)`` ≥ ``POWER``, or None; ``power`` rises with n."""
    low, high = 3, MOST_SEEDS
    if power(high) < POWER:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle + 1, high)
    return low


def _power(claim, n):
    """Chance of a verdict by ``n`` normal values that have the mean and the spread of ``claim``.

    Open is a mean whose distance from ``claim.against`` lies between two bounds that half the t interval
    moves: averaged over ``_PIECES`` equally likely standard deviations of the n values. A number for every
    effect; scipy's noncentral t distribution gives NaN for large ones.
    """
    from scipy import special

    unit = math.sqrt(n) / claim.spread  # one standard error of the mean
    tail = (np.arange(_PIECES) + 0.5) / _PIECES
    spread = np.sqrt(special.chdtri(n - 1, tail) / (n - 1))
    half = special.stdtrit(n - 1, (1 + CONFIDENCE) / 2) * spread
    distance = unit * abs(claim.measured - claim.against)
    if claim.tolerance is not None:  # an equivalence: within the margin, or beyond it
        inner, outer = unit * claim.tolerance - half, unit * claim.tolerance + half
    else:
        matters = unit * (claim.matters or 0.0)
        inner, outer = matters - half, np.maximum(half, matters)

    def nearer(bound):
        return special.ndtr(bound - distance) - special.ndtr(-bound - distance)

    return float(np.mean(1 - np.maximum(nearer(outer) - nearer(np.maximum(inner, 0.0)), 0.0)))


def _spread(values):
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _counted(values, what):
    """How many values, and why they may have no interval."""
    counted = f"one {what}" if len(values) == 1 else f"{len(values)} {what}s"
    if len(values) < 3:
        return f"{counted} of the three that a verdict needs"
    return f"{counted} without any spread" if _alike(values) else counted


def _alike(values):
    """Whether finite ``values`` differ by rounding at most."""
    return np.ptp(values) <= ROUNDING * np.abs(values).max()


def _require_finite(values):
    if not np.isfinite(values).all():
        raise ValueError("a claim rests on finite values: leave diverged runs out and count them")


def _checked(paper, tolerance):
    """The paper's value and the margin around it as floats."""
    paper, tolerance = float(paper), float(tolerance)
    _require_finite([paper, tolerance])
    if tolerance < 0:
        raise ValueError(f"the margin must be at least 0, not {tolerance}")
    return paper, tolerance


def t_interval(values):
    """(values, mean, 95 % interval of it): float array, float or None, (low, high) or None.

    None below three values, and where all are the same: they say nothing of a spread.
    """
    values = np.atleast_1d(np.asarray(values, dtype=float))
    if values.ndim != 1:
        raise ValueError(f"a claim rests on one value per seed, not on an array of shape {values.shape}")
    _require_finite(values)
    mean = float(values.mean()) if len(values) else None
    if len(values) < 3 or _alike(values):
        return values, mean, None
    from scipy import special  # here: commands that judge nothing need none; stats would take a second

    quantile = special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)
    half = quantile * values.std(ddof=1) / math.sqrt(len(values))
    return values, mean, (float(mean - half), float(mean + half))


def interval(values, form="{:.2f}", within=(-math.inf, math.inf)):
    """Mean of ``values`` and its 95 % t interval, ``1.23 (0.98 to 1.48)``, each written as ``form`` says.

    within : (low, high) that no value can leave, of a share (0, 1): the interval ends there
    Without the interval where there is none (fewer than three values, or all the same) or where both ends are
    written as the mean is; of no values, a dash.
    """
    _, mean, ends = t_interval(values)
    if mean is None:
        return "–"
    middle, *ends = (_ZERO.sub(r"\1", form.format(value)) for value in (mean, *_cut(ends or (), *within)))
    apart = {*ends} - {middle}
    return middle + (f" ({ends[0]} to {ends[1]})" if apart else "")


def spread(values, form="{:.2f}"):
    """Mean of the Series ``values`` ± standard deviation, ``1.23 ± 0.05``; of one value the mean alone."""
    deviation = f" ± {form.replace('+', '').format(values.std())}" if len(values) > 1 else ""
    return form.format(values.mean()) + deviation


def _cut(ends, low, high):
    return tuple(min(max(end, low), high) for end in ends)
