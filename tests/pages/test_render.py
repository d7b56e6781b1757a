"""A book that could not be rendered."""

import pytest

from companion.pages import render


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path / "build"))
    full = "OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(render, "jupyter_book", lambda *_, **__: (1, full))
    with pytest.raises(OSError, match="No space left on device"):
        render.render(tmp_path / "pages")
