"""Jobs on a real Dask scheduler with real workers: same bits, what gets lost, other versions and data."""

import json
import signal
import socket
import sys

import pytest

from companion.runs import notebooks, parameters, pool, results
from companion.runs.run import jobs_of
from tests.conftest import Checkout
from tests.runs.test_run import last_line

distributed = pytest.importorskip("distributed")

RUN = ("run", "toy/fig99_toy", "--no-notebook", "--json")
START = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"


class Cluster:
    """A scheduler and workers, each a process, with the code of a checkout."""

    def __init__(self, checkout):
        self.checkout, self.workers = checkout, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-jupyter")
        self.scheduler = self._process("scheduler", *where)

    def _process(self, *arguments, root=None):
        root = root or self.checkout.root
        return self.checkout.forks.start(
            START, arguments, root, self.checkout.environment(ALIGNBOOK_ROOT=str(root))
        )

    def worker(self, root=None, nthreads="1"):
        options = ("--nthreads", nthreads, "--death-timeout", "60", "--no-nanny", "--no-dashboard")
        self.workers.append(self._process("worker", self.address, *options, root=root))

    def wait(self):
        """Until all workers are there."""
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=120)

    def stop(self):
        for process in (*self.workers, self.scheduler):
            process.kill()


@pytest.fixture
def cluster(checkout):
    started = Cluster(checkout)
    yield started
    started.stop()


def test_same_bits_as_here_while_a_worker_is_killed(checkout, cluster):
    once = "    if not os.path.exists('k'):\n        open('k', 'w').close()\n        os.kill(os.getpid(), 9)"
    checkout.change("    draws =", f"{once}\n    draws =")
    for _ in range(2):
        cluster.worker()
    cluster.wait()
    run = (*RUN, "-p", "labels=[plain, diverge]")
    status, _, err = checkout.run(*run, "--scheduler", cluster.address, ALIGNBOOK_RESULTS="there")
    assert status == 0, err
    assert [process.wait(0) for process in cluster.workers].count(-signal.SIGKILL) == 1
    checkout.run(*run)
    there = {path.name: path.read_bytes() for path in (checkout.root / "there").rglob("*.csv")}
    assert there == checkout.tables() and len(there) == 6
    hosts = [json.loads(path.read_text())["host"] for path in (checkout.root / "there").rglob("*.json")]
    assert len(hosts) == 6 and all(hosts)


def test_a_job_that_raises_is_told_at_the_end_and_the_others_are_stored(checkout, cluster):
    cluster.worker()
    cluster.wait()
    labels = ("-p", "labels=[fail, plain]", "-p", "seeds=1")
    status, _, err = checkout.run(*RUN, *labels, "--scheduler", cluster.address)
    assert status == 2 and "job fail-seed0 of toy/fig99_toy failed: ZeroDivisionError" in last_line(err)
    assert [name.split("-seed")[0] for name in checkout.stored()] == ["plain"]


def test_a_worker_of_other_code_or_with_threads_is_refused_by_name(checkout, cluster, tmp_path):
    other = Checkout(tmp_path / "other")
    other.change("* rate", "* rate * 2")
    cluster.worker(root=other.root)
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    assert status == 2 and not checkout.tables()
    assert "worker tcp://127.0.0.1:" in last_line(err)
    assert "is refused: the experiment's code is another" in last_line(err)
    cluster.workers.pop().kill()
    cluster.worker(nthreads="2")
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    assert status == 2 and "start it with --nthreads 1" in last_line(err) and not checkout.tables()


def test_another_version_and_data_other_than_here_or_of_the_first_worker_are_named(here):
    here.change('"label": label', '"dataset": "digits", "label": label')
    here.change("def compute(*,", "def compute(*, dataset,")
    book = notebooks.find("fig99")
    job = jobs_of(book, parameters.resolve(book))[0]
    origin = results.origin(job)
    here_too = {"digits": origin["data"]["sha256"]}
    assert pool._difference(job, origin, here_too) == ""
    others = origin | {"data": {"name": "digits", "sha256": "0"}}
    assert pool._difference(job, others, here_too) == "its data are others (digits)"
    of_the_first = {}
    assert pool._difference(job, others, of_the_first) == ""
    assert pool._difference(job, origin, of_the_first) == "its data are others (digits)"
    older = origin | {"versions": origin["versions"] | {"numpy": "1.2.3"}}
    assert pool._difference(job, older, here_too).startswith("numpy 1.2.3 there, ")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "localhost:8786", "nonsense://localhost:1", ""])
def test_no_scheduler_is_one_line(here, address, monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE", 0.5)
    status, _, err = here.call(*RUN, "--scheduler", address)
    assert status == 2 and "scheduler" in last_line(err) and address in last_line(err)


def test_without_dask_it_says_what_to_install(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, err = here.call(*RUN, "--scheduler", "tcp://127.0.0.1:9")
    assert status == 2 and "install alignbook[cluster]" in err
