"""Many notebooks at a glance: the chapters' figures, all findings."""

import hashlib
import html
import json
from collections import Counter

from companion import findings
from companion.pages import claim_tables, page
from companion.pages.tables import badge, marked

SECTIONS = {  # of the page of findings, by a page's word
    findings.HOLDS: "What holds",
    findings.IN_PART: "What holds in part",
    findings.FAILS: "What fails",
    findings.OPEN: "What is open",
    findings.UNTESTED: "What is untested at these sizes",
}
_VERBS = {
    findings.HOLDS: ("holds", "hold"),
    findings.IN_PART: ("holds in part", "hold in part"),
    findings.FAILS: ("fails", "fail"),
}


def told(records):
    """HTML of a list: each page with its finding, and the verdict on its headline."""
    items = [
        f"<li>{_link(record, record.name)} {verdict(record)}<br>{page.parted(record.finding)}</li>"
        for record in records
    ]
    return f'<ul class="ab-lines">{"".join(items)}</ul>'


def headlines(records):
    """How the main claims of ``records`` came out, a sentence."""
    counts = Counter(map(word_of, records))
    shares = [f"{counts[word]} {_verb(word, counts[word] > 1)}" for word in SECTIONS if counts[word]]
    pages = f"{len(records)} page{'s' * (len(records) != 1)}"
    return f"{pages}, each with one main claim: {', '.join(shares)}."


def _verb(word, several):
    singular, plural = _VERBS.get(word, (f"is {word}", f"are {word}"))
    return plural if several else singular


def word_of(record):
    """The page's one word, see :func:`companion.findings.word`."""
    return findings.word(findings.main(record.claims))


def card(record):
    """HTML of a page on its chapter's landing: figure, question and word."""
    return (
        f'<div id="{html.escape(record.slug)}">{thumbnail(record, "../")}'
        f"<p>{_link(record, record.slug)} {verdict(record)}</p></div>"
    )


def _link(record, page):
    return f'<a href="{page}.html">{marked(record.title)}<span> · {html.escape(record.label)}</span></a>'


def first_figure(executed):
    """The first figure of a notebook's file: its ``file`` in the built book and its ``alt``, or None."""
    for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            if svg := output.get("data", {}).get("image/svg+xml"):
                svg = "\n".join("".join(svg).splitlines())  # MyST-NB names the file of an output by this
                image = cell["metadata"].get("mystnb", {}).get("image", {})
                digest = hashlib.sha256(svg.encode()).hexdigest()
                return {"file": f"{digest}.svg", "alt": image.get("alt", "")}
    return None


def thumbnail(record, up):
    """HTML of the page's first figure as a link; ``up`` leads from the page to the book's root."""
    if record.figure is None:
        return '<span class="ab-thumbnail ab-none"></span>'
    alt = html.escape(record.figure["alt"] or f"The first figure of {record.title}")
    return (
        f'<a class="ab-thumbnail" href="{up}{record.name}.html" tabindex="-1">'
        f'<img src="{up}_images/{record.figure["file"]}" alt="{alt}" loading="lazy"></a>'
    )


def verdict(record):
    """HTML of the page's one word."""
    return f'<span class="ab-verdict">{badge(word_of(record), explained=True)}</span>'


def all_findings(papers, records):
    """The page of findings across papers: a section per word, and where a paper contradicts itself."""
    parts = ["# Findings", "", headlines(records), ""]
    for word, title in SECTIONS.items():
        group = [r for paper in papers for r in records if r.paper == paper and word_of(r) == word]
        if group:
            parts += [f"## {title}", "", told(group), ""]
    opposed = [
        (record, claim)
        for record in records
        for _, (claim, *_) in claim_tables.grouped(record.claims)
        if claim.opposed_by
    ]
    if opposed:
        parts += [
            "## Where a paper contradicts itself",
            "",
            "Two places of the same paper, or its text and its proof, say different things.",
            "",
            _statements(opposed),
            "",
        ]
    return "\n".join(parts)


def _statements(pairs):
    items = [
        f'<li><a href="{record.name}.html#claim-{html.escape(claim.id)}">{html.escape(record.label)}</a> '
        f"{marked(claim.statement)} <small>{marked(f'But: {claim.opposed_by}')}</small></li>"
        for record, claim in pairs
    ]
    return f'<ul class="ab-lines">{"".join(items)}</ul>'
