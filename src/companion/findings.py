"""Findings: sentences that people write, shown as long as the verdicts are those that they stand on.

A notebook's front matter has the sentences and what they rest on::

    finding: The labelling along the first singular vector is learned in {steps-first:.0f} steps.
    caveat: One sentence, what would make a reader doubt it.
    stands_on: {higher: holds, faster: holds}
    key_numbers: {along-first: share along v_1, faster: [steps saved, .0f]}

A placeholder names a claim or a number of the study's reading: ``{id}`` is its mean, ``{id.low}`` and
``{id.high}`` are the ends of its interval, ``{id.paper}`` the printed value, ``{id.seeds}`` a count. The id
of a statement with cases is followed by the case's: ``{slope-mnist:.1f}``.
"""

import re
from dataclasses import dataclass

from alignbook.errors import AlignbookError
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN, OUTCOMES, Claim, KeyNumber

IN_PART, FAILS, UNTESTED = "in part", "fails", "untested"
WORDS = (HOLDS, IN_PART, FAILS, OPEN, UNTESTED)
_DECIDED = (HOLDS, CONTRADICTED, NO_EFFECT, OPEN)
_PLAIN = {
    HOLDS: "it holds",
    CONTRADICTED: "the opposite holds",
    NO_EFFECT: "there is no effect that matters",
    OPEN: "it stays open",
}
_HERE = "With these parameters"
_UNTESTED = "These parameters are too far from the paper's to say anything about its claim."
# An id may have a dot, as in {share-0.8:.2f}.
_FIELD = re.compile(r"\{([^{}:]+?)(?:\.(low|high|paper|seeds))?(?::([^{}]*))?\}")


@dataclass(frozen=True)
class Finding:
    """What a page saw."""

    text: str
    caveat: str = ""  # what would make a reader doubt it
    fits: bool = True  # text was written for the page; else it is made from the statement, as verdicts differ


class Value(float):
    """A claim's mean as a number that a sentence formats, with ``low``, ``high``, ``paper`` and ``seeds``."""

    def __new__(cls, claim):
        value = super().__new__(cls, claim.measured)
        value.low, value.high = claim.interval or (float(value), float(value))
        value.paper, value.seeds = claim.paper, claim.seeds
        return value


def word(claims: list[Claim]) -> str:
    """The one word for a page, see ``WORDS``, by its :func:`main` claims; ``untested`` at toy sizes."""
    outcomes = {claim.outcome for claim in claims if claim.outcome in _DECIDED}
    if outcomes == {HOLDS}:
        return HOLDS
    if HOLDS in outcomes:
        return IN_PART
    if outcomes & {CONTRADICTED, NO_EFFECT}:
        return FAILS
    return OPEN if outcomes else UNTESTED


def headline(claims: list[Claim]) -> list[Claim]:
    """Those of ``claims`` that are the headline's statement: one, or its cases."""
    first = next(claim for claim in claims if claim.headline)
    return [claim for claim in claims if claim is first or (claim.group and claim.group == first.group)]


def main(claims: list[Claim]) -> list[Claim]:
    """Those of ``claims`` that make up what the paper is said to claim, the headline's cases first."""
    cases = headline(claims)
    return cases + [claim for claim in claims if claim.part and claim not in cases]


def of(front: dict, claims: list[Claim], numbers: list[Claim]) -> Finding:
    """The finding of a page whose front matter is ``front``.

    Of a run with a reader's own parameters it is made from the statement, where that run has no such claim
    or number; a test holds that no published page lacks any.
    """
    if "finding" not in front or any(differing(front.get("stands_on", {}), claims)):
        return Finding(plain(claims), fits=False)
    values = {claim.id: claim for claim in [*numbers, *claims]}
    try:
        return Finding(_filled(front["finding"], values), _filled(front.get("caveat") or "", values))
    except _NotMeasured:
        return Finding(plain(claims), fits=False)


def differing(stands_on: dict, claims: list[Claim]) -> list[str]:
    """A line for each verdict that a finding stands on and that came out otherwise."""
    lines = []
    for id, outcome in stands_on.items():
        if outcome not in OUTCOMES:
            raise AlignbookError(f"stands_on: {id}: one of {', '.join(_DECIDED)}, not {outcome!r}")
        chosen = [claim for claim in claims if claim.id == id] or [
            claim for claim in claims if claim.id.startswith(f"{id}-")
        ]
        if not chosen:
            lines.append(f"{id}: not among the statements")
        lines += [
            f"{claim.id}: {claim.outcome}, not {outcome}" for claim in chosen if claim.outcome != outcome
        ]
    return lines


def plain(claims: list[Claim]) -> str:
    """A sentence made from the headline's statement and how its cases came out."""
    cases = headline(claims)
    decided = [claim for claim in cases if claim.outcome in _DECIDED]
    if not decided:
        return _UNTESTED
    statement = (cases[0].group or cases[0].statement).rstrip(".")
    counts = {o: sum(claim.outcome == o for claim in decided) for o in _DECIDED}
    shown = [o for o in _DECIDED if counts[o]]
    if len(shown) == 1:
        return f"“{statement}”: {_HERE.lower()} {_PLAIN[shown[0]]}."
    parts = [f"{_PLAIN[o]} in {counts[o]} of {len(decided)} cases" for o in shown]
    return f"“{statement}”: {_HERE.lower()} {', '.join(parts)}."


def key_numbers(front: dict, claims: list[Claim], numbers: list[Claim]) -> list[KeyNumber]:
    """The page's key numbers, as many as were measured."""
    values = {claim.id: claim for claim in [*numbers, *claims]}
    rows = []
    for id, label in (front.get("key_numbers") or {}).items():
        label, form = label if isinstance(label, list) else (label, None)
        if (claim := values.get(id)) is not None and claim.measured is not None:
            rows.append(_key_number(claim, label, form))
    return rows


def _key_number(claim, label, form):
    what = f"{label} ({claim.unit})" if claim.unit and not form else label
    if form is None:
        return KeyNumber(what, claim.measured, claim.paper, claim.interval)
    value = Value(claim)
    here = format(float(value), form)
    ends = [format(value.low, form), format(value.high, form)]
    if set(ends) != {here}:
        here += f" ({ends[0]} to {ends[1]})"
    paper = format(claim.paper, form) if isinstance(claim.paper, int | float) else claim.paper
    return KeyNumber(what, here, paper)


class _NotMeasured(Exception):
    pass


def _filled(text, claims):
    def value(field):
        id, end, form = field.groups()
        if id not in claims or claims[id].measured is None:
            raise _NotMeasured
        number = Value(claims[id])
        return format(getattr(number, end) if end else float(number), form or "")

    return _FIELD.sub(value, text)
