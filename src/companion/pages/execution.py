"""Execute a notebook through papermill, in a kernel of its own or in one that it shares with others."""

import re
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import jupytext
import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from alignbook import paths, system
from alignbook.errors import AlignbookError, logged, on_one_line
from companion.pages import render
from companion.runs import notebooks, parameters
from companion.runs.run import Stale

TELL_EVERY = 60  # seconds
# Tables of profile smoke are too small for their figures, about which seaborn and numpy warn.
CLEAR = """\
import warnings
for category in UserWarning, RuntimeWarning:
    warnings.simplefilter({action!r}, category)
get_ipython().reset()
"""


class Kernel:
    """A Jupyter kernel for notebooks that run one after the other, in one thread.

    Importing torch, scipy, pandas and matplotlib takes longer than most pages. Before each notebook the names
    of the last one go; modules stay imported. After an error the next notebook starts a new kernel.

    Use as a context manager: its kernel ends with it.
    """

    def __init__(self):
        self._messages = tempfile.TemporaryFile()
        self._manager, self._clients = None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self._messages.close()

    def cleared(self, profile: str | None = None):
        """The kernel's manager, which papermill takes, once no name of the last notebook is left."""
        if self._manager is None:
            self._start()
        client = self._manager.client()
        client.start_channels()
        run_sync(client.wait_for_ready)(timeout=60)
        clear = CLEAR.format(action="ignore" if profile == "smoke" else "default")
        options = {"silent": True, "allow_stdin": False, "output_hook": lambda message: None}
        run_sync(client.execute_interactive)(clear, timeout=60, **options)
        self._close_clients()
        return self._manager

    def _start(self):
        clients = self._clients

        class Manager(AsyncKernelManager):
            def client(self, **options):
                clients.append(super().client(**options))  # nbclient leaves its own open
                return clients[-1]

        self._manager = Manager(kernel_name="python3")
        run_sync(self._manager.start_kernel)(stderr=self._messages, cwd=str(paths.root()))

    def _close_clients(self):
        while self._clients:
            self._clients.pop().stop_channels()

    def end(self):
        """End the process; the next notebook starts another."""
        self._close_clients()
        if self._manager is not None:
            run_sync(self._manager.shutdown_kernel)(now=True)
        self._manager = None

    def last_message(self) -> str:
        """The last line that the process wrote outside of cells."""
        self._messages.seek(0)
        return (self._messages.read().splitlines() or [b""])[-1].decode(errors="replace")


@contextmanager
def _reporting(name):
    """Inside, a line on standard error says every minute that the notebook's cells still run."""
    ended = threading.Event()

    def report():
        while not ended.wait(TELL_EVERY):
            system.to_stderr(f"{name}: its cells are still running; Ctrl-C ends them")

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def execute(notebook: notebooks.Notebook, values: dict, target: Path, kernel: Kernel | None = None) -> Path:
    """Run ``notebook`` with parameter ``values`` into the file ``target``; returns ``target``.

    It runs in ``kernel``, by default in one of its own. Nothing is left at ``target`` unless every cell has
    run. Raises AlignbookError otherwise.
    """
    if kernel is None:
        with Kernel() as own:
            return execute(notebook, values, target, own)
    spec = parameters.read(notebook)
    try:
        text = jupytext.reads(notebook.text, fmt="md:myst")
        _set_parameters(text, spec, values)
    except Exception as error:  # whatever a broken cell makes of its parser
        where, reason = paths.shown(notebook.source), on_one_line(error) or type(error).__name__
        raise AlignbookError(f"{where} is no notebook: {reason}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _reporting(notebook.name):
            executed = _executed(notebook, text, kernel, parameters.profile_of(notebook, values))
        system.replace(target, _as_stored(executed).encode())
    except OSError as error:
        where = paths.shown(error.filename or target.parent)
        raise AlignbookError(f"{notebook.name} failed: {where}: {system.reason(error)}") from error
    return target


def _executed(notebook, text, kernel, profile):
    """The notebook ``text`` with its outputs; AlignbookError where it fails, and no kernel is left then."""
    try:
        return papermill.execute_notebook(  # to no file: it would write it twice a cell
            text,
            None,
            kernel_name="python3",
            progress_bar=False,
            cwd=paths.root(),
            km=kernel.cleared(profile),
        )
    except PapermillExecutionError as error:
        kernel.end()
        raise AlignbookError(_failed_cell(notebook, text, error)) from error
    except DeadKernelError as error:
        kernel.end()
        raise AlignbookError(f"{notebook.name} failed: its kernel ended (out of memory?)") from error
    except RuntimeError as error:  # an error in a cell is papermill's
        kernel.end()
        reason = on_one_line(kernel.last_message() or error)
        raise AlignbookError(f"{notebook.name} failed: its kernel cannot be used ({reason})") from error


def _failed_cell(notebook, text, error):
    """One line: what went wrong and in which line; the traceback goes to a file that the line names."""
    number = sum(cell.cell_type == "code" for cell in text.cells[: error.cell_index + 1])
    traceback = render.without_colour("\n".join(error.traceback))
    inside = re.findall(r"Cell In\[\d+\], line (\d+)", traceback)
    line = notebooks.cell_starts(notebook)[number - 1] + int(inside[-1] if inside else 1) - 1
    log = logged(notebook.name, traceback)
    what = f"{error.ename}: {on_one_line(error.evalue)}"
    return f"{notebook.name} failed: {paths.shown(notebook.source)}, line {line}: {what}{log}"


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
