"""A Sphinx extension: what the book does beyond Jupyter Book.

Plots are numbered per page, every figure is drawn for the dark mode, too, each page says in its head what it
shows, the first use of a term leads to the glossary, searches find findings first and know synonyms, pages
lead to the folder that made them, and notebooks are offered as they run on a reader's machine.
"""

import html
import json
import re
import shutil
from pathlib import Path

from docutils import nodes

from companion.pages import (
    accessibility,
    download,
    excerpts,
    legends,
    panels,
    repository,
    share,
    tables,
    terms,
)
from companion.pages.style import darkened

_FIGURE = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<place>[^"]*_images/(?P<name>[^"/]+))\.svg"(?P<after>[^>]*)>'
)
_PANEL = re.compile(r'data-panel="(\d+)"')  # of a thumbnail
_ALT = re.compile(r'alt="([^"]*)"')
_FORMULA = re.compile(r'([(“‘]*)(<span class="math [^>]*>[^<]*</span>)([.,;:!?)’”]*)')
_SECTION = re.compile(r"</?section\b")
AUDIT = "statements and numbers, differences from the paper, provenance, code"
DARK = "-dark.svg"
SOURCE = "\0"  # in place of a figure's address
LONGEST = 300  # characters of a description


def setup(app):
    """Called by Sphinx."""
    app.connect("config-inited", rank_search)
    app.connect("env-check-consistency", number_per_page)
    app.connect("doctree-resolved", terms.link_terms)
    app.connect("doctree-resolved", terms.name_synonyms)
    app.connect("html-page-context", fold_audit)
    app.connect("html-page-context", pair_figures)
    app.connect("html-page-context", stack_tables)
    app.connect("html-page-context", keep_options_whole)
    app.connect("html-page-context", keep_punctuation)
    app.connect("html-page-context", keep_numbers)
    app.connect("html-page-context", set_letters)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", lead_to_the_source)
    app.connect("build-finished", draw_for_dark)
    app.connect("build-finished", offer_notebooks)
    app.connect("build-finished", offer_pictures)
    app.connect("html-page-context", show_excerpts)
    app.connect("build-finished", mend)
    app.connect("build-finished", tell_excerpts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rank_search(app, config):
    """What was found comes first in a search, code last."""
    config.html_search_scorer = str(app.srcdir / "assets" / "scorer.js")  # Sphinx looks in its working folder


def number_per_page(app, env):
    """Count figures from 1 on each page: a page is read by itself."""
    for by_kind in env.toc_fignumbers.values():
        for figures in by_kind.values():
            for position, name in enumerate(figures, 1):
                figures[name] = (position,)


def fold_audit(app, pagename, templatename, context, doctree):
    """A page's section *Audit* is folded: what proves it is there for those who ask."""
    if "body" in context:
        context["body"] = audit_folded(context["body"])


def audit_folded(body):
    """The HTML ``body`` with its section ``audit`` in a fold, its heading as the summary."""
    start = body.find('<section id="audit">')
    if start < 0:
        return body
    depth, end = 0, len(body)
    for tag in _SECTION.finditer(body, start):
        depth += -1 if tag[0].startswith("</") else 1
        if not depth:
            end = body.index(">", tag.end()) + 1
            break
    inner = body[start:end].removesuffix("</section>")
    opening, heading, rest = re.split(r"(<h2>.*?</h2>)", inner, maxsplit=1, flags=re.DOTALL)
    fold = f'<details class="ab-audit"><summary>{heading}<small>{AUDIT}</small></summary>{rest}</details>'
    return f"{body[:start]}{opening}{fold}</section>{body[end:]}"


def pair_figures(app, pagename, templatename, context, doctree):
    """Each vector figure beside its dark twin, of which the theme shows the one that fits the mode.

    For phones its parts stand below, of which the style sheet shows either all or none.
    """
    if "body" in context:
        files = {name: Path(app.srcdir, source) for source, (_, name) in app.env.images.items()}
        context["body"] = _FIGURE.sub(lambda found: _pair(found, files), context["body"])


def stack_tables(app, pagename, templatename, context, doctree):
    """Tables of prose with many columns become readable on a phone."""
    if "body" in context:
        context["body"] = tables.stacked(context["body"])


def set_letters(app, pagename, templatename, context, doctree):
    """Docstrings are read in editors, too: they have A_l and 1e-6, which a page sets as one writes them."""
    if pagename.startswith("reference/") and "body" in context:
        context["body"] = tables.docstring_prose(context["body"])


def keep_options_whole(app, pagename, templatename, context, doctree):
    """An option of the command line is one word; other code may break like text."""
    if "body" in context:
        context["body"] = context["body"].replace('<span class="pre">--', '<span class="pre ab-option">--')


def keep_punctuation(app, pagename, templatename, context, doctree):
    """Brackets and full stops stay with their formula: browsers may break a line before and after any."""
    if "body" in context:
        context["body"] = _FORMULA.sub(
            lambda found: f'<span class="ab-formula">{found[0]}</span>' if found[1] or found[3] else found[0],
            context["body"],
        )


def keep_numbers(app, pagename, templatename, context, doctree):
    """A number and its % or ± stand in one line."""
    if "body" in context:
        context["body"] = tables.whole_numbers(context["body"])


def _pair(found, files):
    svg = files[found["name"] + ".svg"].read_text(encoding="utf-8")
    thumbnail = _PANEL.search(found[0])
    end = legends.SMALL if thumbnail else ""
    places = {"light": f"{found['place']}.svg{end}", "dark": f"{found['place']}{DARK}{end}"}
    drawn = {mode: _shown(found, mode, "" if thumbnail else svg) for mode in places}
    twins = "".join(f"<img {drawn[mode]}>".replace(SOURCE, places[mode]) for mode in places)
    if thumbnail:
        return panels.cropped(svg, twins, int(thumbnail[1]))
    alt = _ALT.search(found[0])
    stack = panels.stack(svg, **places, alt=alt[1] if alt else "")
    return f'<span class="ab-whole">{twins}</span>{stack}' if stack else twins


def _shown(found, mode, svg):
    """The attributes of an image in one mode, no larger than its text is to be."""
    text = f'{found["before"]}src="{SOURCE}"{found["after"]}'
    added = {"class": f"only-{mode} "}
    if panels.size(svg):
        added["style"] = f"max-width: {panels.LARGEST * panels.size(svg)[0]:.0f}px; "
    for name, value in added.items():
        if f'{name}="' in text:
            text = text.replace(f'{name}="', f'{name}="{value}', 1)
        else:
            text = f'{name}="{value.strip()}" {text}'
    return text


def describe(app, pagename, templatename, context, doctree):
    """Say in the page's head what it shows: its finding, else its first paragraph; and its first figure.

    A page without a figure has the book's own picture. Sites want the picture's whole address:
    the book knows it where ``html_baseurl`` does.
    """
    path = app.srcdir / "shown.json"  # written beside the pages: {"description": {page: text}, "picture": …}
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    text = known.get("description", {}).get(pagename) or _first_paragraph(doctree)
    if not text:
        return
    text = text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0] + " …"
    tags = {"og:title": context.get("title", ""), "og:type": "article", "og:description": text}
    pictures = known.get("picture", {})
    if pictures:
        picture = pictures.get(pagename) or pictures[share.BOOK]
        base = app.config.html_baseurl
        tags["og:image"] = f"{base.rstrip('/')}/{picture}" if base else context["pathto"](picture, 1)
        tags |= {"og:image:width": share.SIZE[0], "og:image:height": share.SIZE[1]}
    lines = [f'<meta name="description" content="{html.escape(text)}">']
    lines += [f'<meta property="{key}" content="{html.escape(_plain(str(tags[key])))}">' for key in tags]
    lines += ['<meta name="twitter:card" content="summary_large_image">'] * bool(pictures)
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def show_excerpts(app, pagename, templatename, context, doctree):
    """What the page of searches alone needs: see :mod:`~companion.pages.excerpts`."""
    if pagename == "search":
        app.add_js_file("search.js")


def tell_excerpts(app, error):
    """Write what a search shows of each page."""
    if error is None:
        titles = {page: title.astext() for page, title in app.env.titles.items()}
        texts = {page: (app.outdir / f"{page}.html").read_text(encoding="utf-8") for page in titles}
        excerpts.write(texts, titles, app.outdir / "_static" / excerpts.FILE)


def lead_to_the_source(app, pagename, templatename, context, doctree):
    """Below a page's heading: links to its folder, to report an error, to edit and to run it, if any.

    Each plot's caption leads to the folder, too.
    """
    if "body" in context and (links := repository.links(pagename, repository.address())):
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{links}", 1)
        context["body"] = repository.marked(context["body"], pagename, repository.address())


def _first_paragraph(doctree):
    found = doctree.findall(nodes.paragraph) if doctree is not None else ()
    return next((" ".join(paragraph.astext().split()) for paragraph in found), "")


def _plain(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def offer_notebooks(app, error):
    """Make the notebooks that pages offer ones that run elsewhere; see :mod:`~companion.pages.download`."""
    if error is None:
        texts = download.Texts(app.env, app.srcdir)
        for path in sorted((app.outdir / "_sources").rglob("*.ipynb")):
            download.rewrite(path, texts)


def offer_pictures(app, error):
    """The pictures that other sites show; see :mod:`~companion.pages.share`."""
    pictures = app.srcdir / share.FOLDER
    if error is None and pictures.is_dir():
        shutil.copytree(pictures, app.outdir / share.FOLDER, dirs_exist_ok=True)


def mend(app, error):
    """Mend what pages lack for keyboards and screen readers; see :mod:`~companion.pages.accessibility`."""
    if error is None:
        for path in app.outdir.rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            better = accessibility.mended(text)
            if better != text:
                path.write_text(better, encoding="utf-8")


def draw_for_dark(app, error):
    """Write the dark twin of every vector figure of the built book."""
    if error is None:
        for path in (app.outdir / "_images").glob("*.svg"):
            if not path.name.endswith(DARK):
                twin = path.with_name(path.stem + DARK)
                if not twin.is_file() or twin.stat().st_mtime < path.stat().st_mtime:
                    twin.write_text(darkened(path.read_text(encoding="utf-8")), encoding="utf-8")
