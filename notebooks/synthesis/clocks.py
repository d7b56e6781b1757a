"""When the chapter's networks are looked at, and by what clock their changes are timed. No torch."""

import numpy as np

from alignbook.errors import AlignbookError


def recorded(steps):
    """Octaves of steps up to 8 and half-octaves from there: 0, 1, 2, 4, 8, 11, 16, 23, … and ``steps``."""
    wanted = {0, 1, 2, 4, steps, *(round(2 ** (half / 2)) for half in range(6, 2 * steps.bit_length()))}
    return sorted(step for step in wanted if step <= steps)


def by_step(recorder):
    """One row per step, one column per layer's name. An instrument that failed is an error, and no gap."""
    for name, reason in recorder.left_out.items():
        raise AlignbookError(f"{name} failed at {reason}")
    return recorder.table.pivot(index="step", columns="layer", values="value").reset_index()


def octaves(steps):
    """log₂(1 + step), float64."""
    return np.log2(1 + np.asarray(steps, dtype=float))


def path(values):
    """Length of the path up to each value, from 0: what is made of all change."""
    return np.append(0.0, np.cumsum(np.abs(np.diff(np.asarray(values, dtype=float)))))
