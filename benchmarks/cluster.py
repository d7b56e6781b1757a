"""What a cluster costs per job: thousands of jobs of milliseconds on a real scheduler and real workers.

``python -m benchmarks.cluster`` takes about five minutes on two cores: no part of ``make bench``. Scheduler,
workers and the one who asks share the machine, so that the cost of a job is an upper bound.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alignbook.errors import AlignbookError
from companion.jobs import Job
from companion.runs.run import run_jobs
from companion.studies.representation_alignment.fig04_two_labellings import experiment as fig04_two_labellings

from . import harness, machine

NAME = "cluster"
RUNS = ((1, 1000), (2, 1000), (4, 1000), (4, 10_000))  # (workers, jobs)
READY = 120.0  # seconds that scheduler and workers may take to start
DASK = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"


def cheap(first, count):
    """``count`` jobs of a few milliseconds, by their seeds from ``first`` on."""
    values = {"points": 100, "remaining": 0.01, "spread": 0.3, "step_size": 0.5}
    return [
        Job(f"cheap-seed{seed}", fig04_two_labellings.compute, values | {"seed": seed})
        for seed in range(first, first + count)
    ]


class Cluster:
    """A scheduler and ``workers``, a process and a thread each, on this machine; a context manager."""

    def __init__(self, workers):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.address, self.workers, self.processes = f"tcp://127.0.0.1:{port}", workers, []
        self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-jupyter")

    def __enter__(self):
        from distributed import Client

        for _ in range(self.workers):
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        try:
            with Client(self.address, timeout=READY, set_as_default=False) as client:
                client.wait_for_workers(self.workers, timeout=READY)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def _start(self, *arguments):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen([sys.executable, "-c", DASK, *arguments], **quiet))


def measure(workers, count):
    """{"workers", "jobs", "seconds", "computing"}: from asking to the last job stored; all jobs' own time.

    Before the clock starts every worker has computed jobs, so that none still imports.
    """
    with Cluster(workers) as cluster:
        run_jobs(cheap(0, 20 * workers), scheduler=cluster.address)
        jobs = cheap(1_000_000, count)
        begun = time.perf_counter()
        stored = run_jobs(jobs, scheduler=cluster.address)
        seconds = time.perf_counter() - begun
    computing = sum(item.provenance["wall_time_s"] for item in stored)
    return {"workers": workers, "jobs": count, "seconds": seconds, "computing": computing}


def main(arguments=None):
    """Exit status: 0; 2 where nothing can be kept, Dask is missing or a run fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--results", type=Path, default=harness.RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args(arguments)
    try:
        if what := harness.unwritable(chosen.results):
            raise AlignbookError(what)
        runs = []
        for workers, count in RUNS:
            print(f"{workers} workers, {count} jobs", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as store:
                os.environ["ALIGNBOOK_RESULTS"] = store
                runs.append(measure(workers, count))
    except ImportError:
        print("benchmarks: a cluster needs Dask: install alignbook[cluster]", file=sys.stderr)
        return 2
    except (AlignbookError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    record = {"title": "cluster", "runs": runs, "environment": machine.environment("cpu", 1)}
    harness.keep(chosen.results, "cpu", "clusters", NAME, record, [NAME])
    return 0


if __name__ == "__main__":
    sys.exit(main())
