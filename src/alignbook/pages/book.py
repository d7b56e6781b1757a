"""Execute the notebooks and build the book.

Each notebook runs through papermill into a partial file that takes its place only when every cell
has run; Jupyter Book then renders the executed notebooks without executing anything. The book
replaces the last one only when it was built without a warning.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line
from alignbook.pages import generated
from alignbook.runs import engine, notebooks, parameters

WORKERS = 2


def build(profile=None, progress=print):
    """Build ``_build/html``; returns 0, or 1 when the pages do not build without a warning.

    profile : None shows each page at the most faithful profile that is stored, and computes quick
    (or smoke where the data cannot be had) if none is; ``smoke`` computes everything afresh.
    """
    began = time.monotonic()
    books = notebooks.every()
    with _alone(), _fresh_store(profile):
        runs = {}
        for number, notebook in enumerate(books, 1):
            start = time.monotonic()
            say = _prefixed(progress, f"[{number}/{len(books)}] {notebook.name}")
            runs[notebook.name] = _results(notebook, profile, say)
            say(f"profile {runs[notebook.name].profile}, results after {time.monotonic() - start:.1f} s")
        computed = time.monotonic()
        pages = paths.build() / "pages"
        _clear(pages)
        shutil.copytree(paths.root() / "book", pages, dirs_exist_ok=True)
        seconds = _execute_all(books, runs, pages, progress)
        executed = time.monotonic()
        generated.write(books, runs, seconds, pages)
        status = _render(pages)
    finished = time.monotonic()
    progress(
        f"results {computed - began:.0f} s, notebooks {executed - computed:.0f} s, "
        f"pages {finished - executed:.0f} s, together {finished - began:.0f} s"
    )
    if status:
        progress("the book was not built: see the warnings above")
        return 1
    progress(f"the book: {paths.shown(paths.build() / 'html' / 'index.html')}")
    return 0


def execute(notebook, values, target):
    """Run ``notebook`` with parameter ``values`` into the file ``target``; returns ``target``.

    Nothing is left at ``target`` unless every cell has run. Raises AlignbookError otherwise.
    """
    import jupytext
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    _quiet_kernels()
    text = jupytext.read(notebook.source)
    _set_parameters(text, parameters.read(notebook), values)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.partial.ipynb")
    try:
        executed = papermill.execute_notebook(
            text, partial, kernel_name="python3", progress_bar=False, cwd=paths.root(),
            extra_arguments=["--log-level=CRITICAL"],  # at its end a kernel may report that it is ended
        )  # fmt: skip
        _write_notebook(executed, partial)
        os.replace(partial, target)
    except PapermillExecutionError as error:
        reason = on_one_line(error.evalue)
        raise AlignbookError(f"{notebook.name} failed: {error.ename}: {reason}") from error
    except DeadKernelError as error:
        raise AlignbookError(f"{notebook.name} failed: its kernel ended (out of memory?)") from error
    except RuntimeError as error:  # an error in a cell is papermill's
        reason = on_one_line(error)
        raise AlignbookError(f"{notebook.name} failed: its kernel cannot be used ({reason})") from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def run_path(run):
    """Where ``alignbook run`` leaves the executed notebook of ``run``."""
    if run.profile:
        label = run.profile
    else:
        label = sha256(repr(sorted(run.parameters.items())).encode()).hexdigest()[:8]
    return paths.build() / "runs" / f"{run.name}-{label}.ipynb"


def _results(notebook, profile, say):
    if profile:
        return engine.run(notebook.name, profile=profile, progress=say)
    from alignbook.data import DataError

    for profile in engine.FAITHFUL:
        if engine.filed(notebook, profile):
            try:  # what is broken is computed again
                return engine.run(notebook.name, profile=profile, progress=say)
            except DataError as error:
                say(f"{error}; looking for another profile")
    try:
        say("nothing is stored; computing profile quick")
        return engine.run(notebook.name, profile="quick", progress=say)
    except DataError as error:
        say(f"{error}; computing profile smoke instead")
        return engine.run(notebook.name, profile="smoke", progress=say)


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


def _execute_all(books, runs, pages, progress):
    """Seconds per notebook. A failure is raised after the others have finished."""

    def one(notebook):
        start = time.monotonic()
        execute(notebook, runs[notebook.name].parameters, pages / f"{notebook.name}.ipynb")
        taken = time.monotonic() - start
        progress(f"executed {notebook.name} in {taken:.1f} s")
        return taken

    with ThreadPoolExecutor(WORKERS) as pool:
        futures = {notebook.name: pool.submit(one, notebook) for notebook in books}
    failures = [str(future.exception()) for future in futures.values() if future.exception()]
    if failures:
        raise AlignbookError("; ".join(failures))
    return {name: future.result() for name, future in futures.items()}


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
    """Write the notebook without papermill's record, which holds this machine's paths."""
    import nbformat

    executed.metadata.pop("papermill", None)
    for cell in executed.cells:
        cell.metadata.pop("papermill", None)
    nbformat.write(executed, path)


def _quiet_kernels():
    # ipykernel 7 prints a notice per kernel unless the connection is said to be encrypted.
    from jupyter_client.manager import KernelManager

    if "transport_encryption" in KernelManager.class_trait_names():
        KernelManager.transport_encryption.default_value = "required"


def _render(pages):
    """Run Jupyter Book strictly; the new book replaces the old one only if that succeeds."""
    build_folder = paths.build()
    with tempfile.TemporaryDirectory(dir=build_folder, prefix="render-") as work:
        call = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", call, "build", str(pages), "--path-output", work]
        command += ["--config", str(paths.root() / "_config.yml"), "--toc", str(paths.root() / "_toc.yml")]
        command += ["--all", "-n", "-W", "--keep-going", "--quiet"]
        finished = subprocess.run(command, text=True, capture_output=True)
        if finished.returncode:
            print(_without_colour(finished.stdout + finished.stderr), file=sys.stderr)
            return 1
        built = Path(work) / "_build" / "html"
        _add_mathjax(built)
        book, last = build_folder / "html", build_folder / "html.last"
        shutil.rmtree(last, ignore_errors=True)
        if book.exists():
            os.replace(book, last)
        os.replace(built, book)
        shutil.rmtree(last, ignore_errors=True)
    return 0


def _add_mathjax(built):
    """Put the installed MathJax into the book, which must read with the network off."""
    import importlib.metadata

    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    source = next(file for file in files if file.name == "tex-svg.js")
    target = built / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.locate(), target / "tex-svg.js")


def _prefixed(progress, prefix):
    return lambda text: progress(f"{prefix}: {text}")


def _clear(folder):
    """An empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _without_colour(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
