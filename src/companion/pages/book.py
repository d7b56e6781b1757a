"""Execute the notebooks and build the book.

What is stored is judged first (:mod:`companion.judging`), and what is missing is computed. Each notebook then
runs through papermill into a file that takes its place only when every cell has run; Jupyter Book renders the
executed notebooks without executing anything. The book replaces the last one only when it was built without a
warning.
"""

import hashlib
import itertools
import queue
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line
from companion import judging
from companion.pages import contents, glance, render
from companion.pages.execution import Kernel, execute
from companion.runs import notebooks, parameters
from companion.runs.pool import WORKER_ENVIRONMENT, open_workers
from companion.runs.run import jobs_of, run

WORKERS = 2


def build(profile: str | None = None, progress: Callable = print) -> int:
    """Build ``_build/html``: 0, or 1 when the pages do not build without a warning.

    Without ``profile`` each page shows the most faithful one that is stored, and computes quick (or smoke
    where the data cannot be had) if none is; ``smoke`` computes in a store of its own what is not stored
    there, or stale. AlignbookError where a study cannot be computed or a notebook fails.
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
    computed = time.monotonic()
    pages = paths.build() / "pages"
    _clear(pages)
    _copy_prose(pages)
    (pages / "_toc.yml").write_text(contents.staged(toc, books), encoding="utf-8")
    _execute_all(books, judged, pages, progress)
    for book in books:
        figure = glance.first_figure(pages / f"{book.name}.ipynb")
        judged[book.name] = replace(judged[book.name], figure=figure)
    from companion.pages import generated  # here: it imports torch

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


def _copy_prose(pages):
    """What stands in ``book``, without the modules that draw its pages' pictures."""
    for path in (paths.root() / "book").iterdir():
        if path.is_dir() and path.name != "__pycache__":
            shutil.copytree(path, pages / path.name)
        elif path.is_file() and path.suffix != ".py":
            shutil.copy(path, pages)


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
        judged = judging.stored([book.name for book in books], profile)
    if broken := dict.fromkeys(str(each) for each in judged.values() if isinstance(each, AlignbookError)):
        raise AlignbookError("; ".join(broken))
    with open_workers():
        for number, book in enumerate(books, 1):
            if judged[book.name] is None:
                say = _prefixed(progress, f"[{number}/{len(books)}] {book.name}")
                judged[book.name] = judging.record(_computed(book, profile, say))
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

    if profile == "smoke":
        return run(notebook.name, profile=profile, recompute="stale", progress=say)
    try:
        say(f"nothing is stored whole; computing profile {profile or 'quick'}")
        return run(notebook.name, profile=profile or "quick", progress=say)
    except DataError as error:
        if profile:
            raise
        say(f"{error}; computing profile smoke instead")
        return run(notebook.name, profile="smoke", progress=say)


def _execute_all(books, judged, pages, progress):
    """Execute all ``books`` into the folder ``pages``, those that nothing has changed for excepted.

    Raises AlignbookError, one line on all that fail.
    """
    counted, keys, waiting, errors = itertools.count(1), _keys(judged), queue.SimpleQueue(), []
    stopped = threading.Event()
    for book in books:
        waiting.put(book)

    def one(notebook, kernel):
        profile = judged[notebook.name].profile
        kept = paths.build() / "executed" / profile / f"{notebook.name}.ipynb"
        mark, key = kept.with_suffix(".key"), keys[notebook.name]
        unchanged = kept.is_file() and mark.is_file() and mark.read_text() == key
        start = time.monotonic()
        if not unchanged:
            mark.unlink(missing_ok=True)
            execute(notebook, parameters.resolve(notebook, profile), kept, kernel)
            mark.write_text(key)
        target = pages / f"{notebook.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, target)
        how = "unchanged" if unchanged else f"executed in {time.monotonic() - start:.1f} s"
        progress(f"[{next(counted)}/{len(books)}] {notebook.name} (profile {profile}): {how}")

    def work(_):
        with Kernel() as kernel:
            while not stopped.is_set():
                try:
                    one(waiting.get_nowait(), kernel)
                except queue.Empty:
                    return
                except AlignbookError as error:
                    errors.append(error)

    # The threads of kernels side by side would wait for each other.
    with system.environment(WORKER_ENVIRONMENT), ThreadPoolExecutor(WORKERS) as pool:
        try:
            list(pool.map(work, range(WORKERS)))
        finally:
            stopped.set()  # after Ctrl-C no further page begins
    if errors:
        raise AlignbookError("; ".join(sorted(map(str, errors))))


def _keys(judged):
    """{name: digest of what its page follows from}: all code, its own files, its paper's stored results."""
    root, papers, keys = paths.root(), {}, {}
    code = _digest(*(root / "src").rglob("*.py"), *(root / "data" / "plans").glob("*"))
    for name, record in judged.items():
        folder = root / "notebooks" / name
        paper = folder.parent
        if paper not in papers:
            stored = sorted(path for store in paths.stores() for path in (store / paper.name).rglob("*.json"))
            stamps = [(str(path), path.stat().st_mtime_ns) for path in stored]
            shared = (file for file in paper.rglob("*") if not (file.parent / notebooks.SOURCE).is_file())
            papers[paper] = f"{stamps} {_digest(*shared)}"
        parts = code, papers[paper], _digest(*folder.rglob("*")), record.profile
        keys[name] = hashlib.sha256(repr(parts).encode()).hexdigest()
    return keys


def _digest(*files):
    contents = [
        (str(path), path.read_bytes()) for path in sorted(files) if path.suffix in (".py", ".md", ".yaml")
    ]
    return hashlib.sha256(repr(contents).encode()).hexdigest()


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
    """While profile smoke is built, results go to a store of its own."""
    if profile != "smoke":
        yield
        return
    with system.environment({"ALIGNBOOK_RESULTS": str(paths.build() / "smoke-results")}):
        yield


def _prefixed(progress, prefix):
    return lambda text: progress(f"{prefix}: {text}")


def _clear(folder):
    """An empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
