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
from alignbook.errors import AlignbookError, fault
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
        where = paths.shown(self.source)
        try:
            content = self.source.read_bytes()
            return content.decode("utf-8").replace("\r\n", "\n")
        except OSError as error:
            raise AlignbookError(f"cannot read {where}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
            raise AlignbookError(f"{where}, line {line}: byte 0x{byte:02x} is no UTF-8") from None

    @property
    def title(self):
        """The first heading of the notebook."""
        match = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return match.group(1) if match else self.slug

    @property
    def label(self):
        """What it reproduces, as the paper numbers it, e.g. ``Maennel Fig. 2``.

        ``alignbook: figure:`` of the front matter; in older notebooks the first part of the title.
        """
        return self.field("figure") or self.title.split(" · ")[0]

    @property
    def subject(self):
        """The title, without the figure's number where that stands in it."""
        return self.title if self.field("figure") else self.title.split(" · ")[-1]

    @property
    def front(self):
        """The front matter's ``alignbook``, a dict."""
        front = _front(self.text)
        return front if isinstance(front, dict) else {}

    @property
    def claim(self):
        """What the paper claims, one line: the field ``alignbook: claim:`` of the notebook's front matter.

        In the chapter ``OWN``: what we ask.
        """
        if "claim" not in self.front:
            where = paths.shown(self.source)
            raise AlignbookError(f"{where}: no claim in its front matter (alignbook: claim: …)")
        return str(self.front["claim"])

    @property
    def parts(self):
        """{id: a few words} of the statements that make up ``claim``, the headline's among them.

        ``alignbook: parts:`` of the front matter; empty where the claim is one statement. Raises
        AlignbookError where it is no such mapping.
        """
        parts = self.field("parts") or {}
        if not isinstance(parts, dict) or not all(isinstance(words, str) for words in parts.values()):
            raise AlignbookError(f"{paths.shown(self.source)}: parts must be a mapping, {{id: a few words}}")
        return parts

    @property
    def data(self):
        """What of the paper's data stands here, where it is not all, or None.

        ``alignbook: data:`` of the front matter.
        """
        return self.field("data")

    @property
    def settings(self):
        """{profile: what its settings are}, where they are neither all the paper's nor merely smaller.

        ``alignbook: settings:`` of the front matter.
        """
        return self.field("settings") or {}

    @property
    def paper_page(self):
        """The page of the paper's PDF that shows what this reproduces, or None where it is not known.

        ``alignbook: paper_page:`` of the front matter.
        """
        return self.field("paper_page")

    def field(self, name):
        """A field of the front matter's ``alignbook``, or None."""
        return self.front.get(name)

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

    @property
    def modules(self):
        """The study's own modules, without those that it shares."""
        return [self.experiment, self.reading]

    def _module(self, part):
        module = f"companion.studies.{self.paper}.{self.slug}.{part}"
        try:
            return importlib.import_module(module)
        except (Exception, SystemExit) as error:
            file = self.folder / f"{part}.py"
            absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
            if absent and not file.exists():  # else a module of the study's name hides it
                raise AlignbookError(f"{self.name} has no {part} {paths.shown(file)}") from None
            raise AlignbookError(f"{self.name}: its {part} cannot be imported: {fault(error)}") from error


@cache
def _front(text):
    try:
        return read_yaml(text.removeprefix("---").split("\n---", 1)[0], plain=True)["alignbook"]
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
    books = {notebook.name: notebook for notebook in every()}
    if name in books:
        return books[name]
    matches = [known for known in books if known.startswith(name) or known.split("/")[1].startswith(name)]
    if name and len(matches) == 1:
        return books[matches[0]]
    if name and matches:
        raise AlignbookError(f"notebook {name!r} is ambiguous: {', '.join(matches)}")
    near = difflib.get_close_matches(name, books, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else "; see: alignbook list"
    raise AlignbookError(f"no notebook {name!r}{hint}")


def parameters(name, namespace):
    """The values that the cells of notebook ``name`` give its parameters.

    Parameters
    ----------
    name : str
        As :func:`find` takes it.
    namespace : dict
        The notebook's ``globals()``.

    Returns
    -------
    dict
        Every parameter, and every name that papermill has injected, whether a parameter has it or not.

    Raises
    ------
    AlignbookError
        Where the parameters cell has not run.
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
