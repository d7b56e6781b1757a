"""The pictures that other sites show beside links to pages."""

import base64
import hashlib
import io
import json
import re
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
from PIL import Image

from alignbook import paths
from companion.pages import download, share
from companion.pages.extension import describe


def test_a_figure_of_any_shape_fits_the_picture_and_is_the_same_when_drawn_again():
    def drawn(*inches):
        figure, ax = plt.subplots(figsize=inches)
        ax.plot([0, 1])
        picture = share.png(figure)
        plt.close(figure)
        return picture

    for inches in ((7, 2), (3, 7)):
        picture = drawn(*inches)
        assert picture == drawn(*inches) and len(picture) < 40_000
        image = Image.open(io.BytesIO(picture)).convert("L")
        assert image.size == (1200, 630)
        left, top, right, bottom = image.point(lambda grey: 255 * (grey < 128)).getbbox()
        assert left >= share.MARGIN and right <= 1200 - share.MARGIN
        assert top >= share.MARGIN and bottom <= 630 - share.MARGIN
        assert right - left > 900 or bottom - top > 500


def test_a_pages_first_figure_is_its_picture_and_its_chapters_but_not_in_the_download(tmp_path):
    draw = share.of_first(lambda figure: f"picture of {figure}".encode())
    assert (draw("one"), draw("two")) == (b"picture of one", None)
    for name, picture in (("paper/a", None), ("paper/b", b"one"), ("paper/c", b"two")):
        data = {"image/svg+xml": "<svg/>"} | (
            {"image/png": base64.b64encode(picture).decode()} if picture else {}
        )
        output = nbformat.v4.new_output("display_data", data)
        path = tmp_path / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(
            nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])]), path
        )
    records = [SimpleNamespace(name=f"paper/{slug}", paper="paper") for slug in "abc"]
    assert share.write(records, tmp_path) == {
        "index": "share/four-papers.png",
        "paper/b": "share/paper/b.png", "paper/index": "share/paper/b.png", "paper/c": "share/paper/c.png",
    }  # fmt: skip
    assert (tmp_path / "share/paper/c.png").read_bytes() == b"two"
    assert (tmp_path / "share/four-papers.png").is_file()
    download.rewrite(path, None)
    assert "image/svg+xml" in path.read_text() and "image/png" not in path.read_text()


def test_the_pictures_address_is_whole_where_the_books_is_known(tmp_path):
    pictures = {"index": "share/four-papers.png", "a/b": "share/a/b.png", "c": "share/c.png"}

    def image(page, base):
        app = SimpleNamespace(srcdir=tmp_path, config=SimpleNamespace(html_baseurl=base))
        shown = {"description": {page: "Says."}, "picture": pictures}
        (tmp_path / "shown.json").write_text(json.dumps(shown))
        context = {"title": "T", "pathto": lambda place, _: f"../{place}"}
        describe(app, page, "page.html", context, None)
        return re.search(r'property="og:image" content="([^"]*)"', context["metatags"])[1]

    assert image("c", "") == "../share/c.png"
    assert image("c", "https://example.org/book/") == "https://example.org/book/share/c.png"
    assert image("about", "https://example.org/book") == "https://example.org/book/share/four-papers.png"


def test_the_books_own_picture_is_the_four_papers_as_they_are_drawn_now():
    drawn = paths.root() / "book" / "assets" / share.FOUR
    image = Image.open(drawn)
    assert image.size == share.SIZE
    source = hashlib.sha256(drawn.with_suffix(".svg").read_bytes()).hexdigest()
    assert image.text["Source"] == source, "run scripts/four_papers.py"
