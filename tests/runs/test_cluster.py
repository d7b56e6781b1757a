"""Jobs on a real Dask scheduler with real workers: same bits, what gets lost, other versions and data."""

import importlib.metadata
import json
import os
import signal
import socket
import sys
import warnings

import numpy as np
import pytest

from companion.runs import pool
from tests.conftest import ROOT, Checkout

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

    def _process(self, *arguments, root=None, first=(), **environment):
        root = root or self.checkout.root
        environment["ALIGNBOOK_ROOT"] = str(root)
        path = os.pathsep.join(map(str, (*first, ROOT / "src")))
        own = self.checkout.environment(PYTHONPATH=path, **environment)
        return self.checkout.forks.start(START, arguments, root, own)

    def worker(self, root=None, first=(), data=None, nthreads="1"):
        """``first``: folders that its Python looks into before the checkout; ``data``: that of its data."""
        options = ("--nthreads", nthreads, "--death-timeout", "60", "--no-nanny", "--no-dashboard")
        more = {"ALIGNBOOK_DATA": data} if data else {}
        self.workers.append(self._process("worker", self.address, *options, root=root, first=first, **more))

    def wait(self):
        """Until all workers are there."""
        with warnings.catch_warnings(action="ignore"):  # of other versions
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


def last_line(err):
    assert "Traceback" not in err
    return err.strip().splitlines()[-1]


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


def test_a_worker_of_other_code_is_refused_by_name(checkout, cluster, tmp_path):
    other = Checkout(tmp_path / "other")
    other.change("* rate", "* rate * 2")
    cluster.worker(root=other.root)
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    assert status == 2 and not checkout.tables()
    assert "worker tcp://127.0.0.1:" in last_line(err)
    assert "is refused: the experiment's code is another" in last_line(err)


def test_a_worker_of_another_version_or_with_threads_is_refused(checkout, cluster, tmp_path):
    # Another NumPy by what its packages say of themselves, which is where versions are read.
    packages = tmp_path / "packages/numpy-1.2.3.dist-info/METADATA"
    packages.parent.mkdir(parents=True)
    packages.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.2.3\n")
    cluster.worker(first=[tmp_path / "packages"])
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    version = importlib.metadata.version("numpy")
    assert status == 2 and f"is refused: numpy 1.2.3 there, {version} here" in last_line(err)
    cluster.workers.pop().kill()
    cluster.worker(nthreads="2")
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    assert status == 2 and "start it with --nthreads 1" in last_line(err) and not checkout.tables()


def archive(folder, shift):
    """Digits of random pixels; ``shift`` moves the labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (20, 28, 28), np.uint8)
    labels = ((np.arange(20) + shift) % 10).astype(np.uint8)
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    folder.mkdir()
    classes = np.array([str(digit) for digit in range(10)])
    np.savez(folder / "digits28.npz", **arrays, classes=classes)
    return str(folder)


def test_data_of_workers_are_those_here_or_of_the_first(checkout, cluster, tmp_path):
    checkout.change('"label": label', '"dataset": "digits28", "label": label')
    checkout.change("def compute(*,", "def compute(*, dataset,")
    ours, others = archive(tmp_path / "ours", 0), archive(tmp_path / "others", 1)
    cluster.worker(data=others)
    cluster.wait()
    run = (*RUN, "--scheduler", cluster.address)
    status, _, err = checkout.run(*run, ALIGNBOOK_DATA=ours)
    assert status == 2 and "is refused: its data are others (digits28)" in last_line(err)
    status, _, err = checkout.run(*run, ALIGNBOOK_DATA=str(tmp_path / "none"))
    assert status == 0, err
    assert len({json.loads(path.read_text())["data"]["sha256"] for path in checkout.records()}) == 1


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "localhost:8786", "nonsense://localhost:1", ""])
def test_no_scheduler_is_one_line(here, address, monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE", 0.5)
    status, _, err = here.call(*RUN, "--scheduler", address)
    assert status == 2 and "scheduler" in last_line(err) and address in last_line(err)


def test_without_dask_it_says_what_to_install(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, err = here.call(*RUN, "--scheduler", "tcp://127.0.0.1:9")
    assert status == 2 and "install alignbook[cluster]" in err
