import os
from pathlib import Path

import pytest

from companion.pages import render

PAGE = "# Page\n\n(label)=\n## Part\n\nProse.\n"


class Book(render.Waiting):
    """Jupyter Book's place: it notes what it is given, and writes what a page says."""

    def __init__(self, work):
        super().__init__()
        self.work, self.status, self.newer, self.fresh = work, 0, None, None

    def run(self, arguments):
        source, work = Path(arguments[1]), Path(arguments[3])
        html = work / "_build" / "html"
        self.fresh = not html.is_dir()
        (html / "_static" / "mathjax").mkdir(parents=True, exist_ok=True)
        (html / "_static" / "mathjax" / "tex-svg.js").write_text("")
        files = [path for path in source.rglob("*") if path.is_file()]
        self.newer = {path.name for path in files if path.stat().st_mtime_ns != 1}
        for path in files:
            os.utime(path, ns=(1, 1))
            (html / path.name).write_text(path.read_text())
        return self.status, ""


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path / "build"))
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("one.md", "two.md"):
        (pages / name).write_text(PAGE)
    (pages / "found.txt").write_text("Found.")
    made = Book(tmp_path)
    made.pages, made.html = pages, tmp_path / "build" / "html"
    made.build = lambda: render.render_changed(pages, lambda said: None, made)
    assert made.build() == 0 and made.fresh
    return made


def test_only_a_changed_page_is_rendered_and_nothing_where_all_is_as_it_was(book):
    book.newer = None
    assert book.build() == 0 and book.newer is None
    (book.pages / "one.md").write_text(PAGE.replace("Prose", "More prose"))
    (book.pages / "found.txt").write_text("Found more.")
    assert book.build() == 0 and not book.fresh and book.newer == {"one.md", "found.txt"}
    assert "More prose" in (book.html / "one.md").read_text()


@pytest.mark.parametrize("change", ["# Title", "(other)=", "{cite}`someone`", "$$ (formula)", ":name: plot"])
def test_what_other_pages_show_renders_the_whole_book(book, change):
    (book.pages / "one.md").write_text(f"{PAGE}\n{change}\n")
    assert book.build() == 0 and book.fresh


def test_a_style_a_new_page_and_one_that_is_gone_render_the_whole_book(book):
    for change in (
        lambda: (book.pages / "three.md").write_text(PAGE),
        lambda: (book.pages / "book.css").write_text("p {}"),
        lambda: (book.pages / "book.css").write_text("p { }"),
        lambda: (book.pages / "three.md").unlink(),
    ):
        change()
        assert book.build() == 0 and book.fresh
    assert not (book.html / "three.md").exists()


def test_a_warning_keeps_the_last_book_and_the_next_build_begins_anew(book):
    (book.pages / "one.md").write_text(PAGE.replace("Prose", "Faulty prose"))
    book.status = 1
    assert book.build() == 1 and not book.fresh
    assert "Faulty" not in (book.html / "one.md").read_text()
    book.status = 0
    assert book.build() == 0 and book.fresh


def test_what_a_killed_build_left_is_not_gone_on_from(book, monkeypatch):
    (book.pages / "one.md").write_text(PAGE.replace("Prose", "More prose"))
    (book.html.with_name("html.new")).mkdir()

    def killed(arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(book, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            book.build()
    assert book.build() == 0 and book.fresh and not book.html.with_name("html.new").exists()
