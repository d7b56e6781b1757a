"""What the book covers of a paper: its figures, tables, theorems and sentences, and what became of them.

``notebooks/<paper>/coverage.yaml`` lists the items in the paper's order. A row is a mapping of

item
    where in the paper, e.g. ``Figure 3`` or ``Section 2.3``
says
    what it is, or what it says, one sentence
by
    ``<page>#<statement>``: statements that judge it, beside those whose source names the item
page
    pages that show it and judge nothing of it
without
    what of it is not here, and why
"""

import html
import re
from functools import cache

from alignbook import paths
from alignbook.errors import AlignbookError
from companion.claims import NOT_JUDGED, NOT_RUN
from companion.pages import claim_tables
from companion.pages.tables import folded, marked, table
from companion.runs import parameters

KEYS = {"item", "says", "by", "page", "without"}
_KINDS = "Figure|Table|Theorem|Proposition|Corollary|Lemma|Definition|Approximation|Remark|Equation"
_FIRST = r"[A-Z]\.\d+|\d+[a-z]?\b|[A-Z]\b"  # what follows a comma with a letter is an appendix's section
_NAMED = re.compile(rf"\b({_KINDS})s? ((?:{_FIRST})(?:(?:, | and | to )\d+[a-z]?\b)*)")
_PANELS = re.compile(r"\s*\([^()]*\)")


def read(paper):
    """The rows of ``paper``, a list of dicts; empty for a chapter without a list.

    Raises AlignbookError where the list cannot be read, or a row has an unknown key or neither item nor text.
    """
    path = paths.root() / "notebooks" / paper / "coverage.yaml"
    if not path.is_file():
        return []
    rows = parameters.from_yaml(path)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or set(row) - KEYS or not {"item", "says"} <= set(row):
            raise AlignbookError(f"{paths.shown(path)}, row {number}: needs item and says, may have {KEYS}")
    return rows


@cache
def items(source):
    """The numbered items that a statement's ``source`` names.

    >>> sorted(items("Figures 6 and 17, Section 5; Table D.1 (left)"))
    ['Figure 17', 'Figure 6', 'Table D.1']
    >>> sorted(items("Figures 13 (a, b), 19 and 20 (a), Tables 1 to 3"))
    ['Figure 13', 'Figure 19', 'Figure 20', 'Table 1', 'Table 2', 'Table 3']
    """
    found = set()
    for kind, numbers_of in _NAMED.findall(_PANELS.sub("", source)):
        for part in re.split(r", | and ", numbers_of):
            first, _, last = (re.sub(r"(?<=\d)[a-z]$", "", end) for end in part.partition(" to "))
            numbers = range(int(first), int(last) + 1) if last else (first,)
            found.update(f"{kind} {number}" for number in numbers)
    return found


def judging(row, records):
    """(record, its claims that judge ``row``) of each page that has some, in the order of ``records``."""
    named = [entry.partition("#") for entry in row.get("by", ())]
    pairs = []
    for record in records:
        chosen = {claim.id for claim in record.claims if row["item"] in items(claim.source)}
        for slug, _, statement in named:
            if record.slug == slug:
                chosen |= {claim.id for claim in record.of_statement(statement)}
        claims = [claim for claim in record.claims if claim.id in chosen]
        if claims:
            pairs.append((record, claims))
    return pairs


def section(paper, records):
    """MyST of what is covered, for the landing; empty for a chapter without a list.

    records : list of record.Record, the pages of ``paper``
    """
    rows = read(paper)
    if not rows:
        return ""
    found = [judging(row, records) for row in rows]
    judged = sum(
        any(claim.outcome not in (NOT_JUDGED, NOT_RUN) for _, claims in pairs for claim in claims)
        for pairs in found
    )
    shown = sum(not pairs and "page" in row for row, pairs in zip(rows, found, strict=True))
    missing = sum(not pairs and "page" not in row for row, pairs in zip(rows, found, strict=True))
    does = f"judges {judged}" + f" and shows {shown} without a verdict" * (shown > 0)
    told = (
        f"Of the {len(rows)} figures, tables, theorems, definitions and sentences of the paper that can be "
        f"tested, the book {does}"
        + f"; {missing} {'is' if missing == 1 else 'are'} not here" * (missing > 0)
        + ". The table says where each is, or why it is missing."
    )
    by_slug = {record.slug: record for record in records}
    body = [_row(row, pairs, by_slug) for row, pairs in zip(rows, found, strict=True)]
    whole = folded("The whole paper", table(body, "coverage"))
    return f"{told}\n\n{whole}"


def _row(row, pairs, by_slug):
    cells = [f"{_link(record)} {_tally(claims)}" for record, claims in pairs]
    judged = {record.name for record, _ in pairs}
    cells += [
        f"{_link(by_slug[slug])} shown, not judged"
        for slug in row.get("page", ())
        if slug in by_slug and by_slug[slug].name not in judged
    ]
    if "without" in row:
        word = "Not in full:" if cells else "Not here:"
        cells.append(f"<small>{word} {marked(row['without'])}.</small>")
    return {
        "In the paper": html.escape(row["item"]),
        "What it says": marked(row["says"]),
        "In this book": "<div>" + "<br>".join(cells) + "</div>",
    }


def _tally(claims):
    """HTML of how the paper's own of ``claims`` came out, and how ours did."""
    groups = ([claim for claim in claims if claim.ours == ours] for ours in (False, True))
    return "<br>".join(map(claim_tables.tally, filter(None, groups)))


def _link(record):
    return f'<a href="{record.slug}.html">{html.escape(record.label)}</a>'
