"""Execute the notebooks and build the book.

Each notebook runs through papermill into a partial file that takes its place only when every cell
has run, and is kept until something that it is made of changes; Jupyter Book then renders the executed
notebooks without executing anything. The book replaces the last one only when it was built without a
warning.
"""

import itertools
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import sha256

from alignbook import paths, system
from alignbook.errors import AlignbookError, logged, on_one_line
from companion.pages import contents, executed, kernels, record, render
from companion.runs import kept, notebooks, parameters
from companion.runs.pool import WORKER_ENVIRONMENT, open_workers
from companion.runs.run import FAITHFUL, Stale, filed, jobs_of, run

WORKERS = 2
TELL_EVERY = 60  # seconds
SECONDS_A_PAGE = 3  # to execute and render, two at a time on two cores


def build(profile=None, progress=print):
    """Build ``_build/html``; returns 0, or 1 when the pages do not build without a warning.

    profile : None shows each page at the most faithful profile that is stored, and computes quick
    (or smoke where the data cannot be had) if none is; ``smoke`` computes everything afresh.
    """
    try:
        return _build(profile, progress)
    except OSError as error:  # a full disk, above all
        where = paths.shown(paths.build())
        raise AlignbookError(f"cannot build the book in {where}: {system.reason(error)}") from error


def _build(profile, progress):
    began = time.monotonic()
    with _alone(), _fresh_store(profile):
        books = _listed(notebooks.every(), progress)
        unchanging = {}
        _require_whole(books, unchanging)
        made_of = {notebook.name: _made_of(notebook, profile, unchanging) for notebook in books}
        before = {notebook.name: _unchanged(notebook, *made_of[notebook.name]) for notebook in books}
        changed = [notebook for notebook in books if not before[notebook.name]]
        minutes = SECONDS_A_PAGE * len(changed) / 60
        told = f"{len(changed)} to execute, about {minutes:.0f} min beside what is to compute"
        progress(f"{len(books)} pages: {told if changed else 'all unchanged'}")
        with render.Waiting() as waiting, ExitStack() as stack:
            manager = None
            if changed and all(made_of[notebook.name][1] for notebook in changed):
                # Nothing is left to compute: the kernels' imports run beside those of this process.
                manager = stack.enter_context(kernels.forked(WORKER_ENVIRONMENT))
            runs, keys = {}, {}
            with open_workers():
                for number, notebook in enumerate(books, 1):
                    start = time.monotonic()
                    say = _prefixed(progress, f"[{number}/{len(books)}] {notebook.name}")
                    if before[notebook.name]:
                        continue
                    run = runs[notebook.name] = _results(notebook, profile, say)
                    keys[notebook.name] = executed.key(notebook, run.profile)
                    say(f"profile {run.profile}, results after {time.monotonic() - start:.1f} s")
            computed = time.monotonic()
            if changed:
                manager = manager or stack.enter_context(kernels.forked(WORKER_ENVIRONMENT))
            pages = paths.build() / "pages"
            _clear(pages)
            shutil.copytree(paths.root() / "book", pages, dirs_exist_ok=True)
            toc = (paths.root() / "_toc.yml").read_text(encoding="utf-8")
            (pages / "_toc.yml").write_text(contents.staged(toc, books), encoding="utf-8")
            ordered = contents.in_order(toc, books)
            with _executing(books, runs, before, keys, pages, progress, manager) as futures:
                from companion.pages import generated  # here: it imports torch

                generated.write_apart(pages)
                if changed:
                    waiting.start()
            records = _records(futures)
            shown = time.monotonic()
            generated.write(ordered, records, pages)
            status = render.render_changed(pages, progress, waiting)
    finished = time.monotonic()
    progress(
        f"results {computed - began:.0f} s, notebooks {shown - computed:.0f} s, "
        f"pages {finished - shown:.0f} s, together {finished - began:.0f} s"
    )
    if status:
        progress("the book was not built: see the warnings above")
        return 1
    progress(f"the book: {paths.shown(paths.build() / 'html' / 'index.html')}")
    return 0


def _listed(books, progress):
    """``books`` without those of papers that have no chapter, which are told."""
    toc = (paths.root() / "_toc.yml").read_text(encoding="utf-8")
    left_out = [book for book in books if not contents.has_chapter(toc, book)]
    for book in left_out:
        line = f"no chapter {book.paper}/{contents.LANDING} in _toc.yml, see CONTRIBUTING.md, A new paper"
        progress(f"{book.name} is left out of the book: {line}")
    return [book for book in books if book not in left_out]


def _require_whole(books, unchanging):
    """AlignbookError that tells all broken notebooks, before anything is computed."""
    faults = [kept.kept("faults", notebook, unchanging, _fault, kept.shown) for notebook in books]
    if any(faults):
        raise AlignbookError("; ".join(dict.fromkeys(filter(None, faults))))


def _fault(notebook):
    try:
        for profile in parameters.PROFILES:
            jobs_of(notebook, parameters.resolve(notebook, profile))
    except AlignbookError as error:
        return str(error)
    return None


@contextmanager
def _told_while_it_runs(name):
    """Inside, a line on standard error says every minute that the notebook's cells still run."""
    ended, began = threading.Event(), time.monotonic()

    def tell():
        while not ended.wait(TELL_EVERY):
            taken = time.monotonic() - began
            system.to_stderr(f"{name}: its cells have been running for {taken:.0f} s; Ctrl-C ends them")

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def execute(notebook, values, target, manager=None):
    """Run ``notebook`` with parameter ``values`` into the file ``target``; returns ``target``.

    manager : a class of kernel managers, or None for Jupyter's own

    Nothing is left at ``target`` unless every cell has run. Raises AlignbookError otherwise.
    """
    import jupytext
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    _quiet_kernels()
    spec = parameters.read(notebook)
    try:
        text = jupytext.reads(notebook.text, fmt="md:myst")
        _set_parameters(text, spec, values)
    except Exception as error:  # whatever a broken cell makes of its parser
        where, reason = paths.shown(notebook.source), on_one_line(error) or type(error).__name__
        raise AlignbookError(f"{where} is no notebook: {reason}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear_partial(target.parent)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.partial.ipynb")
    said = tempfile.TemporaryFile()
    try:
        with _told_while_it_runs(notebook.name):
            executed = papermill.execute_notebook(  # to no file: it would write it twice a cell
                text, None, kernel_name="python3", progress_bar=False, cwd=paths.root(),
                kernel_manager_class=kernels.speaking_to(said, manager),
            )  # fmt: skip
        _write_notebook(executed, partial)
        os.replace(partial, target)
    except PapermillExecutionError as error:
        raise AlignbookError(_failed_cell(notebook, text, error)) from error
    except OSError as error:
        where = paths.shown(error.filename or target.parent)
        raise AlignbookError(f"{notebook.name} failed: {where}: {system.reason(error)}") from error
    except DeadKernelError as error:
        raise AlignbookError(f"{notebook.name} failed: its kernel ended (out of memory?)") from error
    except RuntimeError as error:  # an error in a cell is papermill's
        said.seek(0)
        reason = on_one_line((said.read().splitlines() or [b""])[-1].decode(errors="replace") or error)
        raise AlignbookError(f"{notebook.name} failed: its kernel cannot be used ({reason})") from error
    finally:
        said.close()
        partial.unlink(missing_ok=True)
    return target


def _failed_cell(notebook, text, error):
    """One line: what went wrong and in which line; the traceback goes to a file that the line names."""
    number = sum(cell.cell_type == "code" for cell in text.cells[: error.cell_index + 1])
    told = render.without_colour("\n".join(error.traceback))
    inside = re.findall(r"Cell In\[\d+\], line (\d+)", told)
    line = notebooks.cell_starts(notebook)[number - 1] + int(inside[-1] if inside else 1) - 1
    log = logged(notebook.name, told)
    what = f"{error.ename}: {on_one_line(error.evalue)}"
    return f"{notebook.name} failed: {paths.shown(notebook.source)}, line {line}: {what}{log}"


def _clear_partial(folder):
    """Remove what processes that were killed have left of notebooks in ``folder``."""
    for path in folder.glob(".*.partial.ipynb"):
        number = path.name.removesuffix(".partial.ipynb").rpartition(".")[2]
        if number.isdigit() and not system.runs(int(number)):
            path.unlink(missing_ok=True)


def execute_and_render(notebook, run):
    """(executed notebook, its page) of ``run``, two files; None for the page where it cannot be rendered.

    A checkout without ``_config.yml`` has no book and renders nothing.
    """
    from companion.pages import single

    with render.Waiting() as waiting:
        has_book = (paths.root() / "_config.yml").is_file()
        if has_book:
            waiting.start()  # it imports while the notebook runs
        executed = execute(notebook, run.parameters, run_path(run))
        try:
            return executed, single.write(executed, waiting) if has_book else None
        except (AlignbookError, OSError) as error:
            warnings.warn(on_one_line(error), stacklevel=2)
            return executed, None


def run_path(run):
    """Where ``alignbook run`` leaves the executed notebook of ``run``."""
    if run.profile:
        label = run.profile
    else:
        label = sha256(repr(sorted(run.parameters.items())).encode()).hexdigest()[:8]
    return paths.build() / "runs" / f"{run.name}-{label}.ipynb"


def _results(notebook, profile, say):
    if profile:
        return run(notebook.name, profile=profile, progress=say)
    from alignbook.data import DataError

    for profile in FAITHFUL:
        if filed(notebook, profile):
            try:  # what is broken is computed again
                return run(notebook.name, profile=profile, progress=say)
            except DataError as error:
                say(f"{error}; looking for another profile")
    try:
        say("nothing is stored; computing profile quick")
        return run(notebook.name, profile="quick", progress=say)
    except DataError as error:
        say(f"{error}; computing profile smoke instead")
        return run(notebook.name, profile="smoke", progress=say)


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


class _fresh_store:
    """While profile smoke is built, results go to an empty store of its own."""

    def __init__(self, profile):
        self.fresh = profile == "smoke"

    def __enter__(self):
        self.before = os.environ.get("ALIGNBOOK_RESULTS")
        if self.fresh:
            store = paths.build() / "smoke-results"
            _clear(store)
            os.environ["ALIGNBOOK_RESULTS"] = str(store)

    def __exit__(self, *_):
        if self.fresh:
            del os.environ["ALIGNBOOK_RESULTS"]
            if self.before is not None:
                os.environ["ALIGNBOOK_RESULTS"] = self.before


@contextmanager
def _executing(books, runs, before, keys, pages, progress, manager):
    """{name: future of its Record} of all ``books``, which are executed meanwhile; at the end all have been.

    manager : as :func:`execute` has it
    """
    counted = itertools.count(1)

    def one(notebook):
        target = pages / f"{notebook.name}.ipynb"
        if before[notebook.name]:
            path, made = before[notebook.name]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            return made
        start = time.monotonic()
        run = runs[notebook.name]
        execute(notebook, run.parameters, target, manager)
        taken = time.monotonic() - start
        made = record.of(run, target, taken)
        if keys[notebook.name]:
            executed.keep(notebook, run.profile, keys[notebook.name], target, made)
        progress(f"[{next(counted)}/{len(runs)}] executed {notebook.name} in {taken:.1f} s")
        return made

    # The threads of kernels side by side would wait for each other.
    with system.environment(WORKER_ENVIRONMENT), ThreadPoolExecutor(WORKERS) as pool:
        yield {notebook.name: pool.submit(one, notebook) for notebook in books}


def _records(futures):
    """{name: Record} of ``futures``, which have finished; AlignbookError that tells all failures."""
    failures = [str(future.exception()) for future in futures.values() if future.exception()]
    if failures:
        raise AlignbookError("; ".join(failures))
    return {name: future.result() for name, future in futures.items()}


def _made_of(notebook, profile, unchanging):
    """[profile, key] of what the page shows, None each where that is not stored.

    unchanging : the ``keys`` of :func:`companion.runs.kept.kept`
    """

    def made_of(notebook):
        filed = (known for known in FAITHFUL if filed(notebook, known))
        shown = profile or next(filed, None)
        return [shown, shown and executed.key(notebook, shown)]

    what = f"pages-{profile or 'faithful'}-{executed.installed()[:8]}"
    return kept.kept(what, notebook, unchanging, made_of, kept.shown)


def _unchanged(notebook, shown, key):
    """(path, Record) of the page as it was executed last, where nothing that it is made of has changed."""
    return executed.find(notebook, shown, key) if key else None


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


def _write_notebook(executed, path):
    """Write the notebook without papermill's record, which holds this machine's paths, and without what
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
    nbformat.write(executed, path)


def _warns_of_stale(output):
    return output.get("name") == "stderr" and f" {Stale.__name__}: " in output["text"]


def _quiet_kernels():
    # ipykernel 7 prints a notice per kernel unless the connection is said to be encrypted.
    from jupyter_client.manager import KernelManager

    if "transport_encryption" in KernelManager.class_trait_names():
        KernelManager.transport_encryption.default_value = "required"


def _prefixed(progress, prefix):
    return lambda text: progress(f"{prefix}: {text}")


def _clear(folder):
    """An empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
