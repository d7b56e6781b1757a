"""A paper's landing page (argument, our answer, figures, coverage, exercises) and its row at home.

The argument is prose, ``book/chapters/<paper>.md``, and so are the exercises, ``book/exercises/<paper>.md``.
The answer is ``notebooks/<paper>/answer.yaml``: a question, and sentences that name a page each (``by``) and
the word of its verdict (``word``) under which they are true; under another, the finding stands instead. The
home page has a row per paper: its name (``called``), the ``idea``, and the sentence of the page ``core``.
"""

import html

import yaml

from alignbook import paths
from alignbook.errors import AlignbookError
from companion.pages import coverage, glance
from companion.pages.tables import marked
from companion.runs import notebooks

FIELDS = {"by", "word", "says"}


def write(paper, argument, exercises, records):
    """The landing's MyST text.

    Parameters
    ----------
    paper : str
        The chapter's folder.
    argument, exercises : str
        MyST of the opening and of the exercises.
    records : list of record.Record
        The chapter's pages, in the book's order.
    """
    title, _, rest = argument.partition("\n")
    says, _, since = rest.partition("## Before and since\n")
    cards = "".join(glance.card(record) for record in records)
    parts = [title, "", *answer(paper, records)]
    parts += ["## What the paper says", ""] if since else []
    parts += [says.strip(), ""]
    parts += [
        "## Figure by figure",
        "",
        glance.headlines(records),
        "",
        f'<div class="ab-cards">{cards}</div>',
        "",
    ]
    parts += ["## Before and since", "", since.strip(), ""] if since else []
    parts += [coverage.section(paper, records), exercises]
    return "\n".join(parts)


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
    """Lines of MyST: the chapter's question, and our answer as the stored verdicts have it."""
    asked = read(paper)
    if asked is None:
        return []
    by_slug = {record.slug: record for record in records}
    sentences = "".join(
        _sentence(sentence, by_slug[sentence["by"]])
        for sentence in asked["sentences"]
        if sentence["by"] in by_slug
    )
    return [f"## {asked['question']}", "", f'<ul class="ab-answer">{sentences}</ul>', ""]


def read(paper):
    """The question and the sentences of ``paper``'s answer, or None where it has none.

    Raises
    ------
    AlignbookError
        Where a sentence lacks a field.
    """
    path = paths.root() / "notebooks" / paper / "answer.yaml"
    if not path.is_file():
        return None
    asked = yaml.safe_load(path.read_text(encoding="utf-8"))
    for sentence in asked["sentences"]:
        if set(sentence) != FIELDS:
            raise AlignbookError(f"{paths.shown(path)}, {sentence.get('by')}: needs by, word and says")
    return asked


def _called(record):
    """A page's number in its paper; the subject of a page of the chapter without a paper."""
    return record.subject if record.paper == notebooks.OWN else record.label


def _sentence(sentence, record):
    words = _told(sentence, record)
    link = f'<a href="{record.slug}.html">{html.escape(_called(record))}</a>'
    return f"<li>{marked(words)} {glance.verdict(record)} <small>({link})</small></li>"


def _told(sentence, record):
    return sentence["says"] if glance.word_of(record) == sentence["word"] else record.finding.text
