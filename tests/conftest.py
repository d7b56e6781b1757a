"""Fixtures: a checkout of its own for tests that break things."""

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from alignbook import cli, code
from companion.runs import pool, results
from tests.forked import Forks

# Tests run side by side, and the threads of many small products would wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "import sys; from alignbook.cli import main; sys.exit(main())"

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
  figure: Toy Fig. 99
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

TOY = {"experiment.py": TOY_EXPERIMENT, "reading.py": TOY_READING, "notebook.md": TOY_NOTEBOOK}


def write_study(root, slug, files):
    """Write a toy study into the checkout at ``root``; its folder."""
    folder = root / "notebooks" / "toy" / slug
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def forget_toys():
    """Have the toy studies imported anew, from wherever the next checkout is."""
    code.forget()
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("companion.studies.toy")]:
        del sys.modules[name]


def in_this_process(jobs, task, *, workers, done, admits=None):
    """Stands in for ``pool.compute``."""
    for job in jobs:
        if admits is None or admits(job):
            done(job, task(job))


class Checkout:
    """A small checkout with one toy notebook."""

    def __init__(self, folder, forks=None):
        self.root, self.forks, self.profiles = folder, forks, {}
        study = write_study(folder, "fig99_toy", TOY)
        self.experiment, self.reading, self.notebook = (study / name for name in TOY)
        self.profile("smoke", "{labels: [plain], rate: 1.0, seeds: 1}")
        self.profile("quick", "{labels: [plain], rate: 0.5, seeds: 3}")
        self.profile("paper", "{labels: [plain], rate: 1e-1, seeds: 4}")
        self.results = folder / "data" / "results"

    def profile(self, name, entry):
        self.profiles[name] = entry
        text = "".join(f"{name}: {entry}\n" for name, entry in self.profiles.items())
        (self.notebook.parent / "profiles.yaml").write_text(text)

    def change(self, old, new, path=None):
        """Replace a part of the experiment or of another file."""
        path = path or self.experiment
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def environment(self, **more):
        others = {name: text for name, text in os.environ.items() if not name.startswith("ALIGNBOOK_")}
        own = {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "default"}
        own |= {"PYTHONDONTWRITEBYTECODE": "1"}  # what changes within a second would be taken for the same
        own |= {"ALIGNBOOK_ROOT": str(self.root), "ALIGNBOOK_RESULTS": str(self.results)}
        return others | own | more

    def start(self, *arguments, code=COMMAND, at=None, **environment):
        """The command in a process of its own, a :class:`tests.forked.Fork`; ``at``: its working folder."""
        return self.forks.start(code, arguments, at or self.root, self.environment(**environment))

    def run(self, *arguments, **environment):
        """(exit status, standard output, standard error) of the command in a process of its own."""
        return self.start(*arguments, **environment).ended()

    def fresh(self, *arguments, code=COMMAND, **options):
        """The CompletedProcess of the command in an interpreter that starts from nothing."""
        defaults = {"cwd": self.root, "env": self.environment(), "text": True}
        defaults |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.run([sys.executable, "-c", code, *arguments], **defaults | options)

    def call(self, *arguments, **environment):
        """The same, within this process, as the fixture ``here`` has it."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in environment.items():
                patch.setenv(name, value)
            forget_toys()
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                try:
                    status = cli.main([*arguments])
                except SystemExit as end:  # of the parser
                    status = end.code
        return status, out.getvalue(), err.getvalue()

    def json(self, *arguments, **environment):
        """What ``call`` prints with ``--json``."""
        return json.loads(self.call(*arguments, "--json", **environment)[1])

    def stored(self):
        """Names of the stored jobs' files."""
        return sorted(path.name for path in self.results.glob("toy/fig99_toy/*.json"))

    def tables(self):
        """{name: content} of the stored tables."""
        return {path.name: path.read_bytes() for path in self.results.glob("toy/fig99_toy/*.csv")}

    def records(self):
        """Paths of the stored jobs' provenance."""
        return sorted(self.results.glob("toy/fig99_toy/*.json"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all workers of the suite share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def forks():
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def checkout(tmp_path, forks):
    return Checkout(tmp_path / "checkout", forks)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A checkout as this process's own, where jobs are computed, too."""

    for name in [name for name in os.environ if name.startswith("ALIGNBOOK_")]:
        monkeypatch.delenv(name)
    checkout = Checkout(tmp_path / "checkout")
    monkeypatch.setenv("ALIGNBOOK_ROOT", str(checkout.root))
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(checkout.results))
    monkeypatch.chdir(checkout.root)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(pool, "compute", in_this_process)
    monkeypatch.setattr(pool, "open_workers", nullcontext)
    results.commit.cache_clear()
    forget_toys()
    yield checkout
    results.commit.cache_clear()
    forget_toys()


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
