"""Fixtures: a checkout of its own for tests that break things."""

import functools
import io
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.forked import Forks

# Tests run side by side, and the threads of many small products would wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

ROOT = Path(__file__).resolve().parents[1]

TOY_EXPERIMENT = '''
"""A toy experiment."""

import os
import time

import pandas as pd

from alignbook.errors import Diverged
from companion.jobs import Job
from alignbook.seeding import numpy_stream


def jobs(parameters):
    return [
        Job(f"{label}-seed{seed}", compute, {"label": label, "rate": parameters["rate"], "seed": seed})
        for label in parameters["labels"]
        for seed in range(parameters["seeds"])
    ]


def compute(*, label, rate, seed, device, report):
    """Random numbers, or trouble."""
    if label == "fail":
        raise ZeroDivisionError("no such thing")
    if label == "diverge":
        raise Diverged(7)
    if label == "slow" and seed:
        report(0.5, "halfway")
        time.sleep(60)
    if label == "kill":
        os.kill(os.getpid(), 9)
    draws = numpy_stream(seed, label).standard_normal(3) * rate
    return pd.DataFrame({"step": [0, 1, 2], "value": draws})
'''

TOY_READING = '''
"""What the toy says."""

from companion.over_seeds import means
from companion.statements import Statement

STATEMENTS = [
    Statement(
        "above", "values are above -9", source="Figure 99", of=lambda t, p: means(t, "value"), above=-9.0,
        matters=0.1, because="it is a toy", headline=True,
    ),
]  # fmt: skip
'''

TOY_NOTEBOOK = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
alignbook:
  claim: Values are above l^-9.
  finding: Values of {above.seeds} seeds lie at {above:.1f}.
  stands_on: {above: holds}
  key_numbers: {above: value}
---

(fig99-toy)=
# Toy Fig. 99 · a toy

```{code-cell} ipython3
:tags: [parameters]

labels: list[str] = ["plain"]  # {plain, fail, diverge, slow, kill}: what happens
rate: float = 0.5  # (0, 1]: size of the numbers
seeds: int = 3  # [1, 100]: independent runs
```

```{code-cell} ipython3
:tags: [remove-input]

import companion

parameters = companion.parameters("toy/fig99_toy", globals())
run = companion.run("toy/fig99_toy", progress=print, **parameters)
page = companion.Page(run)
```

```{code-cell} ipython3
:tags: [hide-input]

page.table.head()
```

```{code-cell} ipython3
:tags: [remove-input]

page.key_numbers()
```

## Audit

```{code-cell} ipython3
:tags: [remove-input]

page.audit()
```
"""

# Another study, notebooks/toy/fig97_study/: its files.
TOY_STUDY = {
    "experiment.py": '''
"""A toy experiment: the value of a seed is the seed."""

import pandas as pd

from companion.jobs import Job


def jobs(parameters):
    return [
        Job(f"seed{seed}", compute, {"rate": parameters["rate"], "seed": seed})
        for seed in range(parameters["seeds"])
    ]


def compute(*, rate, seed, device, report):
    return pd.DataFrame({"value": [rate * seed]})
''',
    "reading.py": '''
"""What the toy says."""

from companion.over_seeds import sample
from companion.statements import Statement

STATEMENTS = [
    Statement(
        "above", "Values are above 1.", source="Figure 97", of=lambda t, p: sample(t, "value"), above=1,
        matters=0.1, because="it is a toy", headline=True,
    ),
]  # fmt: skip
''',
    "profiles.yaml": "smoke: {seeds: 1}\nquick: {seeds: 6}\n",
    "notebook.md": (
        TOY_NOTEBOOK.replace("fig99_toy", "fig97_study")
        .replace("99", "97")
        .replace('labels: list[str] = ["plain"]  # {plain, fail, diverge, slow, kill}: what happens\n', "")
    ),
}


TOY = {"experiment.py": TOY_EXPERIMENT, "reading.py": TOY_READING, "notebook.md": TOY_NOTEBOOK}


def write_study(root, slug="fig97_study", files=TOY_STUDY):
    """Write a toy study into the checkout at ``root``; its folder."""
    folder = root / "notebooks" / "toy" / slug
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def forget_toys():
    """Have the toy studies imported anew, from wherever the next checkout is."""
    from alignbook import code

    code.forget()
    for name in [name for name in sys.modules if name.startswith("companion.studies.toy")]:
        del sys.modules[name]


class Checkout:
    """A small checkout with one toy notebook, and its command in a process of its own."""

    def __init__(self, folder, forks=None, sources=True):
        self.root, self.forks = folder, forks
        if sources:
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
        study = write_study(folder, "fig99_toy", TOY)
        self.experiment, self.reading, self.notebook = (study / name for name in TOY)
        self.profiles = {}
        self.profile("smoke", "{labels: [plain], rate: 1.0, seeds: 1}")
        self.profile("quick", "{labels: [plain], rate: 0.5, seeds: 3}")
        self.profile("paper", "{labels: [plain], rate: 1e-1, seeds: 4}")
        self.results = folder / "data" / "results"

    def study(self):
        """The folder of a second toy study, which is written."""
        return write_study(self.root)

    def profile(self, name, entry):
        self.profiles[name] = entry
        text = "".join(f"{name}: {entry}\n" for name, entry in self.profiles.items())
        (self.notebook.parent / "profiles.yaml").write_text(text)

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ALIGNBOOK_")}
        own = {"PYTHONPATH": str(self.root / "src"), "PYTHONWARNINGS": "default"}
        return kept | own | {"ALIGNBOOK_RESULTS": str(self.results)} | more

    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "alignbook.cli", *arguments],
            cwd=self.root,
            env=self.environment(**environment),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a process group of its own, as in a terminal
            # A shell that runs the tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments, **environment):
        """(exit status, standard output, standard error)"""
        if all(name.startswith("ALIGNBOOK_") for name in environment):
            command = ["-m", "alignbook.cli", *arguments]
            return self.forks.run(command, self.root, self.environment(**environment), timeout=900)
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=900)
        return process.returncode, out, err

    def call(self, *arguments, **environment):
        """Like ``run``, within this process: for what starts no worker and no kernel."""
        from alignbook import cli

        out, err = io.StringIO(), io.StringIO()
        own = {"ALIGNBOOK_ROOT": str(self.root), "ALIGNBOOK_RESULTS": str(self.results)}
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ALIGNBOOK_")]:
                patch.delenv(name)
            for name, value in (own | environment).items():
                patch.setenv(name, value)
            patch.chdir(self.root)
            forget_toys()
            try:
                status = cli.main([*arguments])
            except SystemExit as end:  # of the parser
                status = end.code
        forget_toys()
        return status, out.getvalue(), err.getvalue()

    def python(self, code, fresh=False, **environment):
        """What ``code`` prints on its last line, in a process of its own; ``fresh``: that has no imports."""
        command, environment = ["-c", code], self.environment(**environment)
        if fresh:
            command = [sys.executable, *command]
            run = subprocess.run(command, cwd=self.root, env=environment, text=True, capture_output=True)
            status, out, err = run.returncode, run.stdout, run.stderr
        else:
            status, out, err = self.forks.run(command, self.root, environment, timeout=900)
        assert status == 0, err
        return out.strip().splitlines()[-1]

    def stored(self):
        """Names of the stored jobs' files."""
        return sorted(path.name for path in self.results.glob("toy/fig99_toy/*.json"))


@pytest.fixture(scope="session")
def forks():
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(scope="session")
def new_checkout(forks):
    """Makes a checkout in a folder, for tests that share one."""
    return functools.partial(Checkout, forks=forks)


@pytest.fixture
def checkout(tmp_path, new_checkout):
    return new_checkout(tmp_path / "checkout")


@pytest.fixture
def here(tmp_path):
    """A checkout without sources, for commands that are called in this process."""
    return Checkout(tmp_path / "checkout", sources=False)


@pytest.fixture(scope="session")
def browser():
    """Chromium, one per worker: playwright allows one at a time in a process."""
    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if executable is None:
        if os.environ.get("ALIGNBOOK_REQUIRE_BROWSER"):
            pytest.fail("no Chromium on this machine")
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=flags)
        yield chromium
        chromium.close()
