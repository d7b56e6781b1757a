"""Experiments: parameters in, tidy tables out; one module per notebook, with the notebook's name.

A module ``experiments/<paper>/<slug>.py`` defines

``units(parameters) -> list[Unit]``
    the conditions and seeds that the notebook's parameters ask for;
``compute(**arguments, device, report) -> pandas.DataFrame``
    one unit, pure and seeded;
``claims(table, parameters) -> list[Claim]``
    what the paper claims, decided on the tables of all units.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """What is computed, stored and resumed as a whole: one condition and one seed.

    name : letters, digits, ``.``, ``_`` and ``-``, unique within the notebook, e.g. ``random-seed0``.
    compute : a module's top-level function; the table is stored under the notebook of that module,
        so two notebooks that ask for the same unit share it.
    arguments : its keyword arguments, JSON values only. They identify the unit: whatever changes
        the outcome is among them; ``device`` and ``report`` are not. ``dataset`` and ``source``, if
        any, name the image sets that it reads: the engine gets them and stores their digests.
    """

    name: str
    compute: Callable
    arguments: dict
