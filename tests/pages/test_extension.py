"""What the book does to a page beyond Jupyter Book."""

import hashlib
from types import SimpleNamespace

import pytest
from docutils import nodes
from PIL import Image

from alignbook import paths
from companion.pages.extension import (
    PICTURE,
    describe,
    fold_audit,
    keep_punctuation,
    keep_signs,
    mark_colour_maps,
)


def test_brackets_and_punctuation_stay_with_their_formula():
    formula = '<span class="math notranslate nohighlight">\\(a &lt; b\\)</span>'
    context = {"body": f"<p>If {formula}, all of {formula} holds ({formula}).</p>"}
    keep_punctuation(None, "page", "page.html", context, None)
    opening = '<span class="ab-formula">'
    first, last = f"{opening}{formula},</span>", f"{opening}({formula}).</span>"
    assert context["body"] == f"<p>If {first} all of {formula} holds {last}</p>"


def test_a_number_keeps_its_sign_in_the_line():
    paragraph = nodes.paragraph("", "90 % of ", nodes.literal("", "5 % 2"), nodes.Text(", 3 ± 1"))
    keep_signs(None, paragraph, "page")
    assert paragraph.astext() == "90\u00a0% of 5 % 2, 3 ±\u00a01"


def test_the_audit_is_folded_and_nothing_else():
    audit = nodes.section("", nodes.title("", "Audit"), nodes.paragraph("", "Rows."), ids=["audit"])
    other = nodes.section("", nodes.title("", "Try it"), ids=["try-it"])
    fold_audit(None, nodes.section("", other, audit), "page")
    assert [type(child) for child in other] == [nodes.title]
    assert [child.astext() for child in audit][1::2] == ["Audit", "Rows."]
    assert audit[0].astext() == '<details class="ab-audit"><summary>'
    assert audit[2].astext().endswith("</summary>") and audit[4].astext() == "</details>"


def test_figures_with_photographs_or_colour_maps_are_marked(tmp_path):
    (tmp_path / "lines.svg").write_text("<svg><path/></svg>")
    (tmp_path / "photo.svg").write_text('<svg><image href="data:"/></svg>')
    images = {name: (set(), name) for name in ("lines.svg", "photo.svg")}
    app = SimpleNamespace(srcdir=tmp_path, env=SimpleNamespace(images=images))
    context = {"body": '<img alt="a" src="../_images/lines.svg"><img alt="b" src="../_images/photo.svg">'}
    mark_colour_maps(app, "page", "page.html", context, None)
    assert context["body"] == (
        '<img alt="a" src="../_images/lines.svg"><img data-colours alt="b" src="../_images/photo.svg">'
    )


@pytest.mark.parametrize("base", ["", "https://example.org/book/"])
def test_a_page_says_in_its_head_what_was_found_and_has_the_books_picture(tmp_path, base):
    app = SimpleNamespace(srcdir=tmp_path, config=SimpleNamespace(html_baseurl=base))
    (tmp_path / "shown.json").write_text('{"a/b": "It <rises>."}')
    context = {"title": "<em>T</em> &amp; U", "pathto": lambda place, resource: f"../{place}"}
    describe(app, "a/b", "page.html", context, None)
    assert '<meta name="description" content="It &lt;rises&gt;.">' in context["metatags"]
    assert '"og:title" content="T &amp; U"' in context["metatags"]
    assert f'"og:image" content="{base or "../"}_static/four-papers.png"' in context["metatags"]
    described = {"title": "T", "pathto": context["pathto"]}
    describe(app, "c", "page.html", described, nodes.paragraph("", "word " * 100))
    assert 'content="word word' in described["metatags"] and "word …" in described["metatags"]


def test_the_books_own_picture_is_the_four_papers_as_they_are_drawn_now():
    picture = paths.root() / "book" / "assets" / PICTURE
    image = Image.open(picture)
    assert image.size == (1200, 630)
    source = hashlib.sha256(picture.with_suffix(".svg").read_bytes()).hexdigest()
    assert image.text["Source"] == source, "run scripts/four_papers.py"
