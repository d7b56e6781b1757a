"""Claims as a page shows them: one word for the page, and a table of statements with numbers and outcomes."""

import re
from collections import Counter

from companion import findings
from companion.claims import NOT_RUN, OUTCOMES
from companion.pages.tables import DECIMALS, badge, folded, marked, measured, number, table, typeset

AFFORDABLE = 50  # core hours, up to which a page says how many more seeds would decide
UNFOLDED = 6  # cases of the headline's statement that stand open, at most
HEADLINE = '<span class="ab-headline">Headline</span> '
OURS = " <small>(our reading)</small>"
DAGGER = '<sup title="chosen after its results had been seen">†</sup>'
# Where a claim's sources part: not within brackets, nor between the numbers of figures.
_SOURCES = re.compile(r", (?![^()]*\)|\d)")


def verdict(claims):
    """HTML of a page's one word."""
    return badge(findings.word(findings.main(claims)), explained=True)


def tally(group):
    """HTML of the outcomes of claims of one statement, each with how many have it where there are several."""
    counts = Counter(claim.outcome for claim in group)
    parts = [
        f"<span>{counts[outcome]}&nbsp;{badge(outcome)}</span>" if len(group) > 1 else badge(outcome)
        for outcome in OUTCOMES
        if counts[outcome]
    ]
    return "<br>".join(parts)


def claims_table(claims, anchored=True):
    """HTML of a table of ``claims``, the headline first; the cases of a statement unfold below it.

    anchored : whether links lead to the rows, as they do in one table of a page
    """
    rows = []
    for statement, group in grouped(claims):
        if len(group) == 1:
            rows.append(_row(group[0], anchored))
            continue
        headline = any(claim.headline for claim in group)
        inner = table(filled([_row(claim, anchored, case=True) for claim in group]), "claims")
        rows.append(
            {
                "Statement": _statement(statement, group[0], headline, ", ".join(sources(group))),
                "Paper": "",
                "Here": "",
                "Outcome": tally(group),
                "below": folded(f"{len(group)} cases", inner, open=headline and len(group) <= UNFOLDED),
            }
        )
    notes = ["Intervals are 95 % t intervals."] * any(claim.interval for claim in claims)
    notes += ["† chosen after its results had been seen."] * any(claim.post_hoc for claim in claims)
    return table(filled(rows), "claims") + f'<p class="ab-note">{typeset(" ".join(notes))}</p>' * bool(notes)


def _row(claim, anchored, case=False):
    anchor = {"id": f"claim-{claim.id}"} if anchored else {}
    return {**anchor, **claim_cells(claim, case), "Outcome": badge(claim.outcome)}


def _statement(text, claim, headline, source):
    """HTML of a statement: its sentence, whose it is, where it stands, and what to know of it."""
    mark = DAGGER * bool(claim.post_hoc)
    text = f"{HEADLINE * headline}{marked(text)}{mark}{OURS * claim.ours} <small>({marked(source)})</small>"
    return text + "".join(f"<br><small>{marked(line)}</small>" for line in _shared(claim))


def _shared(claim):
    """What a reader must know of a statement, whatever its case."""
    lines = []
    if claim.opposed_by:
        lines.append(f"The paper also says the opposite: {claim.opposed_by}.")
    if claim.matters:
        effect = f"{claim.matters:g} {claim.unit}".rstrip()
        lines.append(f"Smallest effect that matters: {effect}, {claim.because}.")
    return lines


def claim_cells(claim, case=False):
    """{column: HTML} of a claim: what it says, the paper's value, ours with its interval.

    case : whether its statement stands elsewhere, so that the name of its case will do
    """
    here = number(_told_apart(claim))
    if claim.interval and claim.measured is not None:
        here, low, high = measured(claim.measured, claim.interval, _bars(claim))
        here += f"<br><small>{low} to {high}</small>"
    here += f" <small>{marked(claim.unit)}</small>" * bool(here and claim.unit)
    paper = number(claim.paper)
    if claim.tolerance:
        paper += f"<br><small>± {number(claim.tolerance)}</small>"
    if case:
        text = marked(claim.case or claim.statement)
    else:
        text = _statement(claim.statement, claim, claim.headline, claim.source)
    text += "".join(f"<br><small>{marked(line)}</small>" for line in _own(claim))
    return {"Statement": text, "Paper": paper, "Here": here}


def _own(claim):
    """What a reader must know of one case."""
    lines = [] if claim.outcome == NOT_RUN else [claim.test]
    lines += [f"On runs planned for it: {claim.runs}."] * bool(claim.runs)
    replicable = claim.needed and claim.what in ("seed", "network")  # nobody runs more layers or targets
    affordable = replicable and (claim.needed.get("core_hours") or 0) <= AFFORDABLE
    return lines + ([decides(claim)] if affordable else [])


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


def decides(claim):
    """What would decide an open ``claim``, one sentence."""
    need = claim.needed
    if need["seeds"] is None:
        return f"No number of {claim.what}s is planned: {need['why']}."
    hours = need.get("core_hours")
    cost = f", {hours:{'.1f' if hours >= 1 else '.2g'}} core hours" if hours else ""
    return f"{need['seeds']} new {claim.what}s would decide it{cost}."


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
