"""The scorecard: a row per page with its word and a sign per statement, which leads to the statement."""

import html
from collections import Counter

from companion import claims, findings
from companion.pages import claim_tables
from companion.pages.glance import headlines, verdict
from companion.pages.tables import marked, table

# Outcomes are told apart by shape, too.
SIGNS = {
    claims.HOLDS: "✓",
    findings.IN_PART: "◐",
    claims.CONTRADICTED: "✗",
    claims.NO_EFFECT: "○",
    claims.OPEN: "?",
    claims.NOT_JUDGED: "·",
    claims.NOT_RUN: "–",
}


def write(papers, records):
    """The page's text.

    papers : {key: title}
    """
    counts = Counter(_outcome(group) for record in records for group in _groups(record))
    legend = ", ".join(
        f"{SIGNS[outcome]} {outcome} ({counts[outcome]})" for outcome in SIGNS if counts[outcome]
    )
    parts = [
        "# Scorecard",
        "",
        headlines(records),
        "",
        f"A sign per statement, which leads to it: {legend}.",
        "",
    ]
    for paper, title in papers.items():
        rows = [_row(record) for record in records if record.paper == paper]
        if rows:
            parts += [f"## {title}", "", table(rows, "score"), ""]
    return "\n".join(parts)


def _groups(record):
    return [group for _, group in claim_tables.grouped(record.claims)]


def _outcome(group):
    """The outcome of a statement's cases: theirs where they agree, else *in part*."""
    outcomes = {claim.outcome for claim in group}
    return outcomes.pop() if len(outcomes) == 1 else findings.IN_PART


def _row(record):
    signs = "".join(_sign(record, group) for group in _groups(record))
    return {
        "Page": f'<a href="{record.name}.html">{marked(record.title)}</a> '
        f"<small>{html.escape(record.label)}</small>",
        "Main claim": verdict(record),
        "Statements": f'<span class="ab-strip">{signs}</span>',
    }


def _sign(record, group):
    outcome, claim = _outcome(group), group[0]
    title = html.escape(f"{claim.group or claim.statement} {outcome}")
    address = f"{record.name}.html#claim-{html.escape(claim.id)}"
    return (
        f'<a class="ab-sign ab-{outcome.replace(" ", "-")}" href="{address}" '
        f'title="{title}" aria-label="{title}">{SIGNS[outcome]}</a>'
    )
