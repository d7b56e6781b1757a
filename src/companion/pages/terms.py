"""Links from a page's prose to the glossary: the first use of each entry, found when the book is built."""

import html
import re

from docutils import nodes
from sphinx import addnodes

GLOSSARY = "glossary"  # the page
LONGEST = 240  # characters of a definition in a tooltip
# Text within these is no prose, or a link already.
SKIPPED = (
    nodes.citation,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.reference,
    nodes.raw,
    nodes.table,
    nodes.title,
    nodes.topic,
    addnodes.download_reference,
    addnodes.pending_xref,
)

# A claim, a finding or a list of them in HTML; and its texts, apart from tags, links and small print.
_SAID = re.compile(
    r'<p[^>]*><span class="ab-word">.*?</p>|<ul class="ab-(?:lines|answer)">.*?</ul>', re.DOTALL
)
_TEXTS = re.compile(r"<(a|small)\b.*?</\1>|<[^>]*>|(?P<text>[^<]+)", re.DOTALL)


def link_terms(app, doctree, docname):
    """Turn the first use of each entry of the glossary in the prose of ``doctree`` into a link to it.

    Prose are paragraphs, captions of figures, and of what is HTML the claims and the findings.

    Entries with several names (a term and its synonyms) are linked once, by whichever name comes first. An
    entry that the page links to already is left alone, and so are the glossary, headings, code, formulas,
    tables, the bibliography and what is a link.
    """
    if docname == GLOSSARY or GLOSSARY not in app.env.found_docs:
        return
    if not hasattr(app, "alignbook_terms"):
        app.alignbook_terms = entries(app.env.get_doctree(GLOSSARY))
    known = dict(app.alignbook_terms)
    place = app.builder.get_relative_uri(docname, GLOSSARY)
    linked = {r.get("refuri", "").partition("#")[2] for r in doctree.findall(nodes.reference)}
    known = {name: entry for name, entry in known.items() if not linked & set(entry[0])}
    for part in doctree.findall(_is_prose):
        if isinstance(part, nodes.raw):
            _link_shown(part, known, place)
        elif known and not _within(part, SKIPPED):
            _link(part, known, place)


def _is_prose(node):
    if isinstance(node, nodes.caption):
        return isinstance(node.parent, nodes.figure)  # not of code or of the contents
    return isinstance(node, nodes.paragraph) or (
        isinstance(node, nodes.raw) and "html" in node.get("format", "").split()
    )


def name_synonyms(app, doctree, docname):
    """Give ``doctree`` the other names of the terms that it uses as keywords, which a search finds."""
    if docname == GLOSSARY or GLOSSARY not in app.env.found_docs:
        return
    known = entries(app.env.get_doctree(GLOSSARY))
    text = " ".join(paragraph.astext() for paragraph in doctree.findall(nodes.paragraph))
    used = {known[name][0] for name in known if _pattern([name]).search(text)}
    words = [name for name, (ids, _) in known.items() if ids in used]
    if words:
        doctree.insert(0, nodes.meta("", name="keywords", content=", ".join(words)))


def entries(glossary):
    """{name: (ids of the entry's names, definition)} of a doctree; names as a regular expression finds them.

    A name with a capital beyond its first letter (NTK) is found as it is written, others in either case.
    """
    found = {}
    for item in glossary.findall(nodes.definition_list_item):
        terms = [child for child in item.children if isinstance(child, nodes.term)]
        ids = tuple(identity for term in terms for identity in term["ids"])
        if not ids or not any(identity.startswith("term-") for identity in ids):
            continue
        definition = next(item.findall(nodes.definition))
        said = " ".join(next(definition.findall(nodes.paragraph), definition).astext().split())
        if len(said) > LONGEST:
            said = said[: LONGEST - 2].rsplit(" ", 1)[0] + " …"
        for term in terms:
            found[term.astext().strip()] = (ids, said)
    return found


def _pattern(names):
    """Finds any of ``names``, each a group of its own, as whole words in the singular or the plural."""
    parts = []
    for name in names:
        text = re.escape(name).replace(r"\ ", r"\s+")
        text = f"{text[:-2]}[ie]s" if name.endswith("axis") else f"{text}s?"
        parts.append(f"({text if name[1:] != name[1:].lower() else f'(?i:{text})'})")
    return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])")


def _link(paragraph, known, place):
    """Link occurrences in ``paragraph``, and take what is linked out of ``known``."""
    for part in list(paragraph.findall(nodes.Element)):
        _join(part)
    for text in [text for text in paragraph.findall(nodes.Text) if not _within(text, SKIPPED)]:
        parts = list(_linked(str(text), known, place))
        if len(parts) > 1:
            text.parent.replace(text, [part for part in parts if part.astext()])


def _link_shown(raw, known, place):
    """Link occurrences in the claims and findings of HTML that a notebook shows."""
    said = raw.astext()
    better = _SAID.sub(lambda found: _TEXTS.sub(lambda text: _as_html(text, known, place), found[0]), said)
    if better != said:
        raw.children = [nodes.Text(better)]
        raw.rawsource = better


def _as_html(found, known, place):
    """HTML of a text, or of what is left alone, with its terms linked."""
    if not known or not found["text"]:
        return found[0]
    parts = _linked(html.unescape(found["text"]), known, place)
    return "".join(
        f'<a class="ab-term reference internal" href="{html.escape(part["refuri"])}" '
        f'title="{html.escape(part["reftitle"])}">{html.escape(part.astext(), quote=False)}</a>'
        if isinstance(part, nodes.reference)
        else html.escape(part.astext(), quote=False)
        for part in parts
    )


def _join(parent):
    """Make one text of texts side by side, in which a line's end may divide a term."""
    for number in range(len(parent.children) - 1, 0, -1):
        pair = parent.children[number - 1 : number + 1]
        if all(isinstance(child, nodes.Text) for child in pair):
            parent[number - 1 : number + 1] = [nodes.Text("".join(pair))]


def _linked(text, known, place):
    """The parts of ``text``, texts and links."""
    names = sorted(known, key=len, reverse=True)  # the longest first
    while names and (found := _pattern(names).search(text)):
        ids, said = known[names[found.lastindex - 1]]
        link = nodes.reference("", found[0], internal=True, refuri=f"{place}#{ids[0]}", reftitle=said)
        link["classes"].append("ab-term")
        yield nodes.Text(text[: found.start()])
        yield link
        text = text[found.end() :]
        for name in [name for name in names if known[name][0] == ids]:
            names.remove(name)
            del known[name]
    yield nodes.Text(text)


def _within(node, kinds):
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False
