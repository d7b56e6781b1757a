"""What provenance says of the code."""

import subprocess

import pytest

from companion.runs import results


@pytest.mark.parametrize(
    ("file", "mark"),
    [("src/alignbook/x.py", "+changes"), ("notebooks/toy/fig99_toy/x.py", "+changes"), ("README.md", "")],
)
def test_the_commit_says_whether_sources_or_studies_differ_from_it(tmp_path, monkeypatch, file, mark):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        told = {"check": True, "capture_output": True, "text": True}
        return subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], **told).stdout.strip()

    def commit():
        results.commit.cache_clear()
        return results.commit()

    monkeypatch.setenv("ALIGNBOOK_ROOT", str(tmp_path))
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "empty")
    head = git("rev-parse", "--short=12", "HEAD")
    assert commit() == head
    changed = tmp_path / file
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text("x = 1\n")
    assert commit() == head + mark
    results.commit.cache_clear()


@pytest.mark.slow
def test_sources_edited_in_a_session_are_read_anew(checkout):
    code = """
from pathlib import Path
import companion

first = companion.run("fig99")
source = Path("notebooks/toy/fig99_toy/experiment.py")
source.write_text(source.read_text().replace("* rate", "* rate * 2"))
again = companion.run("fig99", recompute="stale")
pairs = zip(again.stored, first.stored, strict=True)
print(len(first.stale), [float(a.table.value[0] / b.table.value[0]) for a, b in pairs])
"""
    done = checkout.fresh(code=code)  # whose workers are spawned
    assert done.stdout == "3 [2.0, 2.0, 2.0]\n", done.stderr
