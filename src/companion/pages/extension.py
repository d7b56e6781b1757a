"""A Sphinx extension: what the book does beyond Jupyter Book.

Plots are numbered per page, a page's audit is folded, signs stay with their number or formula, and each page
says in its head what it shows.
"""

import html
import json
import re
from pathlib import Path

from docutils import nodes

AUDIT = "statements and numbers, differences from the paper, provenance, code"
LONGEST = 300  # characters of a description
PICTURE = "four-papers.png"  # shown beside a link to a page, in the book's _static
COLOUR_MAP = re.compile("<image |QuadMesh_")  # in an SVG
_VECTOR = re.compile(r'<img (?P<rest>[^>]*?src="[^"]*_images/(?P<name>[^"/]+\.svg)")')
_FORMULA = re.compile(r'([(“‘]*)(<span class="math [^>]*>[^<]*</span>)([.,;:!?)’”]*)')
_SPACED_SIGN = re.compile(r"(?<=[\d)]) (?=%)|(?<=±) (?=[\d.])")
_VERBATIM = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def setup(app):
    """Called by Sphinx."""
    app.connect("env-check-consistency", number_per_page)
    app.connect("doctree-resolved", fold_audit)
    app.connect("doctree-resolved", keep_signs)
    app.connect("html-page-context", keep_punctuation)
    app.connect("html-page-context", mark_colour_maps)
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def number_per_page(app, env):
    """Count figures from 1 on each page: a page is read by itself."""
    for by_kind in env.toc_fignumbers.values():
        for figures in by_kind.values():
            for position, name in enumerate(figures, 1):
                figures[name] = (position,)


def fold_audit(app, doctree, docname):
    """Fold a page's section *Audit*, its heading as the summary."""
    for section in doctree.findall(nodes.section):
        if "audit" in section["ids"]:
            section.insert(1, _raw(f"<small>{AUDIT}</small></summary>"))
            section.insert(0, _raw('<details class="ab-audit"><summary>'))
            section.append(_raw("</details>"))


def keep_signs(app, doctree, docname):
    """Keep % and ± in the line of their number."""
    for text in list(doctree.findall(nodes.Text)):
        joined = _SPACED_SIGN.sub("\u00a0", text)
        if joined != text and not isinstance(text.parent, _VERBATIM):
            text.parent.replace(text, nodes.Text(joined))


def keep_punctuation(app, pagename, templatename, context, doctree):
    """Keep brackets and full stops with their formula: browsers break a line before and after any formula."""
    if "body" in context:
        context["body"] = _FORMULA.sub(
            lambda match: f'<span class="ab-formula">{match[0]}</span>' if match[1] or match[3] else match[0],
            context["body"],
        )


def mark_colour_maps(app, pagename, templatename, context, doctree):
    """Mark figures with colour maps or photographs, which the style sheet leaves alone in the dark."""
    if "body" not in context:
        return
    files = {name: Path(app.srcdir, source) for source, (_, name) in app.env.images.items()}

    def marked(match):
        svg = files[match["name"]].read_text(encoding="utf-8")
        return f"<img data-colours {match['rest']}" if COLOUR_MAP.search(svg) else match[0]

    context["body"] = _VECTOR.sub(marked, context["body"])


def describe(app, pagename, templatename, context, doctree):
    """Say in the page's head what it shows: its finding, else its first paragraph; and the book's picture.

    Other sites want the picture's whole address: the book knows it where ``html_baseurl`` does.
    """
    path = app.srcdir / "shown.json"  # written beside the pages: {page: its finding}
    findings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    text = findings.get(pagename) or _first_paragraph(doctree)
    if not text:
        return
    text = text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0] + " …"
    title = html.unescape(re.sub(r"<[^>]*>", "", context.get("title", "")))
    picture = f"_static/{PICTURE}"
    base = app.config.html_baseurl
    tags = {
        "og:title": title,
        "og:type": "article",
        "og:description": text,
        "og:image": f"{base.rstrip('/')}/{picture}" if base else context["pathto"](picture, resource=True),
    }
    lines = [f'<meta name="description" content="{html.escape(text)}">']
    lines += [f'<meta property="{key}" content="{html.escape(value)}">' for key, value in tags.items()]
    lines += ['<meta name="twitter:card" content="summary_large_image">']
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def _first_paragraph(doctree):
    paragraphs = doctree.findall(nodes.paragraph) if doctree is not None else ()
    return next((" ".join(paragraph.astext().split()) for paragraph in paragraphs), "")


def _raw(text):
    return nodes.raw("", text, format="html")
