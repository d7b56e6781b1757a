"""A paper's landing page: its argument, our answer, its figures, what is covered, exercises.

The argument is prose, ``book/chapters/<paper>.md``, and so are the exercises, ``book/exercises/<paper>.md``.
The answer is ``notebooks/<paper>/answer.yaml``: a question, and sentences that name a statement each and have
words for every way in which its verdict can turn, in which ``{held}`` of ``{all}`` counts its replicates.
"""

import html

import yaml

from alignbook import findings, paths
from alignbook.claims import HOLDS
from alignbook.errors import AlignbookError
from alignbook.pages import coverage, glance
from alignbook.pages.tables import badge, marked
from alignbook.runs import notebooks

# How an answer calls the words of findings.
WORDS = {"holds": findings.HOLDS, "part": findings.IN_PART, "fails": findings.FAILS, "open": findings.OPEN}


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
    cards = "".join(glance.card(record) for record in records)
    parts = [argument.rstrip(), "", *answer(paper, records), "## Figure by figure", ""]
    parts += [glance.headlines(records), "", f'<div class="ab-cards">{cards}</div>', ""]
    parts += [coverage.section(paper, records), exercises]
    return "\n".join(parts)


def answer(paper, records):
    """Lines of MyST: the chapter's question, and our answer as the stored verdicts have it."""
    asked = read(paper)
    if asked is None:
        return []
    by_slug = {record.slug: record for record in records}
    said = []
    for sentence in asked["sentences"]:
        slug, _, statement = sentence["by"].partition("#")
        if slug in by_slug:
            said.append(_sentence(sentence, by_slug[slug], by_slug[slug].of_statement(statement)))
    return [f"## {asked['question']}", "", f'<ul class="ab-answer">{"".join(said)}</ul>', ""]


def read(paper):
    """The question and the sentences of ``paper``'s answer, or None where it has none.

    Raises
    ------
    AlignbookError
        Where a sentence lacks words for a verdict.
    """
    path = paths.root() / "notebooks" / paper / "answer.yaml"
    if not path.is_file():
        return None
    asked = yaml.safe_load(path.read_text(encoding="utf-8"))
    for sentence in asked["sentences"]:
        if set(sentence) != {"by", *WORDS}:
            raise AlignbookError(f"{paths.shown(path)}, {sentence.get('by')}: needs by, {', '.join(WORDS)}")
    return asked


def counted(words, claims):
    """``words`` of an answer with ``{held}`` and ``{all}``: of how many ``claims`` how many hold."""
    held = sum(claim.outcome == HOLDS for claim in claims)
    return words.replace("{held}", str(held)).replace("{all}", str(len(claims)))


def _called(record):
    """A page's number in its paper; the subject of a page of the chapter without a paper."""
    return record.subject if record.paper == notebooks.OWN else record.label


def _sentence(sentence, record, claims):
    word = findings.word(claims)
    key = next((key for key, known in WORDS.items() if known == word), "open")
    words = counted(sentence[key], claims)
    link = f'<a href="{record.slug}.html">{html.escape(_called(record))}</a>'
    if claims and claims != record.headline:  # the card below has another verdict
        link += f", its statement “{marked(claims[0].group or claims[0].statement)}”"
    verdict = f'<span class="ab-verdict">{badge(word, explained=True)}</span>'
    return f"<li>{marked(words)} {verdict} <small>({link})</small></li>"
