"""Claims as a page shows them: their outcomes in a line, and a table with how each was reached."""

import re
from collections import Counter
from dataclasses import replace
from string import ascii_lowercase
from typing import NamedTuple

from alignbook.claims import ABSENT, NOT_JUDGED, NOT_RUN, OUTCOMES
from alignbook.pages.tables import DECIMALS, badge, folded, marked, measured, number, table
from alignbook.statements import asked, came_out, condition

FEW = 4  # replicates, up to which a verdict's first line names those that have an outcome
SHORT = 40  # letters of their names, at most
UNFOLDED = 12  # replicates of the headline's statement that stand open, at most
SHARED = 3  # statements from which on a note of theirs stands above the table, with a letter
# Where a claim's sources part: not within brackets, nor between the numbers of figures.
_SOURCES = re.compile(r", (?![^()]*\)|\d)")
HEADLINE = '<span class="ab-headline">Headline</span> '
THEN = '<span class="ab-then">; </span>'  # a new line on the page itself
TOO_SMALL = "<small>, too small to matter</small>"  # what is absent
CRITERION = "by our own criterion"
OURS = f' <small class="ab-ours">{CRITERION}</small>'


def spread(group, own=True):
    """HTML of the outcome of ``group``, claims of one statement, and of which where they differ.

    own : whether it says of verdicts by a criterion of ours that they are
    """
    found = {}
    for outcome in OUTCOMES:
        if those := [claim for claim in group if claim.outcome == outcome]:
            found[outcome] = those
    parts, counted = {}, False
    for outcome, those in found.items():
        parts[outcome] = badge(outcome, explained=True) + TOO_SMALL * (outcome == ABSENT)
        if len(found) > 1 and (names := _names(those, group)):
            parts[outcome] += f" <small>({marked(names)})</small>"
        elif len(found) > 1:  # of how many cases, once
            count = f"in&nbsp;{len(those)}" + f" of&nbsp;{len(group)} cases" * (not counted)
            parts[outcome] += f" <small>{count}</small>"
            counted = True
    if own and by_ours(group):
        parts[[outcome for outcome in parts if outcome not in (NOT_JUDGED, NOT_RUN)][-1]] += OURS
    elif own:  # each outcome tells whether its own are
        parts = {outcome: text + by_ours(found[outcome]) for outcome, text in parts.items()}
    return ", ".join(parts.values())


def main(claims):
    """(claims of the headline's statement, those of the other parts of what the paper is said to claim)."""
    head = grouped(claims)[0][1]
    return head, [claim for claim in claims if claim.part and claim not in head]


def verdict(claims):
    """HTML of how a page's main claim came out: once where all its parts came out alike, else one by one."""
    head, others = main(claims)
    parts = {head[0].part: head}
    for claim in others:
        parts.setdefault(claim.part, []).append(claim)
    if len(parts) == 1:
        return _named(head)
    ours = sum(bool(by_ours(part)) for part in parts.values())
    if len({claim.outcome for claim in [*head, *others]}) == 1:
        alike = "in both parts" if len(parts) == 2 else f"in all {len(parts)} parts"
        some = f'<small class="ab-ours">, {ours} {CRITERION}</small>' if ours < len(parts) else OURS
        return f'{spread(head, own=False)} <small class="ab-part-of">{alike}</small>{some * bool(ours)}'
    said = (_named(part, own=ours < len(parts)) for part in parts.values())
    return THEN.join(said) + OURS * (ours == len(parts))


def _named(part, own=True):
    """HTML of the outcome of one part of a claim, after its name if it has one."""
    name = part[0].part
    return f'<small class="ab-part-of">{marked(name)}:</small> ' * bool(name) + spread(part, own)


def by_ours(group):
    """HTML that says so where verdicts of ``group`` were reached, and all by a criterion of ours."""
    decided = [claim for claim in group if claim.outcome not in (NOT_JUDGED, NOT_RUN)]
    return OURS if decided and all(claim.ours for claim in decided) else ""


def _names(those, group):
    """What tells ``those`` from the others of ``group``: their labels, if few and short; else ``""``."""
    cases = [claim.case for claim in those]
    told_apart = all(cases) and len({claim.case for claim in group}) == len(group)  # parts may share cases
    if not told_apart or len(group) > FEW:
        return ""
    names = ("; " if any("," in case for case in cases) else ", ").join(cases)
    return names if len(names) <= SHORT else ""


def tally(group):
    """HTML of the outcomes of claims of one statement, each with how many have it where there are several."""
    counts = Counter(claim.outcome for claim in group)
    several = len(group) > 1
    # A span each, so that on phones, where cells are flex boxes, a count stays with its outcome.
    signs = {outcome: badge(outcome) for outcome in OUTCOMES if counts[outcome]}
    ours = by_ours(group)
    # Where some are by the paper's criterion, each outcome tells whether its own are.
    told = {o: "" if ours else by_ours([claim for claim in group if claim.outcome == o]) for o in signs}
    parts = [
        f"<span>{counts[o]}&nbsp;{sign}{told[o]}</span>" if several else sign for o, sign in signs.items()
    ]
    return "<br>".join(parts) + "<br>" * bool(len(parts) > 1 and ours) + ours


def claims_table(claims, anchored=True):
    """HTML of a table of ``claims``: the headline first, claims of one group in a row that unfolds.

    What all claims of a group must be read with stands once, in the group's row. What as many as ``SHARED``
    statements must be read with stands above the table, and in their rows its letter.
    anchored : whether links lead to the rows, as they do in one table of a page
    """
    groups = [(statement, group, _common(group)) for statement, group in grouped(claims)]
    places = {}  # of each note: how it came out, statement by statement
    for _, _, common in groups:
        for note in common:
            places.setdefault((note.kind, note.text), []).append(note)
    often = [key for key, found in places.items() if len(found) >= SHARED and key[0]]
    letters = {key: (letter, _together(places[key])) for key, letter in zip(often, ascii_lowercase)}  # noqa: B905
    rows = []
    for statement, group, common in groups:
        if len(group) == 1:
            rows.append(_claim_row(group[0], (), letters, anchored))
            continue
        main = any(claim.headline for claim in group)
        unfolded = len(group) <= UNFOLDED and (not anchored or main)
        # What the group's row says is not said of its cases; an open main claim has no such word in its row.
        inside = [replace(claim, part="", headline=main and unfolded) for claim in group]
        inner = table(filled([_claim_row(claim, common, letters, anchored) for claim in inside]), "claims")
        source = ", ".join(sources(group))
        rows.append(
            {
                "Claim": f"{HEADLINE * (main and not unfolded)}{_part(group[0]) * (not main)}"
                f"{marked(statement)} <small>({marked(source)})</small>"
                f"{shown(common, letters)}",
                "Paper": "",
                "Here": "",
                "Outcome": tally(group),
                "below": folded(f"{len(group)} cases", inner, open=unfolded),
            }
        )
    legend = "".join(
        f"<p>{note.kind} {letter}: {marked(note.told())}.</p>" for letter, note in letters.values()
    )
    return f'<div class="ab-note">{legend}</div>' * bool(legend) + table(filled(rows), "claims")


def _common(group):
    """The notes that all claims of ``group`` have; without how they came out where that differs."""
    found = {}
    for claim in group:
        for note in dict.fromkeys(notes(claim)):
            found.setdefault((note.kind, note.text), []).append(note)
    return [_together(one) for one in found.values() if len(one) == len(group)]


def _together(found):
    """The one note that several claims have; without how it came out where that differs."""
    return found[0] if len(set(found)) == 1 else found[0]._replace(seen="")


def _claim_row(claim, apart, letters, anchored):
    outcome = f"{badge(claim.outcome)}{by_ours([claim])}{by_which_rule(claim)}"
    cells = claim_cells(claim, apart, letters)
    if claim.headline:
        cells["Claim"] = f"{HEADLINE}{cells['Claim']}"
    else:
        cells["Claim"] = f"{_part(claim)}{cells['Claim']}"
    anchor = {"id": f"claim-{claim.id}"} if anchored else {}
    return {**anchor, **cells, "Outcome": outcome}


def _part(claim):
    """HTML that marks another part of what the page says that the paper claims."""
    return '<span class="ab-headline">Part of the claim</span> ' if claim.part else ""


def claim_cells(claim, apart=(), letters=None):
    """{column: HTML} of a claim: what it says, the paper's value, ours with its interval.

    Notes in ``apart`` stand elsewhere; those in ``letters`` stand there under a letter.
    """
    here = number(_told_apart(claim))
    if claim.interval and claim.measured is not None:
        here, low, high = measured(claim.measured, claim.interval, _bars(claim))
        here += f"<br><small>{low} to {high}</small>"
    paper = number(claim.paper)
    here += f" <small>{marked(claim.unit)}</small>" * bool(here and claim.unit)
    if claim.tolerance is not None:
        paper += f"<br><small>our margin {number(claim.tolerance)}</small>"
    statement = f"{marked(claim.statement)} <small>({marked(claim.source)})</small>"
    noted = shown(notes(claim), letters or {}, apart)
    return {"Claim": statement + noted, "Paper": paper, "Here": here}


def _told_apart(claim):
    """What ``claim`` measured, with so many decimals that they tell whether it is within the margin."""
    value, paper = claim.measured, claim.paper
    if value is None or claim.tolerance is None or not isinstance(paper, int | float):
        return value
    within = abs(value - paper) <= claim.tolerance

    def tells(text):
        return (abs(float(text) - paper) <= claim.tolerance) == within

    if tells(f"{value:.3g}"):
        return value
    return next(filter(tells, (f"{value:.{decimals}f}" for decimals in range(DECIMALS + 1))), value)


def _bars(claim):
    """What the interval of ``claim`` is held against: digits must tell on which side its ends lie."""
    margins = [(claim.against, claim.matters), (claim.paper, claim.tolerance)]
    margins = [(bar, margin) for bar, margin in margins if bar is not None and margin is not None]
    return [claim.against, *(bar + sign * margin for bar, margin in margins for sign in (-1, 1))]


class Note(NamedTuple):
    """What a reader must know before trusting a verdict."""

    kind: str  # "Condition", "Post hoc", …; "" of a sentence that needs no such word
    text: str
    seen: str = ""  # how a condition came out
    because: str = ""

    def told(self):
        """Text, how it came out, and why it is asked for."""
        return self.text + f"; {self.seen}" * bool(self.seen) + f". {self.because}" * bool(self.because)


def notes(claim):
    """[:class:`Note`] of a claim."""
    found = [Note("Condition", asked(need), came_out(need), need["because"]) for need in claim.requires]
    if claim.opposed_by:
        found.append(Note("The paper also says the opposite", claim.opposed_by))
    if claim.post_hoc:
        found.append(Note("Post hoc", claim.post_hoc))
    if claim.runs:
        found.append(Note("", f"Judged on runs that were planned for it (parameters: {claim.runs})"))
    if claim.needed:
        found.append(Note("", decides(claim)))
    return found


def shown(found, letters, apart=()):
    """HTML of ``found``, a line each; notes that have one of ``letters`` share the first line.

    Of notes in ``apart``, which stand elsewhere, and of those with a letter stands what is not said there.
    """
    elsewhere = {(note.kind, note.text): note for note in apart}
    differing = [note for note in found if note.seen != elsewhere.get((note.kind, note.text), note).seen]
    short, lines = [], []
    for note in found:
        key = (note.kind, note.text)
        letter, there = letters.get(key, (None, note))
        there = elsewhere.get(key, there)
        if key in elsewhere and note not in differing:
            continue
        if letter:
            unmet = ", not met" * note.seen.endswith(("not met", "not measured"))
            short.append(f"{note.kind} {letter}" + (f": {note.seen}" if note.seen != there.seen else unmet))
        elif key in elsewhere:
            which = f"{note.text}; " * (len(differing) > 1)
            lines.append(f"{note.kind}: {which}{note.seen}")
        else:
            lines.append(f"{note.kind}: {note.told()}".removeprefix(": "))
    lines = ["; ".join(short).capitalize()] * bool(short) + lines
    return "".join(f"<br><small>{marked(line)}</small>" for line in lines)


def by_which_rule(claim):
    """HTML: how the verdict was reached, unless it is a condition, which stands below the claim."""
    if claim.test in map(condition, claim.requires):
        return ""
    return f"<br><small>{marked(claim.test)}</small>"


def decides(claim):
    """What would decide an undecided ``claim``, one sentence."""
    need = claim.needed
    if need["seeds"] is None:
        return f"No number of {claim.what}s is planned: {need['why']}."
    hours = need.get("core_hours")
    cost = f", {hours:{'.1f' if hours >= 1 else '.2g'}} core hours" if hours else ""
    return f"{need['seeds']} new {claim.what}s would decide it{cost} ({need['why']})."


def filled(rows):
    """``rows`` of claims without the columns of numbers that are empty in all of them."""
    empty = [name for name in ("Paper", "Here") if not any(row[name] for row in rows)]
    return [{name: cell for name, cell in row.items() if name not in empty} for row in rows]


def sources(claims):
    """Where in the paper ``claims`` stand, each place once, in their order."""
    return list(dict.fromkeys(place for claim in claims for place in _SOURCES.split(claim.source)))


def grouped(claims):
    """(statement, its claims) of each statement, the headline's first, otherwise in their order."""
    groups = {}
    for claim in claims:
        groups.setdefault(claim.group or claim.id, []).append(claim)
    ordered = sorted(groups.values(), key=lambda group: not any(claim.headline for claim in group))
    return [(group[0].group or group[0].statement, group) for group in ordered]
