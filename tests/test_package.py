"""What the package says of itself: licence, citation, version, the same everywhere."""

import re
import tomllib

import yaml

import alignbook
from alignbook import paths

PROJECT = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]


def test_the_licence_is_named_and_there():
    text = (paths.root() / "LICENSE").read_text()
    assert PROJECT["license"] == "BSD-3-Clause" and text.startswith("BSD 3-Clause License")
    assert PROJECT["authors"] == [{"name": "The alignbook authors"}] and "The alignbook authors" in text


def test_the_citation_names_this_version_and_the_papers():
    citation = yaml.safe_load((paths.root() / "CITATION.cff").read_text())
    assert citation["version"] == alignbook.__version__ and citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    titles = {reference["title"] for reference in citation["references"]}
    printed = (paths.root() / "book" / "bibliography.bib").read_text()
    assert titles <= set(re.findall(r"title += \{(.*)\}", printed)) and len(titles) == 4


def test_what_is_changed_stands_under_this_version():
    assert f"## {alignbook.__version__}" in (paths.root() / "CHANGELOG.md").read_text()
