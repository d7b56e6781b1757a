"""Notebooks that share a kernel, and what is left of one for the next."""

import json

import pytest

from alignbook import AlignbookError
from companion.pages.execution import Kernel, execute
from companion.runs.notebooks import Notebook

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
    [("raise KeyError('no')", "line 8: KeyError: 'no'"), ("import os; os._exit(9)", "its kernel ended")],
)
def test_after_an_error_the_next_notebook_has_a_new_kernel(run, code, line):
    with Kernel() as kernel:
        process = run(LOOKS, kernel)["stdout"].split()[-1]
        with pytest.raises(AlignbookError, match=line):
            run(code, kernel)
        left, _, other = run(LOOKS, kernel)["stdout"].split()
        assert left == "False" and other != process
