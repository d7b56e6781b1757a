"""Execute the notebooks and build the book.

Each notebook runs through papermill into a partial file that takes its place only when every cell
has run; Jupyter Book then renders the executed notebooks without executing anything. The book
replaces the last one only when it was built without a warning.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from alignbook import claims, engine, notebooks, page, parameters, paths
from alignbook.errors import AlignbookError

PAPERS = {
    "random_labels": "What do neural networks learn when trained with random labels?",
    "representation_alignment": "Representation alignment in neural networks",
    "signal_propagation": "Feature learning and signal propagation in deep neural networks",
    "transferability": "Towards understanding the transferability of deep representations",
}
WORKERS = 2


def most_faithful(notebook):
    """The stored engine.Run of the most faithful profile (paper, then quick), or None."""
    runs = (engine.load(notebook, profile) for profile in parameters.PROFILES if profile != "smoke")
    return next((run for run in runs if run), None)


def build(profile=None, progress=print):
    """Build ``_build/html``; returns 0, or 1 when the pages do not build without a warning.

    profile : None shows each page at the most faithful profile that is stored, and computes quick
    (or smoke where the data cannot be had) if none is; ``smoke`` computes everything afresh.
    """
    began = time.monotonic()
    books = notebooks.every()
    with _fresh_store(profile):
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
        _write_generated(books, runs, seconds, pages)
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
    from papermill.exceptions import PapermillExecutionError

    _quiet_kernels()
    text = jupytext.read(notebook.source)
    _set_parameters(text, parameters.read(notebook), values)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.partial.ipynb")
    try:
        executed = papermill.execute_notebook(
            text, partial, kernel_name="python3", progress_bar=False, cwd=paths.root()
        )
        _write_notebook(executed, partial)
        os.replace(partial, target)
    except PapermillExecutionError as error:
        reason = " ".join(str(error.evalue).split())[:300]
        raise AlignbookError(f"{notebook.name} failed: {error.ename}: {reason}") from error
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
    stored = most_faithful(notebook)
    if stored:
        return stored
    try:
        say("nothing is stored; computing profile quick")
        return engine.run(notebook.name, profile="quick", progress=say)
    except AlignbookError as error:
        from alignbook.data import DataError

        if not isinstance(error, DataError):
            raise
        say(f"{error}; computing profile smoke instead")
        return engine.run(notebook.name, profile="smoke", progress=say)


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
    cell.metadata["tags"] = [*cell.metadata["tags"], "hide-input"]
    cell.metadata["mystnb"] = {"code_prompt_show": "Show the parameters", "code_prompt_hide": "Hide them"}


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
        _clear(build_folder / "html")
        (build_folder / "html").rmdir()
        os.replace(built, build_folder / "html")
    return 0


def _add_mathjax(built):
    """Put the installed MathJax into the book, which must read with the network off."""
    import importlib.metadata

    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    source = next(file for file in files if file.name == "tex-svg.js")
    target = built / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.locate(), target / "tex-svg.js")


def _write_generated(books, runs, seconds, pages):
    decided = {book.name: runs[book.name].claims() for book in books}
    (pages / "scorecard.md").write_text(_scorecard(books, runs, decided), encoding="utf-8")
    (pages / "status.md").write_text(_status(books, runs, seconds), encoding="utf-8")
    for book in books:
        path = pages / "code" / f"{book.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_code_page(book), encoding="utf-8")


def _scorecard(books, runs, decided):
    total = Counter(claim.outcome for group in decided.values() for claim in group)
    summary = ", ".join(f"{total[outcome]} {outcome}" for outcome in claims.OUTCOMES if total[outcome])
    parts = [
        "# Scorecard",
        "",
        f"{sum(total.values())} claims: {summary}. A test on the seeds decides each outcome, by a rule",
        "written down before the result; the claim's page shows it. A claim that disagrees is a finding.",
        "",
    ]
    for paper, title in PAPERS.items():
        group = [book for book in books if book.paper == paper]
        if not group:
            continue
        counts = Counter(claim.outcome for book in group for claim in decided[book.name])
        line = ", ".join(f"{counts[outcome]} {outcome}" for outcome in claims.OUTCOMES if counts[outcome])
        rows = [_score_row(book, runs[book.name], c) for book in group for c in decided[book.name]]
        columns = ("Claim", "Paper", "Here", "Outcome", "Page", "Profile")
        parts += [f"## {title}", "", line + ".", "", page.table(columns, rows, "score"), ""]
    return "\n".join(parts)


def _score_row(book, run, claim):
    where = re.sub(r":.*", "", book.title)
    return page.row(
        {
            "Claim": f"{html.escape(claim.statement)} <small>({html.escape(claim.source)})</small>",
            "Paper": page.number(claim.paper),
            "Here": page.number(claim.measured),
            "Outcome": page.badge(claim.outcome),
            "Page": f'<a href="{book.name}.html#claim-{html.escape(claim.id)}">{html.escape(where)}</a>',
            "Profile": run.profile or "custom",
        }
    )


def _status(books, runs, seconds):
    columns = (
        "Notebook",
        "Profile",
        "Runs",
        "Seeds",
        "Diverged",
        "Device",
        "Computing",
        "Rendering",
        "State",
    )
    rows = [_status_row(book, runs[book.name], seconds[book.name]) for book in books]
    return "\n".join(
        [
            "# Execution status",
            "",
            "What each page shows, what computed it and how long that took. *Computing* adds up the stored",
            "runs, each on one thread; *rendering* is the execution of the notebook from the stored results.",
            "",
            page.table(columns, rows, "status"),
            "",
        ]
    )


def _status_row(book, run, seconds):
    records = [item.provenance for item in run.stored]
    seeds = {item.unit.arguments["seed"] for item in run.stored if "seed" in item.unit.arguments}
    stale = run.stale
    return page.row(
        {
            "Notebook": f'<a href="{book.name}.html">{html.escape(book.title)}</a>',
            "Profile": run.profile or "custom",
            "Runs": len(records),
            "Seeds": len(seeds),
            "Diverged": len(run.diverged),
            "Device": html.escape(", ".join(sorted({record["device"] for record in records}))),
            "Computing": page.duration(sum(record["wall_time_s"] for record in records)),
            "Rendering": f"{seconds:.1f} s",
            "State": f"{len(stale)} of {len(records)} stale" if stale else "fresh",
        }
    )


def _code_page(book):
    """The experiment's module as a page with a heading per function."""
    import inspect

    module = book.experiment
    source = inspect.getsource(module).splitlines()
    starts = [getattr(module, name).__code__.co_firstlineno - 1 for name in page.functions_of(module)]
    starts = [_with_decorators(source, start) for start in starts]
    names = page.functions_of(module)
    parts = [
        f"# Code: {book.name}",
        "",
        f"`src/alignbook/experiments/{book.name}.py`, which computes the page [{book.title}](/{book.name}).",
        "",
        "```python",
        *source[: starts[0]],
        "```",
    ]
    for number, (name, start) in enumerate(zip(names, starts, strict=True)):
        end = starts[number + 1] if number + 1 < len(starts) else len(source)
        body = "\n".join(source[start:end]).rstrip().splitlines()
        parts += ["", f"## `{name}`", "", "```python", *body, "```"]
    return "\n".join(parts) + "\n"


def _with_decorators(source, start):
    while start and source[start - 1].startswith("@"):
        start -= 1
    return start


def _prefixed(progress, prefix):
    return lambda text: progress(f"{prefix}: {text}")


def _clear(folder):
    """An empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _without_colour(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
