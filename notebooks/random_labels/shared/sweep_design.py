"""Which groups a sweep holds: drawn at random as in the paper, or a balanced fraction of the grid (B)."""

import functools
import math

import numpy as np

from alignbook.seeding import numpy_stream


def random_design(factors, count, *stream):
    """``count`` groups, each value drawn on its own (B): a list of {factor: value}.

    factors : {name: list of values, drawn uniformly, or (low, high), drawn log-uniformly}.
    ``stream`` names the random stream. Raises ValueError for a range that is no range of positive numbers.
    """
    rng, columns = numpy_stream(0, "sweep", *stream), {}
    for name, values in factors.items():
        if isinstance(values, tuple):
            low, high = _range(name, values)
            draws = low * (high / low) ** rng.random(count)
            columns[name] = [float(f"{draw:.4g}") for draw in draws]
        else:
            columns[name] = [values[place] for place in rng.integers(len(values), size=count)]
    return _groups(columns, count)


def balanced_design(factors, count, levels, *stream):
    """``count`` groups in which factors, and pairs of factors, are balanced as well as can be found.

    factors : as in :func:`random_design`; a range (low, high) becomes the ``levels`` centres of as many
    equal parts of it on a logarithmic axis. Each value of a factor is in ⌊count / values⌋ or one more of the
    groups. The columns begin in random order; then the exchange of two entries of a column which most lowers
    :func:`imbalance` is made, until none does (as for nearly orthogonal arrays: H. Xu, Technometrics 44,
    2002, whose criterion this is up to a constant). Returns a list of {factor: value}.
    """
    lists = {
        name: centres(*_range(name, values), levels) if isinstance(values, tuple) else values
        for name, values in factors.items()
    }
    # Levels as numbers; the same sweep is asked for many times a page.
    columns = _nearly_orthogonal(tuple(len(values) for values in lists.values()), count, stream)
    return _groups(
        {
            name: [values[level] for level in column]
            for (name, values), column in zip(lists.items(), columns, strict=True)
        },
        count,
    )


def _range(name, values):
    low, high = values
    if not 0 < low <= high:
        raise ValueError(f"{name} goes from {low} to {high}: not a range of positive numbers")
    return low, high


def _groups(columns, count):
    return [{name: values[group] for name, values in columns.items()} for group in range(count)]


def centres(low, high, levels):
    """The centres of ``levels`` equal parts of (low, high) on a logarithmic axis, four significant digits."""
    steps = [(part + 0.5) / levels for part in range(levels)]
    return [float(f"{low * (high / low) ** step:.4g}") for step in steps]


def imbalance(one, other, values):
    """Σ (n_ab − n / (k_one k_other))² over all pairs of levels (a, b) of two columns.

    one, other : (n,) levels from 0 on; values : (k_one, k_other), how many levels each has. 0 when all pairs
    of levels are equally often together.
    """
    expected = len(one) / math.prod(values)
    pairs = list(zip(one, other, strict=True))
    return sum((pairs.count((a, b)) - expected) ** 2 for a in range(values[0]) for b in range(values[1]))


@functools.cache
def _nearly_orthogonal(values, count, stream):
    """Columns of levels, (len(values)) × (count), see :func:`balanced_design`."""
    rng = numpy_stream(0, "sweep", *stream)
    columns = [rng.permutation(np.arange(count) % number) for number in values]
    improved = count > 1
    while improved:
        improved = False
        for place, number in enumerate(values):
            while True:
                change = _changes(columns, place, number, values)
                best = int(change.argmin())
                if change.flat[best] >= 0:
                    break
                one, other = divmod(best, count)
                column = columns[place]
                column[one], column[other] = column[other], column[one]
                improved = True
    return [column.tolist() for column in columns]


def _changes(columns, place, number, values):
    """(n, n): how :func:`imbalance`, over all pairs, changes when two entries of a column change places."""
    column = columns[place]
    total = np.zeros((len(column), len(column)), dtype=int)
    for other, (levels, many) in enumerate(zip(columns, values, strict=True)):
        if other == place:
            continue
        together = np.zeros((number, many), dtype=int)
        np.add.at(together, (column, levels), 1)
        crossed = together[column[:, None], levels[None, :]]  # [i, j]: how often i's level is with j's other
        here = crossed.diagonal()
        moved = 2 * (crossed + crossed.T - here[:, None] - here[None, :]) + 4
        total += np.where((column[:, None] != column) & (levels[:, None] != levels), moved, 0)
    return total
