"""What the book does to a page beyond Jupyter Book."""

import hashlib

from docutils import nodes
from PIL import Image

from alignbook import paths
from companion.pages.extension import PICTURE, fold_audit


def test_the_audit_is_folded_and_nothing_else():
    audit = nodes.section("", nodes.title("", "Audit"), nodes.paragraph("", "Rows."), ids=["audit"])
    other = nodes.section("", nodes.title("", "Try it"), ids=["try-it"])
    fold_audit(None, nodes.section("", other, audit), "page")
    assert [type(child) for child in other] == [nodes.title]
    assert [child.astext() for child in audit][1::2] == ["Audit", "Rows."]
    assert audit[0].astext() == '<details class="ab-audit"><summary>'
    assert audit[2].astext().endswith("</summary>") and audit[4].astext() == "</details>"


def test_the_books_own_picture_is_the_four_papers_as_they_are_drawn_now():
    picture = paths.root() / "book" / "assets" / PICTURE
    image = Image.open(picture)
    assert image.size == (1200, 630)
    source = hashlib.sha256(picture.with_suffix(".svg").read_bytes()).hexdigest()
    assert image.text["Source"] == source, "run scripts/four_papers.py"
