"""Statements of a paper as data, and the one place where they are judged.

A study lists what its paper says, each once, with how it is measured::

    STATEMENTS = [
        Statement(
            "closes", "The gap to training from scratch shrinks as the dense layer widens.",
            source="Figure 8, Section 3", of=lambda t, p: first(gap(t)) - last(gap(t)),
            above=0, matters=1.0, unit="points", because="the paper's curves differ by several points",
            headline=True,
        ),
    ]

``of`` turns the stored table into one value per seed; :func:`judged` turns that into a
:class:`~companion.claims.Claim` with its verdict.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import pandas as pd

from alignbook.errors import AlignbookError
from companion.claims import Claim, t_interval, with_case
from companion.over_seeds import SEED, weakest

RULES = ("above", "below", "near", "one_run", "exactly")


@dataclass(frozen=True)
class Case:
    """One replicate of a statement: its data set, labels, depth, …."""

    id: str  # the end of the claim's id
    words: str  # the end of its sentence, in parentheses
    given: dict  # keyword arguments for what of the statement is a function


def over(name: str, words: Mapping | Callable = MappingProxyType({}), given: str = "") -> Callable:
    """Cases for a statement's ``each``: one per value of the parameter ``name``.

    words : {value: how a sentence calls it}, the value itself where it is missing; or a function of the value
    given : the argument under which a case has its value; by default ``name``
    """
    called = words if callable(words) else lambda value: words.get(value, value)
    return lambda parameters: [
        Case(str(value), str(called(value)), {given or name: value}) for value in parameters[name]
    ]


def among(argument: str, words: Mapping) -> Callable:
    """The same for fixed values, {value: how a sentence calls it}, each given as ``argument``."""
    return lambda parameters: [Case(str(value), text, {argument: value}) for value, text in words.items()]


def crossed(first: Callable, second: Callable) -> Callable:
    """Cases: those of ``first``, each with all of ``second``."""
    return lambda parameters: [
        Case(f"{one.id}-{two.id}", f"{one.words}, {two.words}", one.given | two.given)
        for one in first(parameters)
        for two in second(parameters)
    ]


def pooled(of: Callable, each: Callable) -> Callable:
    """A statement's ``of``: mean of ``of`` over the cases of ``each``, by seed, of seeds that have all."""

    def mean(table, parameters):
        samples = _of_cases(of, each, table, parameters)
        return (sum(samples) / len(samples)).dropna() if samples else None

    return mean


def least(of: Callable, each: Callable) -> Callable:
    """A statement's ``of``: that of the case which shows least that it lies above 0, see ``weakest``."""
    return lambda table, parameters: weakest(*_of_cases(of, each, table, parameters))


def _of_cases(of, each, table, parameters):
    return [pd.Series(of(table, parameters, **case.given), dtype=float) for case in each(parameters)]


@dataclass(frozen=True)
class Statement:
    """What a paper says, once, with how it is measured and the rule of its verdict."""

    id: str  # short, unique within the study
    text: str  # one plain sentence
    source: str  # where in the paper
    # (table, parameters, **given) → one value per seed (Series or sequence), or per what the Series' index is
    # named for; one number for ``exactly``; empty or None where nothing was measured. The table is never
    # without its columns: where one is missing, nothing was measured.
    of: Callable
    # The rule, one of these, a number or a function (parameters, **given) → number or None:
    above: float | Callable | None = None  # the values lie on this side;
    below: float | Callable | None = None  # or on this; either needs ``matters``
    near: float | Callable | None = None  # the mean is this, ``within`` so much
    one_run: float | Callable | None = (
        None  # the paper prints this of one run; open where ours scatter further
    )
    exactly: float | Callable | None = None  # a quantity without randomness is this, ``within`` so much
    within: float | None = None
    matters: float | None = None  # the smallest effect that matters,
    unit: str = ""  # its unit,
    because: str = ""  # and why, one line
    paper: float | str | Callable | None = None  # the printed value, where the rule does not name it
    each: Callable | None = None  # (parameters) → list of :class:`Case`, of a statement with replicates
    bounds: tuple = (-math.inf, math.inf)  # that the quantity cannot leave
    opposed_by: str | None = None  # where the paper says the opposite, one line
    post_hoc: str | None = None  # why this reading was chosen after its data were seen, one line
    ours: bool | Callable = (
        False  # a bound, a reading or a coefficient of ours is judged; (parameters, **given)
    )
    headline: bool = False  # the figure exists for this statement; one per study

    def __post_init__(self):
        rules = [name for name in RULES if getattr(self, name) is not None]
        if len(rules) != 1:
            raise ValueError(f"{self.id}: needs one rule of {', '.join(RULES)}, not {len(rules)}")
        if rules[0] in ("above", "below") and not (self.matters and self.matters > 0 and self.because):
            raise ValueError(f"{self.id}: needs matters, the smallest effect that matters, and because")
        if rules[0] in ("near", "exactly") and self.within is None:
            raise ValueError(f"{self.id}: needs within, the margin")

    @property
    def rule(self):
        """The name of its rule, one of ``RULES``."""
        return next(name for name in RULES if getattr(self, name) is not None)

    def claims(self, table, parameters):
        """Its :class:`~companion.claims.Claim`, or one per case."""
        if self.each is None:
            return [self._claim(self.id, self.text, table, parameters, {})]
        claims = []
        for case in self.each(parameters):
            id, text = f"{self.id}-{case.id}", with_case(self.text, case.words)
            claim = self._claim(id, text, table, parameters, case.given)
            claims.append(replace(claim, group=self.text, case=case.words))
        return claims

    def _claim(self, id, text, table, parameters, given):
        about = (id, text, self.source)
        target = _called(getattr(self, self.rule), parameters, given)
        claim = self._judged(about, _measured(self.of, table, parameters, given), target)
        printed = _called(self.paper, parameters, given)
        own = {
            field: getattr(self, field) for field in ("unit", "because", "post_hoc", "opposed_by", "matters")
        }
        paper = claim.paper if printed is None else printed
        return replace(claim, paper=paper, ours=_called(self.ours, parameters, given), **own).within(
            *self.bounds
        )

    def _judged(self, about, values, target):
        nothing = values is None or (hasattr(values, "__len__") and len(values) == 0)
        if nothing or target is None:
            return Claim.missing(*about, "not among the results" if nothing else "nothing printed")
        if self.rule == "exactly":
            return Claim.computed(*about, values, target, self.within)
        what = _of_what(values)
        values = pd.Series(values, dtype=float).dropna().to_numpy()
        if not len(values):
            return Claim.missing(*about, "not among the results")
        if self.rule == "near":
            return Claim.equals(*about, values, target, self.within, what=what)
        if self.rule == "one_run":
            return Claim.one_run(*about, values, target, self.within, what=what)
        judge = Claim.greater if self.rule == "above" else Claim.less
        return judge(*about, values, target, matters=self.matters, what=what)


@dataclass(frozen=True)
class Number:
    """A quantity that a page tells and on which no verdict rests; otherwise as a :class:`Statement`."""

    id: str
    text: str  # what it is, a few words
    of: Callable
    unit: str = ""
    paper: float | str | Callable | None = None
    each: Callable | None = None
    bounds: tuple = (-math.inf, math.inf)

    def measured(self, table, parameters):
        """Claims without an outcome: one, or one per case."""
        cases = [Case("", "", {})] if self.each is None else self.each(parameters)
        return [self._measured(case, table, parameters) for case in cases]

    def _measured(self, case, table, parameters):
        values = _measured(self.of, table, parameters, case.given)
        values = pd.Series(values if values is not None else [], dtype=float).dropna()
        _, mean, interval = t_interval(values)
        paper = _called(self.paper, parameters, case.given)
        id = f"{self.id}-{case.id}" if case.id else self.id
        claim = Claim(id, self.text, "", paper, None, mean, interval, "", len(values), unit=self.unit)
        return claim.within(*self.bounds)


def judged(statements, table, parameters, parts=MappingProxyType({})):
    """The claims of ``statements`` on a stored ``table`` (DataFrame): a list of :class:`Claim`.

    One statement, with all its cases, is the headline. Raises AlignbookError where none or several are, where
    it has no case, or where two claims have the same id.
    parts : {id: a few words} of the statements that make up what the page says that the paper claims
    """
    if unknown := set(parts) - {statement.id for statement in statements}:
        raise AlignbookError(f"parts of the claim are no statements: {', '.join(sorted(unknown))}")
    heads = [statement for statement in statements if statement.headline]
    if len(heads) != 1:
        raise AlignbookError(f"one statement must be the headline, not {len(heads)}")
    claims = []
    for statement in statements:
        cases = statement.claims(table, parameters)
        if statement.headline and not cases:
            raise AlignbookError(f"{statement.id} is the headline and has no case at these parameters")
        # What is asked elsewhere under the headline's id, with other words, is no part of the claim.
        other = statement.id == heads[0].id and statement.text != heads[0].text
        part = "" if other else parts.get(statement.id, "")
        head = cases[0] if statement.headline else None
        claims += [replace(claim, headline=claim is head, part=part) for claim in cases]
    ids = [claim.id for claim in claims]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    if twice:
        raise AlignbookError(f"two claims are called {', '.join(twice)}")
    return claims


def _measured(of, table, parameters, given):
    """What ``of`` makes of ``table``; None where it asks for a column that no stored job has."""
    try:
        return of(table, parameters, **given)
    except KeyError as error:
        if error.args and error.args[0] in table:
            raise
        return None


def _of_what(values):
    """What there is one value of, by the name of the index: a seed, unless it is called otherwise."""
    names = values.index.names if isinstance(values, pd.Series) else [SEED]
    return (names[0] or SEED) if len(names) == 1 else "value"


def _called(value, parameters, given):
    return value(parameters, **given) if callable(value) else value
