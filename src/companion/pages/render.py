"""Render the pages with Jupyter Book: the whole book, or only the pages that have changed.

``<build>/render`` keeps the pages as they were rendered last (``source``) and what Sphinx remembers of them.
Sphinx renders a page again when its file is newer, so only files whose content has changed are copied there.
Where a change could show on other pages (a heading, a label, a caption, the table of contents, a style), or
where the last build has failed or was killed, everything is rendered from nothing.
"""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from alignbook import paths, system
from companion.pages import executed

MARK = ".made-from"  # a file in the built book: the digest of its pages
EXTENSION = ("extension.py", "style.py", "tables.py")
PAGES = {".md", ".ipynb", ".txt", ".json", ".svg", ".png"}  # any other file renders the whole book
WHOLE = ("glossary.md",)  # its terms are linked on every page
# What Jupyter Book's process imports before it is told what to build; it finds its Sphinx extensions itself.
_IMPORTS = (
    "jupyter_book.cli.main", "sphinx.builders.html", "myst_nb.sphinx_ext", "sphinx_book_theme",
    "sphinx_design", "sphinxcontrib.bibtex", "sphinx.ext.autodoc", "companion.pages.extension",
)  # fmt: skip
_WAIT = f"""\
import importlib, sys
for name in {_IMPORTS}:
    importlib.import_module(name)
told = sys.stdin.read()
if told:
    sys.argv[1:] = told.split(chr(0))
    from jupyter_book.cli.main import main
    sys.exit(main())
"""
_SHOWN = re.compile(  # what other pages show or link to
    r"^(?:\#.*"  # headings
    r"|\(.*\)="  # labels
    r"|\s*:?(?:name|label|caption)\b.*"  # of figures and formulas
    r"|\$\$\s*\(.*"  # formulas with a label
    r"|[`:]{3,}\{.*)$"  # directives
    r"|\{cite[^}]*\}`[^`]*`",  # citations
    re.MULTILINE,
)


class Waiting:
    """Jupyter Book in a process of its own, which imports what it needs while this one does something else.

    ``own`` is the digest of the configuration and of its code, taken before it starts. A context: outside,
    the process has ended.
    """

    def __init__(self):
        self.process = None
        folder = Path(__file__).parent
        files = [paths.root() / "_config.yml", *(folder / name for name in EXTENSION), Path(__file__)]
        self.own = executed.digest_of(*files)

    def start(self):
        """Begin to import."""
        # Its messages quote the pages, whatever the terminal can show.
        told = {"env": os.environ | {"PYTHONIOENCODING": "utf-8"}, "encoding": "utf-8", "errors": "replace"}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen([sys.executable, "-c", _WAIT], **streams, **told)

    def run(self, arguments):
        """(exit status, all that it said) of Jupyter Book called with ``arguments``, once."""
        if not self.process:
            self.start()
        said = self.process.communicate("\0".join(arguments))
        return self.process.returncode, "".join(said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            with self.process:  # closes its streams and waits
                self.process.kill()


def render_changed(pages, progress, waiting):
    """Render the folder ``pages`` into ``<build>/html``, unless that shows them; 0, or 1 on a warning.

    waiting : Waiting
    """
    mark = paths.build() / "html" / MARK
    digest = f"{executed.digest_of(pages)} {waiting.own}"
    if mark.is_file() and mark.read_text(encoding="utf-8") == digest:
        progress("the pages are unchanged")
        return 0
    status = render(pages, [*_shape(pages), waiting.own], waiting)
    if not status:
        mark.write_text(digest, encoding="utf-8")
    return status


def render(pages, shape, waiting):
    """Run Jupyter Book strictly; the new book replaces the old one only if that succeeds.

    shape : what shows on other pages than its own; where it is as it was, only changed pages are rendered
    waiting : Waiting

    The build folder must be locked.
    """
    work = paths.build() / "render"
    made, source = work / "made-of.json", work / "source"
    if not (made.is_file() and made.read_text(encoding="utf-8") == json.dumps(shape)):
        shutil.rmtree(work, ignore_errors=True)
    made.unlink(missing_ok=True)  # a build that fails or is killed leaves nothing to go on from
    source.mkdir(parents=True, exist_ok=True)
    _follow(pages, source)
    status, said = waiting.run(arguments(source, work, paths.root() / "_config.yml"))
    if status and (full := os.strerror(errno.ENOSPC)) in said:
        shutil.rmtree(work, ignore_errors=True)
        raise OSError(errno.ENOSPC, full)
    if status:
        print(without_colour(said), file=sys.stderr)
        shutil.rmtree(work, ignore_errors=True)
        return 1
    _publish(work / "_build" / "html", paths.build() / "html")
    made.write_text(json.dumps(shape), encoding="utf-8")
    return 0


def _shape(pages):
    """[(file, what other pages see of it)] of all files in the folder ``pages``."""
    found = []
    for path in sorted(path for path in pages.rglob("*") if path.is_file()):
        name = path.relative_to(pages).as_posix()
        if path.suffix not in PAGES or name in WHOLE or name.startswith("assets/"):
            found.append([name, executed.digest_of(path)])
        elif path.suffix in (".md", ".ipynb"):
            found.append([name, _SHOWN.findall(_text(path))])
        else:
            found.append([name])
    return found


def _text(path):
    """The text of a page; of a notebook its prose, and what its cells say of their figures."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    prose = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    figures = (f"caption {json.dumps(cell['metadata'].get('mystnb'))}" for cell in cells)
    return "\n".join([*prose, *figures])


def _follow(pages, source):
    """Make the folder ``source`` equal to ``pages``; files whose content is the same keep their time."""
    wanted = {path.relative_to(pages) for path in pages.rglob("*") if path.is_file()}
    for path in [path for path in source.rglob("*") if path.is_file()]:
        if path.relative_to(source) not in wanted:
            path.unlink()
    for name in wanted:
        content, target = (pages / name).read_bytes(), source / name
        if not (target.is_file() and target.read_bytes() == content):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def arguments(source, out, config, strict=True):
    """What Jupyter Book is called with to render the folder ``source``; ``strict``: a warning is an error."""
    places = ["build", str(source), "--path-output", str(out)]
    places += ["--config", str(config), "--toc", str(source / "_toc.yml"), "--quiet"]
    return [*places, *(["-n", "-W", "--keep-going"] if strict else ())]


def _publish(built, book):
    """Put a copy of ``built`` in the place of ``book``."""
    add_mathjax(built)
    fresh = book.with_name("html.new")
    shutil.rmtree(fresh, ignore_errors=True)  # what a build that was killed has left
    try:
        shutil.copytree(built, fresh)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if book.exists():
        system.exchange(fresh, book)
        shutil.rmtree(fresh, ignore_errors=True)
    else:
        os.replace(fresh, book)


def add_mathjax(built):
    """Put the installed MathJax into the book, which must read with the network off."""
    import importlib.metadata

    target = built / "_static" / "mathjax" / "tex-svg.js"
    if not target.is_file():
        files = importlib.metadata.files("sphinx-mathjax-offline") or []
        source = next(file for file in files if file.name == "tex-svg.js")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.locate(), target)


def without_colour(text):
    """``text`` without what sets a terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
