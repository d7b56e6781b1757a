"""What is computed at a time: one condition and one seed. For those of studies see ``notebooks/``."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What is computed, stored and resumed as a whole: one condition and one seed.

    name : letters, digits, ``.``, ``_`` and ``-``, unique within the notebook, e.g. ``random-seed0``.
    compute : a module's top-level function; the table is stored under the notebook of that module, or
        the one that it names as ``STORED_AS``, so two notebooks that ask for the same job share it.
    arguments : its keyword arguments, JSON values only. They identify the job: whatever changes
        the outcome is among them; ``device`` and ``report`` are not. ``dataset`` and ``source``, if
        any, name the image sets that it reads: the engine gets them and stores their digests.
    """

    name: str
    compute: Callable
    arguments: dict
