"""Files and folders: swapped at once, cleared after a kill."""

import ctypes
import os

import pytest

from alignbook import system


def folders(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page").write_text(name)
    return tmp_path / "new", tmp_path / "old"


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        for content in (b"one", b"two"):
            system.replace(tmp_path / "file", content)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"two" and (tmp_path / "file").stat().st_mode & 0o777 == mode
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("at_once", [True, False])
def test_folders_change_places(tmp_path, monkeypatch, at_once):
    new, old = folders(tmp_path)
    if not at_once:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    elif not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("the C library has no renameat2")
    replace, used = os.replace, []
    monkeypatch.setattr(os, "replace", lambda *pair: (used.append(pair), replace(*pair)))
    system.exchange(new, old)
    assert (old / "page").read_text() == "new" and (new / "page").read_text() == "old"
    assert len(used) == (0 if at_once else 3) and sorted(p.name for p in tmp_path.iterdir()) == ["new", "old"]


def test_what_is_not_there_is_an_error(tmp_path):
    new, old = folders(tmp_path)
    with pytest.raises(FileNotFoundError):
        system.exchange(new, tmp_path / "nothing")
    assert (new / "page").read_text() == "new"
