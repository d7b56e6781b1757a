"""When the chapter's networks are looked at, and by what clock their changes are timed. No torch."""

import numpy as np

from alignbook.errors import AlignbookError


def recorded(steps):
    """Octaves of steps up to 8 and half-octaves from there: 0, 1, 2, 4, 8, 11, 16, 23, … and ``steps``."""
    wanted = {0, 1, 2, 4, steps, *(round(2 ** (half / 2)) for half in range(6, 2 * steps.bit_length()))}
    return sorted(step for step in wanted if step <= steps)


def by_step(recorder, **run):
    """One row per step: what ``run`` it is of, the step, and a column for each number of the instrument.

    Raises AlignbookError where the instrument failed: a study has no gaps.
    """
    for name, reason in recorder.left_out.items():
        raise AlignbookError(f"{name} failed at {reason}")
    table = recorder.table
    wide = table.pivot(index="step", columns="layer", values="value")[table["layer"].unique()]
    wide = wide.rename_axis(columns=None).reset_index()
    return wide.assign(**run)[[*run, *wide]]


def octaves(steps):
    """log₂(1 + step), float64."""
    return np.log2(1 + np.asarray(steps, dtype=float))


def path(values):
    """Length of the path up to each value, from 0: what is made of all change."""
    return np.append(0.0, np.cumsum(np.abs(np.diff(np.asarray(values, dtype=float)))))
