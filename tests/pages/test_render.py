"""The new book replaces the old one only where it was built without a warning."""

import pytest

from companion.pages import render


@pytest.fixture
def jupyter_book(tmp_path, monkeypatch):
    """Jupyter Book's place: it copies the pages, and ends with the status that it is given."""
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(render, "add_mathjax", lambda built: None)

    def build(text, status=0, output=""):
        def copied(source, out, config, strict):
            built = out / "_build" / "html"
            built.mkdir(parents=True)
            (built / "page.html").write_text(text)
            return status, output

        monkeypatch.setattr(render, "jupyter_book", copied)
        return render.render(tmp_path / "pages")

    build.page = tmp_path / "build" / "html" / "page.html"
    return build


def test_a_warning_keeps_the_last_book_and_nothing_is_left_beside_it(jupyter_book, capsys):
    assert jupyter_book("one") == 0 and jupyter_book.page.read_text() == "one"
    assert jupyter_book("two", 1, "\x1b[31mWARNING: nowhere\x1b[0m") == 1
    assert jupyter_book.page.read_text() == "one" and capsys.readouterr().err == "WARNING: nowhere\n"
    assert jupyter_book("three") == 0 and jupyter_book.page.read_text() == "three"
    assert [path.name for path in jupyter_book.page.parents[1].iterdir()] == ["html"]


def test_a_full_disk_is_named(jupyter_book):
    with pytest.raises(OSError, match="No space left on device"):
        jupyter_book("one", 1, "OSError: [Errno 28] No space left on device")
