"""Execute the notebooks and build the book.

What is stored is judged first (:mod:`companion.records`), and what is missing is computed. Each notebook then
runs through papermill into a file that takes its place only when every cell has run; Jupyter Book renders the
executed notebooks without executing anything. The book replaces the last one only when it was built without a
warning.
"""

import hashlib
import itertools
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from alignbook import paths, system
from alignbook.errors import AlignbookError, logged, on_one_line
from companion import records
from companion.pages import contents, glance, render
from companion.runs import notebooks, parameters
from companion.runs.pool import WORKER_ENVIRONMENT, open_workers
from companion.runs.run import Stale, jobs_of, run

WORKERS = 2
TELL_EVERY = 60  # seconds


def build(profile: str | None = None, progress: Callable = print) -> int:
    """Build ``_build/html``.

    Parameters
    ----------
    profile : str, optional
        By default each page shows the most faithful profile that is stored, and computes quick (or smoke
        where the data cannot be had) if none is; ``smoke`` computes everything afresh.
    progress : callable
        ``progress(text)`` for lines of progress.

    Returns
    -------
    int
        0, or 1 when the pages do not build without a warning.

    Raises
    ------
    AlignbookError
        Where a study cannot be computed or a notebook fails.
    """
    try:
        with _alone(), _store(profile):
            return _build(profile, progress)
    except OSError as error:  # a full disk, above all
        where = paths.shown(paths.build())
        raise AlignbookError(f"cannot build the book in {where}: {system.reason(error)}") from error


def _build(profile, progress):
    began = time.monotonic()
    toc = (paths.root() / "_toc.yml").read_text(encoding="utf-8")
    books = contents.in_order(toc, _listed(notebooks.every(), toc, progress))
    judged = _judged(books, profile, progress)
    records.write(judged.values(), paths.build() / "claims.json")
    computed = time.monotonic()
    pages = paths.build() / "pages"
    _clear(pages)
    shutil.copytree(paths.root() / "book", pages, dirs_exist_ok=True)
    (pages / "_toc.yml").write_text(contents.staged(toc, books), encoding="utf-8")
    with _executing(books, judged, pages, progress) as executions:
        from companion.pages import generated  # here: it imports torch

        generated.write_apart(pages)
    _require_all(executions)
    for book in books:
        figure = glance.first_figure(pages / f"{book.name}.ipynb")
        judged[book.name] = replace(judged[book.name], figure=figure)
    generated.write(books, judged, pages)
    drawn = time.monotonic()
    status = render.render(pages)
    finished = time.monotonic()
    progress(
        f"results {computed - began:.0f} s, notebooks {drawn - computed:.0f} s, "
        f"pages {finished - drawn:.0f} s, together {finished - began:.0f} s"
    )
    if status:
        progress("the book was not built: see the warnings above")
    else:
        progress(f"the book: {paths.shown(paths.build() / 'html' / 'index.html')}")
    return status


def _listed(books, toc, progress):
    """Those of ``books`` whose papers have a chapter; the others are named."""
    left_out = [book for book in books if not contents.has_chapter(toc, book)]
    for book in left_out:
        line = f"no chapter {book.paper}/{contents.LANDING} in _toc.yml, see CONTRIBUTING.md, A new paper"
        progress(f"{book.name} is left out of the book: {line}")
    return [book for book in books if book not in left_out]


def _judged(books, profile, progress):
    """{name: Record} of all ``books``; what is not stored is computed.

    Raises AlignbookError, one line on all broken notebooks, before anything is computed.
    """
    progress(f"{len(books)} pages: reading what is stored")
    if profile == "smoke":
        judged = {book.name: _fault(book) for book in books}
    else:
        judged = records.stored([book.name for book in books], profile)
    if broken := dict.fromkeys(str(each) for each in judged.values() if isinstance(each, AlignbookError)):
        raise AlignbookError("; ".join(broken))
    with open_workers():
        for number, book in enumerate(books, 1):
            if judged[book.name] is None:
                say = _prefixed(progress, f"[{number}/{len(books)}] {book.name}")
                judged[book.name] = records.of(_computed(book, profile, say))
                say(f"profile {judged[book.name].profile}")
    return judged


def _fault(notebook):
    try:
        jobs_of(notebook, parameters.resolve(notebook, "smoke"))
    except AlignbookError as error:
        return error
    return None


def _computed(notebook, profile, say):
    """The Run of ``notebook``; without ``profile`` at quick, or at smoke where its data cannot be had."""
    from alignbook.data import DataError

    try:
        say(f"nothing is stored whole; computing profile {profile or 'quick'}")
        return run(notebook.name, profile=profile or "quick", progress=say)
    except DataError as error:
        if profile:
            raise
        say(f"{error}; computing profile smoke instead")
        return run(notebook.name, profile="smoke", progress=say)


@contextmanager
def _executing(books, judged, pages, progress):
    """{name: future} of the executions of all ``books``, which have ended when the context has."""
    counted, keys = itertools.count(1), _Keys()

    def one(notebook):
        profile = judged[notebook.name].profile
        kept = paths.build() / "executed" / profile / f"{notebook.name}.ipynb"
        mark, key = kept.with_suffix(".key"), keys.of(notebook, profile)
        unchanged = kept.is_file() and mark.is_file() and mark.read_text() == key
        start = time.monotonic()
        if not unchanged:
            mark.unlink(missing_ok=True)
            execute(notebook, parameters.resolve(notebook, profile), kept)
            mark.write_text(key)
        target = pages / f"{notebook.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, target)
        how = "unchanged" if unchanged else f"executed in {time.monotonic() - start:.1f} s"
        progress(f"[{next(counted)}/{len(books)}] {notebook.name} (profile {profile}): {how}")

    # The threads of kernels side by side would wait for each other.
    with system.environment(WORKER_ENVIRONMENT), ThreadPoolExecutor(WORKERS) as pool:
        yield {book.name: pool.submit(one, book) for book in books}


class _Keys:
    """Digests of what executed pages follow from: all code, the study's files, the paper's stored results."""

    def __init__(self):
        root = paths.root()
        self.code = _digest(*(root / "src").rglob("*.py"), *(root / "data" / "plans").glob("*"))
        self.papers = {}

    def of(self, notebook, profile):
        paper = notebook.folder.parent
        if paper.name not in self.papers:
            stored = sorted(path for store in paths.stores() for path in (store / paper.name).rglob("*.json"))
            stamps = [(str(path), path.stat().st_mtime_ns) for path in stored]
            shared = (file for file in paper.rglob("*") if not (file.parent / notebooks.SOURCE).is_file())
            self.papers[paper.name] = f"{stamps} {_digest(*shared)}"
        parts = self.code, self.papers[paper.name], _digest(*notebook.folder.rglob("*")), profile
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _digest(*files):
    contents = [
        (str(path), path.read_bytes()) for path in sorted(files) if path.suffix in (".py", ".md", ".yaml")
    ]
    return hashlib.sha256(repr(contents).encode()).hexdigest()


def _require_all(executions):
    """AlignbookError that tells all failures among the futures ``executions``."""
    errors = [future.exception() for future in executions.values() if future.exception()]
    for error in errors:
        if not isinstance(error, AlignbookError):
            raise error
    if errors:
        raise AlignbookError("; ".join(map(str, errors)))


@contextmanager
def _reporting(name):
    """Inside, a line on standard error says every minute that the notebook's cells still run."""
    ended, began = threading.Event(), time.monotonic()

    def report():
        while not ended.wait(TELL_EVERY):
            taken = time.monotonic() - began
            system.to_stderr(f"{name}: its cells have been running for {taken:.0f} s; Ctrl-C ends them")

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def execute(notebook: notebooks.Notebook, values: dict, target: Path) -> Path:
    """Run ``notebook`` with parameter ``values`` into the file ``target``; returns ``target``.

    Nothing is left at ``target`` unless every cell has run. Raises AlignbookError otherwise.
    """
    import jupytext
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    spec = parameters.read(notebook)
    try:
        text = jupytext.reads(notebook.text, fmt="md:myst")
        _set_parameters(text, spec, values)
    except Exception as error:  # whatever a broken cell makes of its parser
        where, reason = paths.shown(notebook.source), on_one_line(error) or type(error).__name__
        raise AlignbookError(f"{where} is no notebook: {reason}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as messages:
        try:
            with _reporting(notebook.name):
                executed = papermill.execute_notebook(  # to no file: it would write it twice a cell
                    text,
                    None,
                    kernel_name="python3",
                    progress_bar=False,
                    cwd=paths.root(),
                    kernel_manager_class=_kernels(messages),
                )
            system.replace(target, _as_stored(executed).encode())
        except PapermillExecutionError as error:
            raise AlignbookError(_failed_cell(notebook, text, error)) from error
        except OSError as error:
            where = paths.shown(error.filename or target.parent)
            raise AlignbookError(f"{notebook.name} failed: {where}: {system.reason(error)}") from error
        except DeadKernelError as error:
            raise AlignbookError(f"{notebook.name} failed: its kernel ended (out of memory?)") from error
        except RuntimeError as error:  # an error in a cell is papermill's
            messages.seek(0)
            last = (messages.read().splitlines() or [b""])[-1].decode(errors="replace")
            reason = on_one_line(last or error)
            raise AlignbookError(f"{notebook.name} failed: its kernel cannot be used ({reason})") from error
    return target


def _kernels(messages):
    """A class of kernel managers whose kernels write to the file ``messages`` what no cell has written."""
    from jupyter_client import AsyncKernelManager

    class Manager(AsyncKernelManager):
        def start_kernel(self, **options):
            return super().start_kernel(stderr=messages, **options)

    return Manager


def _failed_cell(notebook, text, error):
    """One line: what went wrong and in which line; the traceback goes to a file that the line names."""
    number = sum(cell.cell_type == "code" for cell in text.cells[: error.cell_index + 1])
    traceback = render.without_colour("\n".join(error.traceback))
    inside = re.findall(r"Cell In\[\d+\], line (\d+)", traceback)
    line = notebooks.cell_starts(notebook)[number - 1] + int(inside[-1] if inside else 1) - 1
    log = logged(notebook.name, traceback)
    what = f"{error.ename}: {on_one_line(error.evalue)}"
    return f"{notebook.name} failed: {paths.shown(notebook.source)}, line {line}: {what}{log}"


def execute_and_render(notebook, run):
    """(executed notebook, its page) of ``run``, two files; None for the page where it cannot be rendered.

    A checkout without ``_config.yml`` has no book and renders nothing.
    """
    from companion.pages import single

    executed = execute(notebook, run.parameters, run_path(run))
    if not (paths.root() / "_config.yml").is_file():
        return executed, None
    try:
        return executed, single.write(executed)
    except (AlignbookError, OSError) as error:
        warnings.warn(on_one_line(error), stacklevel=2)
        return executed, None


def run_path(run):
    """Where ``alignbook run`` leaves the executed notebook of ``run``."""
    values = repr(sorted(run.parameters.items())).encode()
    label = run.profile or hashlib.sha256(values).hexdigest()[:8]
    return paths.build() / "runs" / f"{run.name}-{label}.ipynb"


@contextmanager
def _alone():
    """Two builds in one folder would clear each other's pages."""
    with ExitStack() as stack:
        try:
            stack.enter_context(system.locked(paths.build() / ".lock", wait=False))
        except BlockingIOError:
            where = paths.shown(paths.build())
            raise AlignbookError(f"another book is being built in {where}") from None
        yield


@contextmanager
def _store(profile):
    """While profile smoke is built, results go to an empty store of its own."""
    if profile != "smoke":
        yield
        return
    store = paths.build() / "smoke-results"
    _clear(store)
    with system.environment({"ALIGNBOOK_RESULTS": str(store)}):
        yield


def _set_parameters(text, spec, values):
    """Write ``values`` into the parameters cell, so that the page and its download show them."""
    cell = next(c for c in text.cells if "parameters" in c.metadata.get("tags", []))
    lines = []
    for name, parameter in spec.items():
        kind = f"list[{parameter.type}]" if parameter.many else parameter.type
        limits = f"{parameter.range}: " if parameter.range else ""
        lines.append(f"{name}: {kind} = {values[name]!r}  # {limits}{parameter.meaning}")
    cell.source = "\n".join(lines)
    for cell in text.cells:
        if cell.cell_type == "code":  # all code stands in one fold at the end of the page
            tags = set(cell.metadata.get("tags", [])) - {"hide-input"} | {"remove-input"}
            cell.metadata["tags"] = sorted(tags)


def _as_stored(executed):
    """The notebook's JSON without papermill's record, which holds this machine's paths, and without what
    differs from one execution to the next: times, and names of cells that were drawn at random. The warning
    of stale results goes, too: the page's first line says it.
    """
    import nbformat

    executed.metadata.pop("papermill", None)
    for number, cell in enumerate(executed.cells):
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _warns_of_stale(output)]
    return nbformat.writes(executed)


def _warns_of_stale(output):
    return output.get("name") == "stderr" and f" {Stale.__name__}: " in output["text"]


def _prefixed(progress, prefix):
    return lambda text: progress(f"{prefix}: {text}")


def _clear(folder):
    """An empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
