"""From parameters to stored results: every notebook from nothing, beside an earlier commit.

``python -m benchmarks.notebooks [NAME ...]`` takes an hour and more on two cores: no part of ``make bench``.
Both sides are checkouts of commits, so that what is not committed counts on neither. The earlier one gets
the later one's parameters, as far as it knows them, so that both do the same work.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alignbook import system
from alignbook.errors import AlignbookError
from companion.runs import notebooks, parameters

from . import harness, machine

BEFORE = "6f1ef019e5e1"  # the last commit before the first kernel that this package measures
PLAN = """
import json
import sys
from companion.runs import digest, notebooks, parameters, run
book, profile, asked = notebooks.find(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
known = parameters.resolve(book, profile)
asked = {name: value for name, value in asked.items() if name in known}
values = parameters.resolve(book, profile, asked)
jobs = {job.name: digest.code_digest(job.compute) for job in run.jobs_of(book, values)}
print(json.dumps({"values": values, "asked": asked, "digests": jobs}))
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

    def plan(self, name, asked):
        """{"values": all parameters, "asked": what it knows of ``asked``, "digests": {job: of its code}}."""
        return json.loads(self._python("-c", PLAN, name, self.profile, json.dumps(asked)))

    def measure(self, name, asked, workers):
        """{"commit", "seconds", "jobs": {job: seconds}} of computing all that ``name`` needs."""
        begun = time.perf_counter()
        options = ["--profile", self.profile, "--no-notebook", "--device", "cpu", "--workers", str(workers)]
        for parameter, value in asked.items():
            options += ["-p", f"{parameter}={json.dumps(value)}"]
        self._python("-m", "companion.cli", "run", name, *options, quiet=False)
        seconds = time.perf_counter() - begun
        records = [json.loads(path.read_text()) for path in self.store.rglob("*.json")]
        jobs = {record["unit"]: record["wall_time_s"] for record in records}
        return {"commit": self.commit, "seconds": seconds, "jobs": dict(sorted(jobs.items()))}

    def _python(self, *arguments, quiet=True):
        paths = {
            "PYTHONPATH": str(self.folder / "src"),
            "ALIGNBOOK_ROOT": str(self.folder),
            "ALIGNBOOK_RESULTS": str(self.store),
            "ALIGNBOOK_DATA": os.path.abspath(os.environ.get("ALIGNBOOK_DATA") or machine.ROOT / "data"),
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
    new = after.plan(name, {})
    old = before.plan(name, new["values"])
    changed = any(new["digests"].get(job) != digest for job, digest in old["digests"].items())
    measured = after.measure(name, {}, workers)
    return {
        "title": name,
        "profile": after.profile,
        "before": before.measure(name, old["asked"], workers) if changed else None,
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
        if what := harness.unwritable(chosen.results):
            raise Failed(what)
        names = [notebooks.find(name).name for name in chosen.names] or every
        for name in names:
            print(name, file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as after:
                sides = Side(chosen.before, before, chosen.profile), Side(chosen.after, after, chosen.profile)
                record = compare(name, *sides, system.cores())
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
