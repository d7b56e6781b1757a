"""From parameters to stored results: every notebook from nothing, beside an earlier commit.

``python -m benchmarks.notebooks [NAME ...]`` takes an hour and more on two cores: no part of ``make bench``.
Both sides are checkouts of commits, so that what is not committed counts on neither.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alignbook import notebooks, parameters
from alignbook.errors import AlignbookError

from . import harness, machine

BEFORE = "6f1ef019e5e1"  # the last commit before the first kernel that this package measures
DIGESTS = """
import json
import sys
from alignbook import digest, engine, notebooks, parameters
book = notebooks.find(sys.argv[1])
units = engine.units_of(book, parameters.resolve(book, sys.argv[2]))
print(json.dumps({unit.name: digest.code_digest(unit.compute) for unit in units}))
"""


class Failed(Exception):
    """A commit is not there, or a run of it fails; the text is one line."""


class Side:
    """A commit's checkout in ``folder``, with a store of its own that begins empty."""

    def __init__(self, commit, folder, profile):
        self.folder, self.store = Path(folder) / "code", Path(folder) / "results"
        self.commit = _git(machine.ROOT, "rev-parse", "--short=12", f"{commit}^{{commit}}").strip()
        _git(machine.ROOT, "clone", "--quiet", "--no-checkout", ".", str(self.folder))
        _git(self.folder, "checkout", "--quiet", "--detach", self.commit)
        self.profile = profile

    def digests(self, name):
        """{unit: digest of the code that computes it}, as this commit names and computes them."""
        return json.loads(self._python("-c", DIGESTS, name, self.profile))

    def measure(self, name, workers):
        """{"commit", "seconds", "units": {unit: seconds}} of computing what ``name`` lacks in the store."""
        known = self._stored()
        begun = time.perf_counter()
        options = ["--profile", self.profile, "--no-notebook", "--device", "cpu", "--workers", str(workers)]
        self._python("-m", "alignbook.cli", "run", name, *options, quiet=False)
        seconds = time.perf_counter() - begun
        records = [json.loads(path.read_text()) for path in self._stored() - known]
        units = {record["unit"]: record["wall_time_s"] for record in records}
        return {"commit": self.commit, "seconds": seconds, "units": dict(sorted(units.items()))}

    def _stored(self):
        return set(self.store.rglob("*.json"))

    def _python(self, *arguments, quiet=True):
        paths = {
            "PYTHONPATH": str(self.folder / "src"),
            "ALIGNBOOK_ROOT": str(self.folder),
            "ALIGNBOOK_RESULTS": str(self.store),
        }
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command,
            env=os.environ | paths,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
        )
        if done.returncode:
            lines = (done.stderr or "").strip().splitlines()
            raise Failed(f"{self.commit}: status {done.returncode}{': ' + lines[-1] if lines else ''}")
        return done.stdout


def compare(name, before, after, workers):
    """The record of one notebook, a dict for JSON; ``before`` is None where its code is the same.

    before, after : :class:`Side`
    """
    old, new = before.digests(name), after.digests(name)
    changed = any(new.get(unit) != digest for unit, digest in old.items())
    measured = after.measure(name, workers)
    return {
        "title": name,
        "profile": after.profile,
        "before": before.measure(name, workers) if changed else None,
        "after": measured,
        "environment": machine.environment("cpu", workers) | {"commit": after.commit, "changed": False},
    }


def main(arguments=None):
    """Exit status: 0; 2 when a commit or notebook is not there or a run fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a notebook; all by default")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="default: %(default)s")
    parser.add_argument("--after", default="HEAD", metavar="COMMIT", help="default: %(default)s")
    parser.add_argument("--profile", choices=parameters.PROFILES, default="quick", help="default: quick")
    parser.add_argument("--results", type=Path, default=harness.RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args(arguments)
    every = [notebook.name for notebook in notebooks.every()]
    try:
        names = [notebooks.find(name).name for name in chosen.names] or every
        with contextlib.ExitStack() as stack:
            folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2)]
            before = Side(chosen.before, folders[0], chosen.profile)
            after = Side(chosen.after, folders[1], chosen.profile)
            for name in names:
                print(name, file=sys.stderr, flush=True)
                record = compare(name, before, after, machine.cores())
                harness.keep(chosen.results, "cpu", "notebooks", name, record, every)
    except (AlignbookError, Failed) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    return 0


def _git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"git {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
