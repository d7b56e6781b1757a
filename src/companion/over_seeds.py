"""From a tidy table to one value per seed: the words that readings are made of.

A *sample* is a Series with the seed as index. A *frame* has a row per seed and a column per condition (an
epoch, a width, a depth). Seeds that lack something are left out where two things are compared, and only
there; runs that diverged are in no table.
"""

import functools
import weakref

import numpy as np
import pandas as pd

from companion.claims import CONFIDENCE, t_interval

SEED = "seed"
_ROUNDING = 1e-9  # of the largest: values that differ by less are the same


def once(measure):
    """``measure(table, ...)``, kept for as long as the table is, since many statements ask for the same.

    Nobody changes a table meanwhile, nor what was measured; the other arguments are hashable. What is
    measured must not be the table itself, which would then never be freed.
    """
    kept = {}

    @functools.wraps(measure)
    def found(table, *more, **named):
        if id(table) not in kept:
            kept[id(table)] = {}
            weakref.finalize(table, kept.pop, id(table), None)
        asked = (more, *sorted(named.items()))
        of_table = kept[id(table)]
        if asked not in of_table:
            of_table[asked] = measure(table, *more, **named)
        return of_table[asked]

    return found


def at(table, **values):
    """The rows of ``table`` whose columns have these values; a list or range allows each of its values.

    Of a table that lacks a column, none.
    """
    if not set(values) <= set(table):
        return table.iloc[:0]
    chosen = np.ones(len(table), dtype=bool)
    for name, value in values.items():
        several = pd.api.types.is_list_like(value)
        chosen &= (table[name].isin(list(value)) if several else table[name] == value).to_numpy()
    return table[chosen]


def sample(rows, column):
    """``column`` by seed, a Series without missing values. Raises ValueError where a seed has two rows."""
    if not {SEED, column} <= set(rows):
        return pd.Series(dtype=float)
    values = rows.set_index(SEED)[column].dropna().sort_index()
    if values.index.has_duplicates:
        raise ValueError(f"seed {values.index[values.index.duplicated()][0]} has several rows of {column}")
    return values.astype(float)


def curves(rows, x, column):
    """(seeds × values of ``x``) frame of ``column``, ascending; NaN where a seed has no such row.

    Raises ValueError where a seed has two rows of one ``x``.
    """
    if not {SEED, x, column} <= set(rows):
        return pd.DataFrame()
    return rows.pivot(index=SEED, columns=x, values=column).sort_index(axis=1).astype(float)


def across(table, column, values, measure):
    """(seeds × ``values``) frame of the samples ``measure(rows)``, one per value of ``column``.

    Only seeds that have all of them.
    """
    return pd.DataFrame({value: measure(at(table, **{column: value})) for value in values}).dropna()


def first(frame):
    """The leftmost column of ``frame`` as a sample: smallest width, first epoch, …; empty of no columns."""
    return _column(frame, 0)


def last(frame):
    """The rightmost column of ``frame`` as a sample."""
    return _column(frame, -1)


def _column(frame, place):
    return frame.iloc[:, place].dropna() if frame.shape[1] else pd.Series(dtype=float)


def value_at(frame, x):
    """Each seed's curve at ``x``, by straight lines between what was recorded; NaN outside it is left out."""
    return _by_seed(frame, lambda row: _interpolated(row, x))


def _interpolated(row, x):
    return np.interp(x, row.index.astype(float), row, left=np.nan, right=np.nan) if len(row) else np.nan


def area(frame, low=None, high=None):
    """Mean of each seed's curve between ``low`` and ``high`` (default: its ends), joined by straight lines.

    The area under the curve over the length of the axis. Left out: seeds whose record does not reach from
    ``low`` to ``high``, or has fewer than two points.
    """
    return _by_seed(frame, lambda row: _mean(row, low, high))


def _mean(row, low, high):
    if len(row) < 2:
        return np.nan
    x = row.index.to_numpy(dtype=float)
    low, high = x[0] if low is None else low, x[-1] if high is None else high
    if low < x[0] or high > x[-1] or not low < high:
        return np.nan
    inner = x[(x > low) & (x < high)]
    points = np.concatenate([[low], inner, [high]])
    return np.trapezoid(np.interp(points, x, row), points) / (high - low)


def _by_seed(frame, measure):
    """The sample of ``measure(row)``, its columns ascending, without missing values; NaN is left out."""
    found = {seed: measure(row.dropna().sort_index()) for seed, row in frame.iterrows()}
    return pd.Series(found, dtype=float).dropna().rename_axis(frame.index.name)


def difference(one, other):
    """``one`` − ``other`` within each seed; seeds that lack either are left out."""
    return (one - other).dropna()


def ratio(one, other):
    """``one`` / ``other`` within each seed; seeds that lack either, or where ``other`` is 0, are left out."""
    return (one / other.where(other != 0)).dropna()


def slope(frame):
    """Least-squares slope of each seed's row over the columns, which are numbers; at least two points."""
    return _by_seed(frame, _slope)


def _slope(row):
    x = row.index.to_numpy(dtype=float)
    x = x - x.mean() if len(x) else x
    spread = float(x @ x)
    return float(x @ row) / spread if spread > 0 else np.nan


def exponent(x, y):
    """k of the least-squares line log y = k log x + C, of numbers above 0."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def jackknife(rows, statistic, unit="network"):
    """Pseudo-values of ``statistic(rows)``, one per row: n θ − (n − 1) θ without it.

    Their mean is the jackknife's estimate and the t interval of the mean its interval, for a statistic that
    is no mean over rows: a slope over networks of several depths, say. Empty where ``statistic`` is NaN.

    rows : DataFrame; unit : what there is one row of, the name of the index
    """
    whole, count = statistic(rows), len(rows)
    if count < 2 or np.isnan(whole):
        return _none()
    without = [statistic(rows.drop(index=label)) for label in rows.index]
    values = pd.Series(count * whole - (count - 1) * np.array(without), dtype=float)
    return values.dropna().rename_axis(unit)


def rank_correlation(one, other, ranked=True):
    """Spearman's correlation of two frames' rows, seed by seed, over the columns that both have.

    ranked : False for Pearson's, of the values themselves
    Left out: seeds with fewer than three common values, or where either does not vary.
    """
    shared, seeds = one.columns.intersection(other.columns), one.index.intersection(other.index)
    both = [frame.loc[seeds, shared].astype(float) for frame in (one, other)]
    known = both[0].notna() & both[1].notna()
    found = (frame.where(known) for frame in both)
    found = (frame.rank(axis=1) if ranked else frame for frame in found)
    x, y = (frame.sub(frame.mean(axis=1), axis=0) for frame in found)
    spread = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    return ((x * y).sum(axis=1) / spread)[(known.sum(axis=1) > 2) & (spread > 0)]


def correlation(rows, one, other, least=3):
    """Pearson's correlation of two columns of ``rows`` within each seed: over its networks, say.

    Left out: seeds with fewer than ``least`` rows that have both, or where either does not vary.
    """
    if not {SEED, one, other} <= set(rows):
        return _none()
    found = {}
    for seed, both in rows[[SEED, one, other]].dropna().astype(float).groupby(SEED):
        both = both[[one, other]]
        varies = np.ptp(both, axis=0) > _ROUNDING * both.abs().max()
        if len(both) >= least and varies.all():
            found[int(seed)] = float(both.corr().iloc[0, 1])
    return pd.Series(found, dtype=float)


def means(rows, column):
    """Mean of ``column`` over the rows of each seed, a sample; without the rows that lack it."""
    if not {SEED, column} <= set(rows):
        return _none()
    return rows.dropna(subset=column).groupby(SEED)[column].mean().astype(float)


def weakest(*samples):
    """Of several samples, each to lie above 0, the one that shows it least: with the lowest interval's end.

    A statement that joins several by *and* holds if it holds of this one (an intersection-union test, which
    needs no correction). The test licenses no more: *contradicted* and *no effect* then speak of this part.
    Empty of none, or where one is empty; a sample without an interval is the weakest.
    """
    if not samples or any(len(values) == 0 for values in samples):
        return _none()
    return min(samples, key=_lower_end)


def strongest(*samples):
    """Of several samples, one of which is to lie above 0, the one that shows it most, :func:`corrected`.

    Empty of none; a sample of one value is left as it is.
    """
    found = [corrected(values, len(samples)) if len(values) > 1 else values for values in samples]
    return max(found, key=_lower_end, default=_none())


def corrected(values, tests):
    """``values`` spread about their mean so that their 95 % t interval is the one of 1 − 5 % / ``tests``.

    With this interval (Bonferroni's, the first step of Holm's) the least of ``tests`` samples, each with
    mean 0, lies below 0 in at most one of forty cases, as a single one does with its own.
    """
    from scipy import special

    tail = (1 - CONFIDENCE) / 2
    wider, usual = (special.stdtrit(len(values) - 1, 1 - t) for t in (tail / tests, tail))
    return values.mean() + (values - values.mean()) * wider / usual


def _lower_end(values):
    interval = t_interval(values)[2]
    return -np.inf if interval is None else interval[0]


def _none():
    return pd.Series(dtype=float)
