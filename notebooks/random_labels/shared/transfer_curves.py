"""Transfer functions τ = f(σ) of several networks: whether they rise and then fall (Maennel et al. 2020)."""

import numpy as np
import pandas as pd

from companion.over_seeds import curves

RISE, FALL = 0, 1


def networks(rows):
    """``rows`` of which every network, and not every seed, counts as one: ``network`` as their seed."""
    return rows.assign(seed=rows["network"])


def growth(rows):
    """τ after training over τ before: (seeds × eigenvalues) frame, σ ascending."""
    return (curves(rows, "index", "tau") / curves(rows, "index", "tau_start")).dropna()


def change(frame, end):
    """``RISE`` or ``FALL`` of each row of a (seeds × eigenvalues) frame, a sample: :func:`rise_and_fall`."""
    return pd.Series(rise_and_fall(frame)[end], frame.index) if len(frame) else pd.Series(dtype=float)


def rise_and_fall(curves):
    """How far f rises from its smallest σ to its peak and falls from there to its largest σ.

    Parameters
    ----------
    curves : array (n, d)
        τ of n networks along d ≥ 3 directions, σ ascending, positive.

    Returns
    -------
    rise, fall : arrays (n,)
        Differences of ln τ, expected to be 0 for a flat curve; a curve that only rises has a negative fall.

    Notes
    -----
    The curves are split into two halves, and each is measured at the peak of the *other* half's mean: the
    highest of many noisy points of a curve itself would lie above both ends by chance. For the rise the first
    point may not be the peak, for the fall the last one may not.
    """
    log_tau = np.log(np.asarray(curves))
    rise, fall = np.empty(len(log_tau)), np.empty(len(log_tau))
    halves = np.arange(len(log_tau)) % 2
    for half in (0, 1):
        own = halves == half
        other = log_tau[~own].mean(0) if (~own).any() else log_tau[0]
        part = log_tau[own]
        rise[own] = part[:, 1 + other[1:].argmax()] - part[:, 0]
        fall[own] = part[:, other[:-1].argmax()] - part[:, -1]
    return rise, fall
