"""A paper's landing page, and its row at home.

The page is prose, ``book/chapters/<paper>.md``; ``{{ answer }}``, ``{{ figures }}`` and ``{{ coverage }}``
in it stand for what follows from the results. The answer is ``notebooks/<paper>/answer.yaml``: sentences that
name a page each (``by``) and the word of its verdict (``word``) under which they are true; under another, the
finding stands instead. The home page has a row per paper: its name (``called``), the ``idea``, and the
sentence of the page ``core``.
"""

import html

from alignbook import paths
from alignbook.errors import AlignbookError
from companion.pages import coverage, filled, glance
from companion.pages.tables import marked
from companion.runs import notebooks, parameters

FIELDS = {"by", "word", "says"}


def write(paper, text, records):
    """The landing's MyST: ``text`` with what ``records`` say, the chapter's pages in the book's order."""
    cards = "".join(map(glance.card, records))
    values = {
        "answer": answer(paper, records),
        "figures": f'{glance.headlines(records)}\n\n<div class="ab-gallery">{cards}</div>',
        "coverage": coverage.section(paper, records),
    }
    return filled.fill(text, values)


def home(papers, records):
    """HTML of the home page's rows: each paper's idea, a picture, what we saw and the word for it.

    papers : folders of the chapters; one whose answer has no ``idea`` has no row
    """
    rows = []
    for paper in papers:
        by_slug = {record.slug: record for record in records if record.paper == paper}
        asked = read(paper) or {}
        if "idea" not in asked or asked["core"] not in by_slug:
            continue
        record = by_slug[asked["core"]]
        core = next(sentence for sentence in asked["sentences"] if sentence["by"] == asked["core"])
        title = f'<a href="{paper}/index.html">{html.escape(asked["called"])}</a>'
        rows.append(
            f'<div class="ab-card ab-of-{paper}">{glance.thumbnail(record, "")}<div>'
            f'<p class="ab-card-title">{title}</p><p><span class="ab-word">The idea</span> '
            f'{marked(asked["idea"])}</p><p><span class="ab-word">We saw</span> {glance.verdict(record)}<br>'
            f"{marked(_told(core, record))}</p></div></div>"
        )
    return f'<div class="ab-cards">{"".join(rows)}</div>\n'


def answer(paper, records):
    """HTML of our answer, a card per sentence, as the stored verdicts have it."""
    by_slug = {record.slug: record for record in records}
    sentences = (read(paper) or {"sentences": []})["sentences"]
    cards = [_card(each, by_slug[each["by"]]) for each in sentences if each["by"] in by_slug]
    return f'<div class="ab-cards ab-answer">{"".join(cards)}</div>'


def read(paper):
    """The answer of ``paper``, or None where it has none. AlignbookError where a sentence lacks a field."""
    path = paths.root() / "notebooks" / paper / "answer.yaml"
    if not path.is_file():
        return None
    asked = parameters.from_yaml(path)
    for sentence in asked["sentences"]:
        if set(sentence) != FIELDS:
            raise AlignbookError(f"{paths.shown(path)}, {sentence.get('by')}: needs by, word and says")
    return asked


def _card(sentence, record):
    called = record.title if record.paper == notebooks.OWN else record.label
    link = f'<a href="{record.slug}.html">{html.escape(called)}</a>'
    return (
        f'<div class="ab-card">{glance.thumbnail(record, "../")}'
        f"<p>{marked(_told(sentence, record))} {glance.verdict(record)} <small>({link})</small></p></div>"
    )


def _told(sentence, record):
    return sentence["says"] if glance.word_of(record) == sentence["word"] else record.finding.text
