"""Notebooks that share a kernel, what is left of one for the next, and how a book is given up."""

import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest

from alignbook import AlignbookError
from companion.pages import book, render
from companion.pages.execution import Kernel, execute
from companion.runs.notebooks import Notebook
from tests.conftest import TOY, write_study

PARAMETERS = "```{code-cell}\n:tags: [parameters]\n\nseeds: int = 1  # [1, 9]: networks\n```\n"
LEAVES = "import warnings, matplotlib.pyplot as plt\nleft = 1\nfigure = plt.figure()\nwarnings.warn('few')"
LOOKS = "print('left' in globals(), len(In), __import__('os').getpid())"


@pytest.fixture
def run(tmp_path):
    """Executes a notebook of one cell in a kernel; returns what the cell printed, by stream."""
    (tmp_path / "profiles.yaml").write_text("smoke: {seeds: 2}\nquick: {}\npaper: {seeds: 3}\n")

    def run(code, kernel, seeds=1):
        notebook = Notebook("toy/fig99_toy", tmp_path / "notebook.md")
        notebook.source.write_text(f"{PARAMETERS}\n```{{code-cell}}\n{code}\n```\n")
        target = execute(notebook, {"seeds": seeds}, tmp_path / "executed.ipynb", kernel)
        outputs = json.loads(target.read_text())["cells"][-1]["outputs"]
        return {output["name"]: "".join(output["text"]) for output in outputs if "name" in output}

    return run


def test_each_notebook_begins_without_the_names_of_the_last(run):
    with Kernel() as kernel:
        assert "UserWarning: few" in run(LEAVES, kernel)["stderr"]
        left, cells, process = run(LOOKS, kernel)["stdout"].split()
        assert (left, cells) == ("False", "3")  # IPython's empty first, the parameters, this one
        assert run(LEAVES, kernel, seeds=2) == {}  # at smoke
        assert "few" in run(LEAVES, kernel)["stderr"]
        assert run(LOOKS, kernel)["stdout"].split() == ["False", "3", process]


@pytest.mark.parametrize(
    "code, line",
    [
        ("raise KeyError('no')", "line 8: KeyError: 'no'; traceback in .*/toy-fig99_toy.txt$"),
        ("import os; os._exit(9)", "its kernel ended"),
    ],
)
def test_after_an_error_the_next_notebook_has_a_new_kernel(run, code, line):
    with Kernel() as kernel:
        process = run(LOOKS, kernel)["stdout"].split()[-1]
        with pytest.raises(AlignbookError, match=line):
            run(code, kernel)
        left, _, other = run(LOOKS, kernel)["stdout"].split()
        assert left == "False" and other != process


def test_ctrl_c_ends_a_book_after_the_pages_in_hand(here, monkeypatch):
    """The two kernels finish their pages; of six no other begins."""
    slugs = [f"fig{number}_toy" for number in range(94, 99)]
    for slug in slugs:
        write_study(here.root, slug, {name: text.replace("fig99_toy", slug) for name, text in TOY.items()})
        (here.notebook.parents[1] / slug / "profiles.yaml").write_text("smoke: {seeds: 1}\n")
    (here.root / "book").mkdir()
    sections = "".join(f"  - file: toy/{slug}\n" for slug in (*slugs, "fig99_toy"))
    (here.root / "_toc.yml").write_text(f"root: index\nchapters:\n- file: toy/index\n  sections:\n{sections}")
    begun, ended, stops, both = [], [], [], threading.Barrier(2)

    class Stop(threading.Event):
        def __init__(self):
            super().__init__()
            stops.append(self)

    def page(notebook, values, target, kernel):
        begun.append(notebook.name)
        if both.wait(60) == 0:  # each kernel has a page in hand
            os.kill(os.getpid(), signal.SIGINT)
        assert stops[0].wait(60)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("{}")
        ended.append(notebook.name)

    monkeypatch.setattr(book, "execute", page)
    monkeypatch.setattr(book, "threading", SimpleNamespace(Event=Stop))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, _, err = here.call("book", "--profile", "smoke")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, err.splitlines()[-1]) == (130, "alignbook: interrupted; finished jobs are stored")
    assert sorted(begun) == sorted(ended) and len(ended) == 2


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path / "build"))
    full = "OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(render, "jupyter_book", lambda *_, **__: (1, full))
    with pytest.raises(OSError, match="No space left on device"):
        render.render(tmp_path / "pages")
