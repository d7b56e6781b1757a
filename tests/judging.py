"""What the tests of a study ask of its reading: claims, their outcomes and the finding on a table."""

import inspect
from dataclasses import replace

import pandas as pd

from alignbook.claims import NOT_JUDGED
from alignbook.statements import judged
from alignbook.wording import LONGEST


def of(reading, parameters):
    """``claims(table)``, {id: Claim}; ``outcomes(table)``, {id: outcome}; ``said(table)``, the finding.

    Each takes other values of some parameters by name.
    """

    def claims(table, **other):
        return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters | other)}

    def outcomes(table, **other):
        return {id: claim.outcome for id, claim in claims(table, **other).items()}

    def said(table, **other):
        return finding(reading, table, parameters | other, claims(table, **other))

    return claims, outcomes, said


def finding(reading, table, parameters, claims):
    """The finding, which is a short sentence whatever the table and the verdicts are."""
    said = reading.finding(table, parameters, claims)
    assert said.endswith(".") and len(said) <= LONGEST, f"{len(said)}: {said}"
    return said


def turned(claims, outcomes):
    """``claims`` with other outcomes, {id: outcome}; what is required is met unless it is *not judged*."""
    other = dict(claims)
    for id, outcome in outcomes.items():
        needs = tuple(need | {"met": outcome != NOT_JUDGED} for need in claims[id].requires)
        other[id] = replace(claims[id], outcome=outcome, requires=needs)
    return other


def remember(reading, table, monkeypatch):
    """Let each function of ``reading`` remember what it makes of ``table``, for tests that ask many times."""
    for name, function in inspect.getmembers(reading, inspect.isfunction):
        monkeypatch.setattr(reading, name, _once(function, table))


def _once(function, table):
    made = {}

    def remembers(*given, **named):
        others = [*given[1:], *named.values()]
        if (
            not given
            or given[0] is not table
            or any(isinstance(one, pd.DataFrame | pd.Series) for one in others)
        ):
            return function(*given, **named)
        key = repr((given[1:], named))
        if key not in made:
            made[key] = function(*given, **named)
        return made[key]

    return remembers
