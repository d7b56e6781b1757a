"""The page that says how to cite the book, under which licence it stands, its version and its changelog."""

import re

import yaml

import alignbook
from alignbook import paths


def page():
    """MyST of the page, from the files in the checkout's root that say so; what is missing is left out."""
    parts = ["# About this book", "", f"This is version {alignbook.__version__} of alignbook.", ""]
    citation, licence, changes = (_read(name) for name in ("CITATION.cff", "LICENSE", "CHANGELOG.md"))
    if citation:
        parts += ["## How to cite", "", *_citation(yaml.safe_load(citation)), ""]
    if licence:
        parts += ["## Licence", "", "```{code-block} text\n:class: ab-licence", licence.strip(), "```", ""]
    if changes:
        below = re.sub(r"^#", "##", changes.split("\n", 1)[1].strip(), flags=re.MULTILINE)
        parts += ["## Changelog", "", below, ""]
    return "\n".join(parts)


def _citation(said):
    """The sentence and the entry for a bibliography that ``CITATION.cff`` has."""
    names = " and ".join(
        one.get("name") or f"{one['given-names']} {one['family-names']}" for one in said["authors"]
    )
    entry = [
        "```{code-block} bibtex",
        ":class: ab-citation",
        "@software{alignbook,",
        f"  title = {{{said['title']}}},",
    ]
    entry += [f"  author = {{{{{names}}}}},", f"  version = {{{said['version']}}},"]
    return [
        said["message"],
        _versions(said["version"]),
        "",
        *entry,
        "}",
        "```",
        "",
        "The papers themselves are listed in the [](references).",
    ]


def _versions(cited):
    """Which version the entry names, and where a page says by which code its numbers were made."""
    which = "this version" if cited == alignbook.__version__ else f"version {cited}, the last release"
    return (
        f"The entry names {which}. At the end of each study's page, *Provenance* names the commits that "
        "computed its numbers."
    )


def _read(name):
    path = paths.root() / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""
