"""The notebooks of the book: their names, titles, experiments and readings.

A study has a folder of its own, ``notebooks/<paper>/<slug>/``, see :mod:`companion.studies`.
"""

import ast
import difflib
import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alignbook import paths
from alignbook.errors import AlignbookError, fault, on_one_line
from companion.runs.parameters import UNREADABLE, read, read_yaml

SOURCE = "notebook.md"
OWN = "synthesis"  # the chapter that has no paper: what it asks and claims is ours


@dataclass(frozen=True)
class Notebook:
    """One figure, table or theorem. ``name`` is ``<paper>/<slug>``; ``source`` its MyST text, a Path."""

    name: str
    source: Path

    @property
    def paper(self):
        return self.name.split("/")[0]

    @property
    def slug(self):
        return self.name.split("/")[1]

    @property
    def text(self):
        """The source. Raises AlignbookError where it cannot be read or is no UTF-8."""
        try:
            return self.source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AlignbookError(f"cannot read {paths.shown(self.source)}: {on_one_line(error)}") from None

    @property
    def title(self):
        """The first heading of the notebook."""
        match = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return match.group(1) if match else self.slug

    @property
    def label(self):
        """What it reproduces, as the paper numbers it, e.g. ``Maennel Fig. 2``."""
        return self.front.get("figure", self.slug)

    @property
    def front(self):
        """The front matter's ``alignbook``, a dict.

        figure : what the notebook reproduces, as the paper numbers it; claim : what the paper claims
        parts : {id: a few words} of the statements that make up the claim, where it is not one statement
        data : what of the paper's data stands here, where it is not all
        paper_page : the page of the paper's PDF that shows the figure, where it is known
        finding, caveat, stands_on, key_numbers : see :mod:`companion.findings`
        """
        return _front(self.text)

    @property
    def claim(self):
        """What the paper claims, or in the chapter ``OWN`` what we ask, one line."""
        if "claim" not in self.front:
            where = paths.shown(self.source)
            raise AlignbookError(f"{where}: no claim in its front matter (alignbook: claim: …)")
        return str(self.front["claim"])

    @property
    def folder(self):
        """The study's own folder, a Path."""
        return self.source.parent

    @property
    def experiment(self):
        """The module that computes, imported on first use.

        Raises AlignbookError where it is missing or cannot be imported.
        """
        return self._module("experiment")

    @property
    def reading(self):
        """The module that judges and words what is stored; otherwise as ``experiment``."""
        return self._module("reading")

    def _module(self, part):
        try:
            return importlib.import_module(f"companion.studies.{self.paper}.{self.slug}.{part}")
        except (Exception, SystemExit) as error:
            file = paths.shown(self.folder / f"{part}.py")
            raise AlignbookError(f"{self.name}: cannot import {file}: {fault(error)}") from error


@cache
def _front(text):
    try:
        return dict(read_yaml(text.removeprefix("---").split("\n---", 1)[0])["alignbook"])
    except UNREADABLE:
        return {}


def every():
    """All notebooks, sorted by name."""
    folder = paths.root() / "notebooks"
    found = {f"{source.parts[-3]}/{source.parts[-2]}": source for source in folder.glob(f"*/*/{SOURCE}")}
    if not found:
        raise AlignbookError(f"no notebooks in {paths.shown(folder)}: ALIGNBOOK_ROOT must be a checkout")
    return [Notebook(name, source) for name, source in sorted(found.items())]


def find(name):
    """The notebook called ``name``, or the only one whose name starts with it.

    Raises AlignbookError with the nearest name when there is none, or with all when several match.
    """
    if not isinstance(name, str):
        raise AlignbookError(f"a notebook's name is a text, not {name!r}")
    source = paths.root() / "notebooks" / name / SOURCE
    if re.fullmatch(r"\w+/\w+", name) and source.is_file():
        return Notebook(name, source)
    books = {notebook.name: notebook for notebook in every()}
    matches = [known for known in books if known.startswith(name) or known.split("/")[1].startswith(name)]
    if name and len(matches) == 1:
        return books[matches[0]]
    if name and matches:
        raise AlignbookError(f"notebook {name!r} is ambiguous: {', '.join(matches)}")
    near = difflib.get_close_matches(name, books, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else "; see: alignbook list"
    raise AlignbookError(f"no notebook {name!r}{hint}")


def parameters(name, namespace):
    """The values that notebook ``name`` has in its ``namespace``, the ``globals()`` of its cells.

    Of every parameter, and of every name that papermill has injected, whether a parameter has it or not.
    Raises AlignbookError where the parameters cell has not run.
    """
    names = [*read(find(name))]
    for cell in namespace.get("In", ()):
        if cell.startswith("# Parameters\n"):  # papermill's
            names += [node.targets[0].id for node in ast.parse(cell).body]
    if missing := [each for each in names if each not in namespace]:
        raise AlignbookError(f"{name}: no value for {', '.join(missing)}; run the parameters cell first")
    return {each: namespace[each] for each in names}


_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)?\n?", re.MULTILINE | re.DOTALL)


def cells(notebook):
    """Sources of the code cells of ``notebook``, in order."""
    return [_OPTIONS.sub("", cell).rstrip() for cell in _CELL.findall(notebook.text)]


def cell_starts(notebook):
    """The line of the source, from 1, at which the code of each code cell begins."""
    text = notebook.text
    begins = [cell.start(1) + _OPTIONS.match(cell[1]).end() for cell in _CELL.finditer(text)]
    return [text.count("\n", 0, place) + 1 for place in begins]
