"""Compute jobs side by side: in processes of this machine, by joblib, or on the workers of a Dask cluster.

Workers write nothing: what they return is handed over job by job, as it comes. Each job has one thread, so
that the numbers do not depend on how many run at once.
"""

import logging
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from alignbook import system
from alignbook.errors import AlignbookError, on_one_line
from companion.jobs import Job
from companion.runs import results

# Read when a worker starts. One thread each; and glibc keeps freed memory instead of giving it back
# after every operation, since page faults cost more than the arithmetic of a convolution (measured:
# 0.6 s against 0.3 s for a training step of Figure 2's network).
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
}
PATIENCE = 10.0  # seconds that a scheduler may take to answer


def jobs_at_once(device: str) -> int:
    """The default number of workers: one per core, or one on a GPU."""
    return 1 if device == "cuda" else system.cores()


def compute(
    jobs: list[Job],
    task: Callable,
    *,
    workers: int,
    done: Callable,
    admits: Callable[[Job], bool] | None = None,
) -> None:
    """Call ``task(job)`` for every job in ``workers`` processes, and ``done(job, result)`` here as each ends.

    ``admits(job)`` is asked before a job begins: whether it does at all. Raises the AlignbookError of the
    first job that fails, once those in hand have ended and been handed over; or where a worker is lost a
    second time. After the first time, the jobs in hand run again.
    """
    left, begun = dict(enumerate(jobs)), []
    with open_workers():
        try:
            _compute(left, begun, task, workers, done, admits)
        except BrokenProcessPool:
            for place in left.keys() & set(begun):  # one of them may have ended the worker: they go last
                left[place] = left.pop(place)
            try:
                _compute(left, begun, task, workers, done, admits)
            except BrokenProcessPool:
                raise AlignbookError(
                    "a worker process ended early, twice (out of memory?); finished jobs are stored"
                ) from None


def _compute(left, begun, task, workers, done, admits):
    """What :func:`compute` does, of the jobs {place: job} in ``left``; those that end are taken out."""
    failures = {}

    def calls():  # joblib asks for the next one when a worker is free
        for place, job in list(left.items()):
            if failures:
                return
            if admits is None or admits(job):
                begun.append(place)
                yield delayed(_attempt)(task, place, job)
            else:
                del left[place]

    # Of one worker, joblib would compute here.
    pool = Parallel(
        n_jobs=max(workers, 2),
        pre_dispatch=workers,
        batch_size=1,
        backend="loky",
        return_as="generator_unordered",
        initializer=_enter_worker,
        initargs=(os.getpid(),),
    )
    with system.environment(WORKER_ENVIRONMENT):
        with _interrupts_ignored():
            ended = pool(calls())
        try:
            for place, result, failure in ended:
                job = left.pop(place)
                if failure is None:
                    done(job, result)
                else:
                    failures[place] = failure
        finally:
            with warnings.catch_warnings(action="ignore"):  # of joblib, that jobs in hand are cancelled
                ended.close()
    if failures:
        raise failures[min(failures)]


def _attempt(task, place, job):
    """(place, result, failure) of ``job``: a failure that is raised would end the other jobs at once."""
    try:
        return place, task(job), None
    except AlignbookError as failure:
        return place, None, failure


_open = 0


@contextmanager
def open_workers():
    """Inside, workers go on from one run to the next; new ones import the code anew."""
    global _open
    _open += 1
    try:
        yield
    finally:
        _open -= 1
        if not _open:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


@contextmanager
def _interrupts_ignored():
    """Processes started inside ignore Ctrl-C, which a terminal sends to all of them: the parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change it
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _enter_worker(parent):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent):
    """End with the parent: joblib's workers go on with their job when it is killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def compute_on_cluster(jobs: list[Job], task: Callable, scheduler, *, done: Callable) -> None:
    """Like :func:`compute`, on the workers of a Dask cluster: its address, tcp://host:8786, or a client.

    Raises AlignbookError, at once where there is no scheduler, the connection is lost, or a worker used other
    code, versions or data; at the end where jobs failed or their workers ended (Dask tries a few). Not by
    joblib's backend for Dask, which waits for ever for a job that has ended several workers.
    """
    from alignbook.data import tables

    try:
        import distributed
    except ImportError:
        raise AlignbookError("a scheduler needs Dask: install alignbook[cluster]") from None
    client = _client(distributed, scheduler) if isinstance(scheduler, str) else scheduler
    names = {name for job in jobs for name in results.datasets(job).values()}
    failures, data = [], {name: tables.digest(name) for name in filter(tables.available, sorted(names))}
    futures = dict(zip(client.map(partial(_on_worker, task), jobs, pure=False), jobs, strict=True))
    try:
        for future in distributed.as_completed(list(futures), loop=client.loop):
            job = futures.pop(future)
            if future.status in ("cancelled", "lost"):
                raise AlignbookError("the connection to the scheduler was lost; finished jobs are stored")
            if future.status == "error":
                failures.append(_failure(job, future.exception()))
                continue
            computed, worker = future.result()
            if other := _difference(job, computed.origin, data):
                raise AlignbookError(f"worker {worker} is refused: {other}; finished jobs are stored")
            done(job, computed)
    finally:
        if client.status == "running":
            client.cancel(list(futures))
        if client is not scheduler:
            client.close(timeout=2)
    if failures:
        more = f" (and {len(failures) - 1} more jobs)" if len(failures) > 1 else ""
        raise AlignbookError(f"{failures[0]}{more}; finished jobs are stored")


def _on_worker(task, job):
    """(result, address of the worker) of ``job`` on a worker of a cluster."""
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    worker = get_worker()
    if worker.state.nthreads > 1:
        raise AlignbookError(f"worker {worker.address} has several threads: start it with --nthreads 1")
    with threadpool_limits(1):
        return task(job), worker.address


def _difference(job, origin, data):
    """What a worker used that is other than here, a short text; empty where nothing is.

    data : digests of the data sets here by name; of others the first worker's are noted
    """
    ours = results.origin_of_code(job)
    others = [
        f"{package} {origin['versions'].get(package)} there, {version} here"
        for package, version in ours["versions"].items()
        if origin["versions"].get(package) != version
    ]
    if ours["code"] != origin["code"]:
        others.append("the experiment's code is another")
    made_from = filter(None, (origin[field] for field in results.DATASETS.values()))
    sets = {each["name"]: each["sha256"] for each in made_from}
    if odd := [name for name, sha in sets.items() if data.setdefault(name, sha) != sha]:
        others.append(f"its data are others ({', '.join(odd)})")
    return ", ".join(others)


def _failure(job, error):
    if isinstance(error, AlignbookError):
        return str(error)
    what = f"{type(error).__name__}: {on_one_line(error)}"
    if type(error).__name__ == "KilledWorker":
        what = "its workers ended"
    return f"job {job.name} of {results.owner(job)} failed: {what}"


def _client(distributed, address):
    for name in ("distributed", "distributed.client"):  # they tell a lost connection by a traceback
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if not re.match(r"\w+://.", address):
        raise AlignbookError(
            f"{on_one_line(address)!r} is no address of a scheduler, such as tcp://host:8786"
        )
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, ImportError, RuntimeError) as error:
        raise AlignbookError(f"no scheduler at {on_one_line(address)}: {on_one_line(error)}") from None
