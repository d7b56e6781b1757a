"""Files: whole or not at all."""

import os

import pytest

from alignbook import system


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
