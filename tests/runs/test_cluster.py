"""Jobs on a real Dask scheduler with real workers: same bits, what gets lost, other versions."""

import importlib.metadata
import json
import os
import re
import signal
import socket
import tempfile
import time
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

from alignbook.errors import AlignbookError
from companion.runs.cluster import _connected

distributed = pytest.importorskip("distributed")

RUN = ("run", "toy/fig99_toy", "--no-notebook", "--json")
START = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"


class Cluster:
    """A scheduler and workers, each a process, with the code of a checkout."""

    def __init__(self, checkout):
        self.checkout, self.workers = checkout, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start()

    def _process(self, *arguments, root=None, first=(), data=None):
        root = root or self.checkout.root
        path = os.pathsep.join(map(str, (*first, root / "src")))
        more = {"PYTHONPATH": path, **({"ALIGNBOOK_DATA": data} if data else {})}
        with open(os.devnull, "r+") as null:
            return self.checkout.forks.start(
                ["-c", START, *arguments], root, self.checkout.environment(**more), [null] * 3
            )

    def start(self):
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-jupyter")
        self.scheduler = self._process("scheduler", *where)

    def worker(self, root=None, first=(), data=None, **options):
        """``first``: folders that its Python looks into before the checkout; ``data``: that of its data."""
        options = {"nthreads": "1", "death-timeout": "60", **options}
        more = [text for name, value in options.items() for text in (f"--{name}", value)]
        arguments = ("--no-nanny", "--no-dashboard", *more)
        process = self._process("worker", self.address, *arguments, root=root, first=first, data=data)
        self.workers.append(process)

    def wait(self):
        """Until all workers are there."""
        with warnings.catch_warnings(action="ignore"), self.client() as client:  # of other versions
            client.wait_for_workers(len(self.workers), timeout=60)

    def client(self):
        return distributed.Client(self.address, set_as_default=False)

    def stop(self):
        for process in (*self.workers, self.scheduler):
            process.kill()


@pytest.fixture
def cluster(checkout):
    made = Cluster(checkout)
    yield made
    made.stop()


def csvs(folder):
    return {path.name: path.read_bytes() for path in folder.glob("toy/fig99_toy/*.csv")}


def records(checkout):
    return [json.loads(path.read_text()) for path in checkout.results.glob("toy/fig99_toy/*.json")]


def test_same_bits_while_a_job_ends_three_workers(checkout, cluster):
    for _ in range(4):
        cluster.worker(resources="job=1")
    checkout.profile("quick", "{labels: [plain, diverge, kill], rate: 0.5, seeds: 3}")
    checkout.profile("paper", "{labels: [plain, diverge], rate: 0.5, seeds: 3}")
    status, _, err = checkout.run(
        *RUN, "-p", "labels=[plain, diverge]", "--scheduler", cluster.address, ALIGNBOOK_RESULTS="here"
    )
    assert status == 0, err
    here = csvs(checkout.root / "here")
    checkout.run(*RUN, "--profile", "paper")
    assert here == csvs(checkout.results) and len(here) == 6
    checkout.run(*RUN, "--profile", "paper", "--recompute", "all", "--scheduler", cluster.address)
    assert all(record["host"] for record in records(checkout))
    # Each of the three kills a worker of its own: the first to be set aside has ended three.
    status, _, err = checkout.run(*RUN, "-p", "seeds=1", "--scheduler", cluster.address)
    assert status == 2 and "Traceback" not in err
    assert "job kill-seed0 of toy/fig99_toy ended 3 workers and is set aside" in err
    assert [process.poll() for process in cluster.workers].count(None) == 1


def test_a_worker_of_another_version_is_refused_by_name(checkout, new_checkout, cluster, tmp_path):
    other = new_checkout(tmp_path / "other")
    other.experiment.write_text(other.experiment.read_text().replace("* rate", "* rate * 2"))
    # Another NumPy by what its packages say of themselves, which is where versions are read.
    told = tmp_path / "packages/numpy-1.2.3.dist-info/METADATA"
    told.parent.mkdir(parents=True)
    told.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.2.3\n")
    cluster.worker(root=other.root)
    cluster.worker(first=[tmp_path / "packages"])
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    refused = re.findall(r"^\S*worker (tcp://127\.0\.0\.1:\d+) is refused: (.*)$", err, re.M)
    version = importlib.metadata.version("numpy")
    assert {why for _, why in refused} == {
        "the experiment's code is another",
        f"numpy 1.2.3 there, {version} here",
    }, err
    assert "no worker may compute: worker tcp://127.0.0.1:" in err.strip().splitlines()[-1]
    assert status == 2 and len({address for address, _ in refused}) == 2 and not csvs(checkout.results)
    cluster.worker()
    cluster.wait()
    status, _, err = checkout.run(*RUN, "--scheduler", cluster.address)
    assert status == 0 and len(csvs(checkout.results)) == 3, err


def told(checkout):
    """Numbers of the processes that have begun a job, one per job."""
    path = checkout.root / "told"
    return [int(line) for line in path.read_text().split()] if path.is_file() else []


@contextmanager
def asking(checkout, cluster, *arguments, **environment):
    """An asker that takes 8 s for a silence, and what it has said so far."""
    code = "import sys; from alignbook.cli import main; from companion.runs import cluster; "
    code += "cluster.SILENCE, cluster.TELL_EVERY = 8, 0.5; sys.exit(main())"
    command = ["-c", code, *RUN, *arguments, "--scheduler", cluster.address]
    with tempfile.TemporaryFile() as err, open(os.devnull, "r+") as null:
        environment = checkout.environment(**environment)
        fork = checkout.forks.start(command, checkout.root, environment, (null, null, err))
        yield fork, lambda: os.pread(err.fileno(), 1 << 20, 0).decode()
        fork.kill()


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_askers_share_while_a_worker_freezes_and_another_is_ended(checkout, cluster):
    toy = checkout.experiment.read_text()
    telling = "    open('told', 'a').write(f'{os.getpid()}\\n')\n    time.sleep(0.5)\n"
    checkout.experiment.write_text(toy.replace("    if label ==", telling + "    if label ==", 1))
    for _ in range(2):
        cluster.worker(resources="job=1")
    cluster.wait()
    many = "-p", "seeds=8"
    with (
        asking(checkout, cluster, *many, ALIGNBOOK_RESULTS="one") as (one, said),
        asking(checkout, cluster, *many, ALIGNBOOK_RESULTS="two") as (two, _),
    ):
        until(lambda: len(set(told(checkout))) == 2)
        frozen, alive = cluster.workers
        os.kill(frozen.pid, signal.SIGSTOP)
        assert (one.wait(60), two.wait(60)) == (0, 0), said()
        assert re.search(r"worker tcp://127\.0\.0\.1:\d+ is silent and dropped", said())
    stored = [csvs(checkout.root / store) for store in ("one", "two")]
    assert stored[0] == stored[1] and len(stored[0]) == 8
    assert len(told(checkout)) == 9  # the job in the frozen worker's hand began twice
    # A job that ends its worker, which was the last: it waits for the others and ends no second one.
    checkout.profile("quick", "{labels: [kill, plain], rate: 0.5, seeds: 1}")
    with asking(checkout, cluster) as (asker, said):
        until(lambda: "1 jobs done" in said() or "no workers (" in said())
        assert alive.wait(30) == -signal.SIGKILL
        cluster.worker(resources="job=1")
        assert asker.wait(60) == 2, said()
        last = said().strip().splitlines()[-1]
    assert "job kill-seed0 of toy/fig99_toy ended a worker and is set aside; it is not tried on the" in last
    assert len(csvs(checkout.results)) == 1 and cluster.workers[-1].poll() is None


def test_workers_take_as_many_jobs_as_they_have_resources(checkout, cluster):
    """As on a GPU, one job at a time whatever the threads; beside it a worker that takes two."""
    told = "    open('told', 'a').write(f'{os.getpid()} SIGN\\n')\n"
    working = told.replace("SIGN", "+") + "    time.sleep(0.3)\n" + told.replace("SIGN", "-")
    toy = checkout.experiment.read_text()
    checkout.experiment.write_text(toy.replace("    draws =", working + "    draws ="))
    cluster.worker(nthreads="4", resources="job=1")
    cluster.worker(nthreads="4", resources="job=2")
    cluster.wait()
    status, _, err = checkout.run(*RUN, "-p", "seeds=12", "--scheduler", cluster.address)
    assert status == 0, err
    running, most = Counter(), Counter()
    for line in (checkout.root / "told").read_text().splitlines():
        worker, what = line.split()
        running[int(worker)] += 1 if what == "+" else -1
        most[int(worker)] = max(most[int(worker)], running[int(worker)])
    assert most == dict(zip((process.pid for process in cluster.workers), (1, 2), strict=True))


def test_a_scheduler_that_is_lost_and_back_and_an_asker_that_is_killed(checkout, cluster):
    checkout.experiment.write_text(checkout.experiment.read_text().replace("time.sleep(60)", "time.sleep(3)"))
    checkout.profile("quick", "{labels: [plain, slow], rate: 0.5, seeds: 3}")
    cluster.worker()
    asker = checkout.start(*RUN, "--scheduler", cluster.address)
    deadline = time.monotonic() + 60
    while len(csvs(checkout.results)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(asker.pid, signal.SIGKILL)
    asker.communicate()
    stored = {path: path.stat().st_mtime_ns for path in checkout.results.glob("toy/*/*.csv")}
    assert 2 <= len(stored) < 6
    asker = checkout.start(*RUN, "--scheduler", cluster.address)
    while len(csvs(checkout.results)) <= len(stored) and time.monotonic() < deadline:
        time.sleep(0.1)
    cluster.scheduler.kill()
    assert cluster.workers[0].wait(30) is not None  # so that a loop of the shell starts it again
    cluster.start()
    cluster.worker()
    out, err = asker.communicate(timeout=120)
    assert asker.returncode == 0 and "Traceback" not in err, err
    assert len(csvs(checkout.results)) == 6
    assert all(path.stat().st_mtime_ns == before for path, before in stored.items())


def test_no_scheduler_is_one_line(checkout):
    code = "from companion.runs import cluster, engine\ncluster.PATIENCE = 1\n"
    code += (
        "try:\n    engine.run('fig99', profile='quick', scheduler={!r})\nexcept Exception as e:\n    print(e)"
    )
    assert "no scheduler at tcp://127.0.0.1:9" in checkout.python(code.format("tcp://127.0.0.1:9"))


@pytest.mark.parametrize(
    "address",
    ["nonsense://x", "nonsense://localhost:1", "localhost:8786", "tcp://localhost", "tcp://localhost:99999",
     "tls://localhost:8786", "ucx://localhost:8786", "tcp://no.such.host.invalid:8786", "", "tcp://a b:1"],
)  # fmt: skip
def test_a_bad_address_is_one_line_at_once(address):
    began = time.monotonic()
    with pytest.raises(AlignbookError, match="is no address of a scheduler") as error:
        _connected(distributed, address, print)
    assert time.monotonic() - began < 3 and len(str(error.value).splitlines()) == 1


def test_without_dask_it_says_what_to_install(checkout, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError")
    path = os.pathsep.join((str(tmp_path), str(checkout.root / "src")))
    status, _, err = checkout.run(*RUN, "--scheduler", "tcp://127.0.0.1:9", PYTHONPATH=path)
    assert status == 2 and "install alignbook[cluster]" in err


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


def test_workers_of_other_data_or_none_are_refused_and_never_mixed(checkout, cluster, tmp_path):
    text = checkout.experiment.read_text().replace('"label": label', '"dataset": "digits28", "label": label')
    text = text.replace("def compute(*,", "def compute(*, dataset,")
    text = text.replace("    draws =", "    time.sleep(0.5)\n    draws =")
    checkout.experiment.write_text(text)
    ours, others = archive(tmp_path / "ours", 0), archive(tmp_path / "others", 1)
    for folder in (ours, others, str(tmp_path / "none")):
        cluster.worker(data=folder)
    cluster.wait()
    status, _, err = checkout.run(
        *RUN, "-p", "seeds=8", "--scheduler", cluster.address, ALIGNBOOK_DATA=ours, ALIGNBOOK_RESULTS="first"
    )
    assert status == 0, err
    refused = re.findall(r"worker \S+ is refused: (.*)$", err, re.M)
    assert len(refused) == 2 and "its data are others (digits28)" in refused, err
    assert any("no image set 'digits28'" in why for why in refused)
    status, _, err = checkout.run(  # nothing at hand: the first that returns says which data count
        *RUN, "-p", "seeds=8", "--scheduler", cluster.address, ALIGNBOOK_DATA=str(tmp_path / "none")
    )
    assert status == 0 and len(re.findall("is refused", err)) == 2, err
    stored = records(checkout)
    assert len({record["data"]["sha256"] for record in stored}) == 1 and len(stored) == 8
