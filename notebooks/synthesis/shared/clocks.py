"""By what clock the changes of the chapter's networks are timed."""

import numpy as np


def octaves(steps):
    """log₂(1 + step), float64."""
    return np.log2(1 + np.asarray(steps, dtype=float))


def path(values):
    """Length of the path up to each value, from 0: the sum of all change so far."""
    return np.append(0.0, np.cumsum(np.abs(np.diff(np.asarray(values, dtype=float)))))
