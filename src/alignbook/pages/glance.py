"""Generated pages that show many notebooks at a glance: the home page's part, chapters, all findings."""

import html
from collections import Counter

from alignbook import claims
from alignbook.pages import claim_tables, page
from alignbook.pages.tables import folded, marked, table

# What the home page shows: notebooks, in this order.
HOME = (
    "random_labels/fig02_misalignment",
    "random_labels/tab01_covariance_init",
    "representation_alignment/fig10_peaks_alignment",
    "signal_propagation/fig03_peak_law",
    "transferability/thm01_lipschitz",
)
HOLDS, PART, NOT, OPEN = "What holds", "What holds in part", "What does not hold", "What is not decided"
SECTIONS = {
    HOLDS: "The main claim holds in every case that we judged; other statements of the page may not.",
    PART: "The first part of the main claim holds, and other parts or some settings do not, or not clearly; "
    "or it holds in some settings alone.",
    NOT: "The first part of the main claim is contradicted, or its effect too small to matter, in every "
    "setting that we judged; another part, named beside it, may hold.",
    OPEN: "Seeds or sizes do not decide the first part of the main claim, or something that it requires is "
    "not met; another part, named beside it, may hold.",
}
SHORT = {HOLDS: "holds", PART: "in part", NOT: "does not hold", OPEN: "not decided"}  # as a table's column
SAID = {  # of one main claim, of several
    HOLDS: ("holds", "hold"),
    PART: ("holds in part", "hold in part"),
    NOT: ("does not hold", "do not hold"),
    OPEN: ("is undecided or not judged", "are undecided or not judged"),
}
_PLURAL = {claims.HOLDS: "hold"}


def home(records):
    """HTML of the home page's findings: a thumbnail, the finding and its caveat each."""
    shown = {record.name: record for record in records}
    cards = []
    for record in (shown[name] for name in HOME if name in shown):
        sentence = page.parted(record.finding)
        cards.append(
            f'<div class="ab-card ab-small">{thumbnail(record, "")}<div><p class="ab-card-title">'
            f"{_link(record, record.name)}</p><p>{verdict(record)}<br>{sentence}</p></div></div>"
        )
    return f'<div class="ab-cards ab-home">{"".join(cards)}</div>\n'


def told(records):
    """HTML of a list: each page with its finding, and the verdict on its headline."""
    items = [
        f"<li>{_link(record, record.name)} {verdict(record)}<br>{page.parted(record.finding)}</li>"
        for record in records
    ]
    return f'<ul class="ab-lines">{"".join(items)}</ul>'


def outcomes(papers, records):
    """HTML of the home page's table: how many headlines of each chapter came out how.

    papers : {key: title}
    """
    columns = [word for word in SECTIONS if any(_section(record) == word for record in records)]
    rows = []
    for paper, title in papers.items():
        counts = Counter(_section(record) for record in records if record.paper == paper)
        if counts:
            row = {"Chapter": f'<a href="{paper}/index.html">{html.escape(title)}</a>'}
            rows.append(row | {SHORT[word]: _linked(counts[word], word) for word in columns})
    return table(rows, "outcomes") + "\n"


def _linked(number, section):
    return f'<a href="findings.html#{section.lower().replace(" ", "-")}">{number}</a>' if number else "0"


def headlines(records):
    """How the main claims of ``records`` came out, and how many statements stand behind them, a sentence."""
    counts = Counter(_section(record) for record in records)
    said = ", ".join(f"{counts[word]} {SAID[word][counts[word] > 1]}" for word in SECTIONS if counts[word])
    more = sum(len(claim_tables.grouped(record.claims)) for record in records) - len(records)
    pages = f"{len(records)} page{'s' * (len(records) != 1)}"
    return f"{pages}, each with one main claim: {said}. Behind these stand {more} further statements."


def card(record):
    """HTML of a page on its chapter's landing: figure, claim, verdict and finding."""
    slug, word = record.slug, page.says(record.paper)
    return (
        f'<div class="ab-card" id="{html.escape(slug)}">{thumbnail(record, "../")}<div>'
        f'<p class="ab-card-title">{_link(record, slug)}</p>'
        f'<p class="ab-claim"><span class="ab-word">{word}</span> {marked(record.statement)}</p>'
        f'<p><span class="ab-word">We find</span> {verdict(record)}<br>{page.parted(record.finding)}</p>'
        f"</div></div>"
    )


def _link(record, page):
    return f'<a href="{page}.html">{html.escape(record.label)}<span> · {marked(record.subject)}</span></a>'


def thumbnail(record, up):
    """HTML of a panel of the page's first figure as a link; ``up`` leads from the page to the book's root."""
    if record.figure is None:
        return '<span class="ab-thumbnail ab-none"></span>'
    alt = html.escape(record.figure["alt"] or f"The first figure of {record.title}")
    return (
        f'<a class="ab-thumbnail" href="{up}{record.name}.html" tabindex="-1">'
        f'<img src="{up}_images/{record.figure["file"]}" alt="{alt}" loading="lazy" '
        f'data-panel="{record.figure["panel"]}"></a>'
    )


def verdict(record):
    """HTML of the outcome of the headline, its replicates and the claim's other halves, where they differ."""
    return f'<span class="ab-verdict">{claim_tables.verdict(record.claims)}</span>'


def findings(papers, records):
    """The page of findings across papers: a section per outcome of the headlines, then further statements."""
    by_section = {section: [] for section in SECTIONS}
    for record in records:
        by_section[_section(record)].append(record)
    parts = [
        "# Findings",
        "",
        headlines(records),
        "",
        "One line per page: what we found about its main claim, with the verdict, and how its other",
        "statements came out, each case (data set, network, setting) by itself. Every line is generated from",
        "the stored results. “By our own criterion” marks an interpretation, bound or threshold of ours.",
        "*Profile* `paper` has the paper's own settings, `quick` smaller ones; [](reading) explains these",
        "and the verdicts.",
        "",
    ]
    for section, group in by_section.items():
        if group:
            parts += [f"## {section}", "", SECTIONS[section], "", _lines(papers, group), ""]
    opposed = [(record, claim) for record in records for claim in _once(record.claims) if claim.opposed_by]
    if opposed:
        parts += [
            "## Where a paper contradicts itself",
            "",
            "Two places of the same paper, or its text and its proof, say different things.",
            "",
            _statements(opposed, lambda claim: f"But: {claim.opposed_by}", judged=False),
            "",
        ]
    further = [
        (record, claim)
        for record in records
        for claim in record.claims
        if claim.outcome == claims.CONTRADICTED and claim not in record.headline
    ]
    if further:
        parts += [
            "## Further statements that are contradicted",
            "",
            folded(f"{len(further)} statements beside the main claims", _statements(further)),
            "",
        ]
    return "\n".join(parts)


def _section(record):
    return section_of(*claim_tables.main(record.claims))


def section_of(group, others=()):
    """Where claims of one statement stand among the findings, one of ``SECTIONS``.

    others : claims of the other parts of what the paper is said to claim: it holds where these do, too
    """
    found = {claim.outcome for claim in group}
    if found == {claims.HOLDS} != found | {claim.outcome for claim in others}:
        return PART
    if claims.HOLDS in found:
        return HOLDS if found == {claims.HOLDS} else PART
    return NOT if found & {claims.CONTRADICTED, claims.ABSENT} else OPEN


def _lines(papers, group):
    items = []
    for paper in papers:
        for record in (record for record in group if record.paper == paper):
            head, parts = claim_tables.main(record.claims)  # which the verdict has
            others = [claim for claim in record.claims if claim not in head and claim not in parts]
            items.append(
                f"<li>{_link(record, record.name)} {verdict(record)}<br>{page.parted(record.finding)}"
                f"<small>{_others(others)}Profile {html.escape(record.shown_profile)}.</small></li>"
            )
    return f'<ul class="ab-lines">{"".join(items)}</ul>'


def _others(others):
    theirs, ours = (count(claim for claim in others if claim.ours is own) for own in (False, True))
    said = f"The paper's other claims: {listed(theirs)}. " if theirs else ""
    return said + (f"Readings of ours: {listed(ours)}. " if ours else "")


def _once(found):
    """The first claim of each statement in ``found``."""
    return [group[0] for _, group in claim_tables.grouped(found)]


def _statements(pairs, beside=lambda claim: claim.test, judged=True):
    """A list of statements; where they are ``judged``, each says whether by a criterion of ours."""
    items = [
        f'<li><a href="{record.name}.html#claim-{html.escape(claim.id)}">{html.escape(record.label)}</a> '
        f"{marked(claim.statement)}{claim_tables.by_ours([claim]) if judged else ''} "
        f"<small>{marked(beside(claim))}</small></li>"
        for record, claim in pairs
    ]
    return f'<ul class="ab-lines">{"".join(items)}</ul>'


def count(found):
    """How many of the claims ``found`` have each outcome."""
    return Counter(claim.outcome for claim in found)


def listed(counts):
    """``3 hold, 1 not run``: outcomes with how many have them."""
    said = []
    for outcome in (outcome for outcome in claims.OUTCOMES if counts[outcome]):
        word = _PLURAL.get(outcome, outcome) if counts[outcome] > 1 else outcome
        said.append(f"{counts[outcome]} {word}")
    return ", ".join(said)
