"""What is computed at a time: one condition and one seed. For those of studies see ``notebooks/``."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What is computed, stored and resumed as a whole: one condition and one seed.

    name : letters, digits, ``.``, ``_`` and ``-``, unique within the notebook, e.g. ``random-seed0``.
    compute : a module's top-level function; the table is stored under the notebook of that module, or
        the one that it names as ``STORED_AS``, so two notebooks that ask for the same job share it.
    arguments : its keyword arguments, JSON values only. They identify the job: whatever changes
        the outcome is among them; ``device`` and ``report`` are not. ``dataset`` and ``source``, if
        any, name the image sets that it reads: a run gets them and stores their digests.
    """

    name: str
    compute: Callable
    arguments: dict


def jobs_over(name: str, compute: Callable, shared: dict, **axes: Iterable) -> list[Job]:
    """One :class:`Job` per combination of the values of ``axes``, the first of which varies slowest.

    name : a format string of the axes, e.g. ``"{dataset}-seed{seed}"``.
    shared : arguments that all have; axes : {argument: its values}.

    Examples
    --------
    >>> from companion.jobs import jobs_over
    >>> jobs = jobs_over("{labels}-seed{seed}", print, {"width": 8}, labels=["real"], seed=range(2))
    >>> [job.name for job in jobs]
    ['real-seed0', 'real-seed1']
    """
    cells = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return [Job(name.format(**cell), compute, shared | cell) for cell in cells]


def arguments_of(parameters: dict, names: str, **renamed: str) -> dict:
    """Arguments of a job: the ``parameters`` in ``names``, and those that it knows by another name.

    Examples
    --------
    >>> from companion.jobs import arguments_of
    >>> arguments_of({"width": 8, "dense_rate": 0.1}, "width", rate="dense_rate")
    {'width': 8, 'rate': 0.1}
    """
    names = {name: name for name in names.split()} | renamed
    return {argument: parameters[name] for argument, name in names.items()}
