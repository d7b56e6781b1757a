"""The scorecard: a row per figure with a sign per claim, which unfolds to statements and then to replicates.

All of it is in the page; ``book/assets/scorecard.js`` filters and sorts what is there.
"""

import html

import pandas as pd
from scipy import stats

from alignbook import claims
from alignbook.pages import claim_tables
from alignbook.pages.glance import count, headlines, listed
from alignbook.pages.tables import badge, folded, marked, numbers, table

# Outcomes are told apart by shape, too.
SIGNS = {
    claims.HOLDS: "✓",
    claims.CONTRADICTED: "✗",
    claims.ABSENT: "○",
    claims.UNDECIDED: "?",
    claims.NOT_JUDGED: "·",
    claims.NOT_RUN: "–",
}


RATE = 0.05  # of false discoveries among the headlines


def write(papers, records):
    """The page's text.

    papers : {key: title}
    """
    everything = [claim for record in records for claim in record.claims]
    parts = [
        "# Scorecard",
        "",
        headlines(records),
        "",
        "Counted one by one, with every case of a statement:",
        "",
        _counts(everything),
        "",
        _by_chance(everything, [claim for record in records for claim in record.headline]),
        "",
        "The statements are about alignment, misalignment, tangent kernels and the curvature of the loss;",
        "[](glossary) explains these terms.",
        "",
        "A row is a figure, table or theorem; it opens to its statements, and a statement to its cases: data",
        "sets, networks, settings. Each outcome is decided by a test over the seeds or, where nothing is",
        "random, by a margin; the claim's page gives the rule, and [](reading) explains it. Where a claim",
        "says that one thing exceeds another, *here* is the difference, positive where the",
        "claim is right; where two are the same, near 0. A sign in a dashed frame marks a bound, reading or",
        "coefficient of ours. Signs that touch are the cases of one statement, the main claim's first. Last",
        "comes the profile: `paper` has the paper's own settings, `quick` smaller ones.",
        "",
        '<div class="ab-score" id="ab-scorecard">',
    ]
    for paper, title in papers.items():
        rows = [_figure(record) for record in records if record.paper == paper]
        if rows:
            heading = f'<h2 class="ab-score-paper" data-paper="{paper}">{html.escape(title)}</h2>'
            parts.append(heading + "".join(rows))
    parts += ["</div>", '<script src="_static/scorecard.js"></script>', ""]
    return "\n".join(parts)


def _counts(everything):
    """HTML of a table of how many claims, of the papers and of ours, came out how; a row per outcome."""
    columns = {}
    for ours, whose in ((False, "claims of the papers"), (True, "bounds, readings and coefficients of ours")):
        if counts := count(claim for claim in everything if claim.ours is ours):
            rows = {f"{_sign(found)}&nbsp;{found}": counts[found] or "–" for found in claims.OUTCOMES}
            columns[whose] = {**rows, "all": sum(counts.values())}
    return f'<div class="ab-counts">{numbers(pd.DataFrame(columns), ready=True).data}</div>'


def _by_chance(everything, heads):
    """How many verdicts chance could make, and which headlines it could not, a sentence each."""
    tested = [claim for claim in everything if claim.p_value is not None]
    heads = [claim for claim in heads if claim.p_value is not None]
    if not heads:
        return ""
    kept = sum(stats.false_discovery_control([claim.p_value for claim in heads]) <= RATE)
    decided = sum(claim.p_value <= 1 - claims.CONFIDENCE for claim in heads)
    return (
        f"{len(tested)} verdicts rest on a t test at 95 %: if nothing at all were there, about "
        f"{(1 - claims.CONFIDENCE) * len(tested):.0f} would be decided by chance. Of the {len(heads)} "
        f"main claims and their cases tested in this way, {decided} are decided one by one, and "
        f"{kept} survive a false discovery rate of {100 * RATE:.0f} % {{cite:p}}`benjamini1995`."
    )


def _figure(record):
    groups = claim_tables.grouped(record.claims)
    strip = "".join(f"<span>{''.join(_sign(c.outcome, c.ours) for c in group)}</span>" for _, group in groups)
    told = html.escape(listed(count(record.claims)))
    rows = "".join(_statement(record, statement, group) for statement, group in groups)
    return (
        f'<details class="ab-figure" data-paper="{record.paper}" data-profile="{record.profile}" '
        f'data-name="{record.name}"><summary><span class="ab-figure-title">{html.escape(record.label)}'
        f"<small> · {marked(record.subject)}</small></span>"
        f'<span class="ab-strip" role="img" aria-label="{told}" title="{told}">{strip}</span>'
        f'<span class="ab-figure-profile">{html.escape(record.shown_profile)}</span></summary>'
        f'<p>Page: <a href="{record.name}.html">{html.escape(record.title)}</a></p>{rows}</details>'
    )


def _statement(record, statement, group):
    rows = [_row(record, claim) for claim in group]
    if len(rows) == 1:  # the statement stands above
        rows = [{"Where": marked(group[0].source)} | {k: v for k, v in rows[0].items() if k != "Claim"}]
    inner = table(claim_tables.filled(rows), "score")
    found = " ".join(sorted({_word(claim.outcome) for claim in group}))
    title = f"<span>{marked(statement)}</span> <span>{claim_tables.tally(group)}</span>"
    body = folded(title, inner)
    return f'<div class="ab-statement" data-outcomes="{found}">{body}</div>'


def _row(record, claim):
    cells = claim_tables.claim_cells(claim)
    link = f'<a href="{record.name}.html#claim-{html.escape(claim.id)}">on its page</a>'
    outcome = f"{badge(claim.outcome)}{claim_tables.by_ours([claim])}{claim_tables.by_which_rule(claim)}"
    return {**cells, "Outcome": f"<div>{outcome}</div>", "Page": link}


def _sign(outcome, ours=False):
    own = " ab-own" if ours else ""
    return f'<i class="ab-sign ab-{_word(outcome)}{own}" data-outcome="{_word(outcome)}">{SIGNS[outcome]}</i>'


def _word(outcome):
    return outcome.replace(" ", "-")
