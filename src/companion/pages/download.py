"""The notebook that a page offers: it says how to install alignbook, with plain text for the book's roles."""

import re

import nbformat
from pybtex.database import parse_file

from companion.pages import share

INTRODUCTION = """\
This notebook is a page of *alignbook*. It needs the project's source, which no package registry has: clone
the repository, and where `alignbook` cannot be imported, the next cell installs it from that folder
(in a terminal: `pip install -e '.[book]'`). The stored results lie in the clone, so nothing is computed
again unless you change a parameter."""
INSTALL = """\
import importlib.util

SOURCE = "alignbook"  # the folder of your clone
if importlib.util.find_spec("alignbook") is None:
    %pip install --quiet --editable {SOURCE}[book]"""

_ROLE = re.compile(r"\{(?P<role>[a-z:]+)\}`(?P<text>[^`]+)`")
_TARGET = re.compile(r"^(?P<title>.*?)\s*<(?P<target>[^<>]+)>$", re.DOTALL)
_FOLD = re.compile(r"^:{3,}\{dropdown\} *(.*)\n(?::[\w-]+:.*\n)*", re.MULTILINE)
_END = re.compile(r"^:{3,}$\n?", re.MULTILINE)
_LABEL = re.compile(r"^\([\w-]+\)=\n", re.MULTILINE)


class Texts:
    """What the book's citations and references stand for, as plain text.

    env : the Sphinx build environment; sources : the folder of the pages, with the bibliography
    """

    def __init__(self, env, sources):
        domain = env.get_domain("std")
        self.titles = {label: title for label, (_, _, title) in domain.labels.items()}
        self.pages = {label: page for label, (page, _) in domain.anonlabels.items()}
        self.numbers = {
            (page, name): number
            for page, by_kind in env.toc_fignumbers.items()
            for name, number in by_kind.get("figure", {}).items()
        }
        self.entries = parse_file(str(sources / "bibliography.bib")).entries

    def plain(self, role, text):
        """The text in place of ``{role}`text` ``; None where the role is none of the book's references."""
        if role.startswith("cite"):
            cited = [self._cited(key.strip()) for key in text.split(",")]
            if role in ("cite:t", "cite:ts", "cite:ct"):
                return " and ".join(f"{authors} ({year})" for authors, year in cited)
            return f"({'; '.join(f'{authors}, {year}' for authors, year in cited)})"
        given = _TARGET.match(text)
        target = given["target"] if given else text
        if role == "numref":
            number = self.numbers.get((self.pages.get(target), target), ())
            return f"Plot {'.'.join(map(str, number))}" + self._place(target)
        if role in ("ref", "doc"):
            title = given["title"] if given else self.titles.get(target, target)
            return f"*{title}*" + self._place(target)
        return None

    def _place(self, target):
        page = self.pages.get(target)
        return f" (page `{page}`)" if page else ""

    def _cited(self, key):
        entry = self.entries[key]
        names = [" ".join(person.prelast_names + person.last_names) for person in entry.persons["author"]]
        first = names[0].strip("{}")
        others = {1: "", 2: f" and {names[-1]}"}.get(len(names), " et al.")
        return first + others, entry.fields["year"]


def rewrite(path, texts):
    """Rewrite the notebook in the file ``path`` for a reader's machine, unless that has been done."""
    notebook = nbformat.read(path, as_version=4)
    if notebook.cells and notebook.cells[0].get("id") == "alignbook-source":
        return
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(share.PNG, None)  # for links to the page alone
        if cell.cell_type == "markdown":
            source = _ROLE.sub(lambda found: _plain(found, texts), cell.source)
            cell.source = _LABEL.sub("", _END.sub("", _FOLD.sub(r"**\1**\n\n", source)))
    ids = {"id": "alignbook-source"}, {"id": "alignbook-install"}
    notebook.cells[:0] = [
        nbformat.v4.new_markdown_cell(INTRODUCTION, **ids[0]),
        nbformat.v4.new_code_cell(INSTALL, **ids[1]),
    ]
    nbformat.write(notebook, path)


def _plain(found, texts):
    return texts.plain(found["role"], found["text"]) or found[0]
