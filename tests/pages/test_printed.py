"""What the reference says that commands print is what they print."""

import os
import re
import shutil
import subprocess
import sys

from alignbook import paths
from companion import cli
from companion.pages import reference

NETWORK = """from torch import nn


def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
"""


def same(text):
    """``text`` with what differs from run to run left open, and its lines in order: jobs end in any."""
    varies = r"\d+(\.\d+)? s\b|about .*|[\d.]+ core hours"
    return sorted(re.sub(varies, "…", line.rstrip()) for line in text.splitlines())


def test_commands_print_what_the_reference_shows(tmp_path):
    (tmp_path / "mynetwork.py").write_text(NETWORK)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(paths.root() / "src")]),
        "ALIGNBOOK_ROOT": str(paths.root()),
        "ALIGNBOOK_RESULTS": str(tmp_path / "data" / "results"),
        "ALIGNBOOK_DATA": str(tmp_path / "data"),
        "ALIGNBOOK_BUILD": str(tmp_path / "_build"),
    }
    study = paths.root() / "notebooks" / "random_labels" / "fig01_transfer" / "notebook.md"
    checkout = tmp_path / "checkout"  # to write into
    copied = checkout / study.relative_to(paths.root())
    copied.parent.mkdir(parents=True)
    shutil.copy(study, copied)
    page = reference.commands()
    kept = reference.kept()
    assert {line.split()[0] for line, _ in kept} >= {"run", "status", "probe", "decide", "new"}
    for line, shown in kept:
        if line.startswith("compare"):
            shutil.copytree(tmp_path / "data" / "results", tmp_path / "my-results")
        command = [sys.executable, "-m", "alignbook.cli", *line.split()]
        whole = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        where = {"cwd": tmp_path, "env": environment}
        if line.startswith("new"):
            where = {"cwd": checkout, "env": environment | {"ALIGNBOOK_ROOT": str(checkout)}}
        said = subprocess.run(command, check=True, **where, **whole).stdout
        said = said.replace(f"{tmp_path}{os.sep}", "")
        if "…" in shown.splitlines():
            assert set(same(shown.replace("…", ""))) - {""} <= set(same(said)), line
        else:
            assert same(shown) == same(said), line
        assert f"`{line}` prints" in page and shown.rstrip() in page


def test_every_command_that_is_shown_is_one():
    parser = cli._parser()
    assert all(parser.parse_args(line.split()).action for line, _ in reference.kept())
