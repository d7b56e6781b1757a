"""What the package says of itself: citation, version, types, the same everywhere."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import alignbook
from alignbook import paths

PROJECT = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]


def test_the_citation_names_this_version_and_the_papers():
    citation = yaml.safe_load((paths.root() / "CITATION.cff").read_text())
    assert citation["version"] == released()
    assert citation["license"] == PROJECT["license"] == "BSD-3-Clause"
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    titles = {reference["title"] for reference in citation["references"]}
    printed = (paths.root() / "book" / "bibliography.bib").read_text()
    assert titles <= set(re.findall(r"title += \{(.*)\}", printed)) and len(titles) == 4
    addresses = {reference["url"] for reference in citation["references"]}
    assert addresses <= set(re.findall(r"url += \{(.*)\}", printed)) and len(addresses) == 4


def released():
    """This version, or under development the last one that the changelog has a date of."""
    if "dev" not in alignbook.__version__:
        return alignbook.__version__
    text = (paths.root() / "CHANGELOG.md").read_text()
    return re.search(r"^## (\S+) \([0-9-]+\)$", text, re.MULTILINE)[1]


def test_what_is_changed_stands_under_this_version():
    version, text = alignbook.__version__, (paths.root() / "CHANGELOG.md").read_text()
    heading = "Unreleased" if "dev" in version else version
    assert re.findall("^## (.*)$", text, re.MULTILINE)[0].split()[0] == heading
    numbers = [[*map(int, v.split(".")[:3])] for v in (version, released())]
    assert numbers[0] > numbers[1] if "dev" in version else numbers[0] == numbers[1]


def test_every_public_name_is_imported_for_those_who_check_types():
    tree = ast.parse((paths.root() / "src" / "alignbook" / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    modules = {alias.name: node.module for node in imports for alias in node.names}
    assert {name: modules.get(name) for name in alignbook.PUBLIC} == alignbook.PUBLIC


def test_the_types_of_the_public_face_pass_mypy_and_find_a_fault(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "good.py").write_text(
        "import torch, alignbook\n"
        "net = torch.nn.Linear(4, 2)\n"
        "found: alignbook.Probe = alignbook.probe(net, torch.ones(20, 4), torch.arange(20) % 2)\n"
        "page: str = alignbook.compare(found, other=found).to_html()\n"
        "recorder = alignbook.Recorder((torch.ones(20, 4), torch.arange(20) % 2))\n"
        "recorder.step(net, 0)\n"
    )
    (tmp_path / "bad.py").write_text(
        "import torch, alignbook\nalignbook.probe(torch.nn.Linear(4, 2), 1, minute=3)\n"
    )
    source = paths.root() / "src"
    mypy = [sys.executable, "-m", "mypy", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}"]
    mypy += ["--disallow-untyped-calls"]  # each that is called in good.py has types
    environment = os.environ | {"MYPYPATH": str(source)}

    def checked(*arguments):
        told = subprocess.run(
            [*mypy, *map(str, arguments)], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        return told.returncode, told.stdout

    assert checked("good.py")[0] == 0
    status, told = checked("bad.py")
    assert status == 1 and 'Unexpected keyword argument "minute"' in told


def test_every_file_that_the_guides_name_is_there():
    guides = [*paths.root().glob("*.md"), *(paths.root() / "book").rglob("*.md")]
    place = re.compile(r"(?<![\w./])(?:notebooks|src|tests|scripts|book)/[\w./-]+\w")
    named = {name for guide in guides for name in place.findall(guide.read_text())}
    assert len(named) > 8
    missing = {name for name in named if not (paths.root() / name).exists()}
    assert all(name.endswith("_something") for name in missing)  # a study that a reader may make
