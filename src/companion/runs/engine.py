"""Run a notebook's experiment: its jobs side by side, each stored as soon as it is done.

What is stored is not computed again, so a run that was killed goes on where it stopped. Each job
runs on one thread of a worker process: the numbers do not depend on how many run at once.
"""

import json
import math
import multiprocessing
import os
import platform
import queue
import signal
import threading
import time
import traceback
import warnings
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from alignbook import checkpoints, paths, system
from alignbook.errors import AlignbookError, Diverged, fault, logged, on_one_line
from companion import findings
from companion.claims import Claim, KeyNumber, needed
from companion.over_seeds import SEED
from companion.runs import digest, notebooks, parameters, plans, results, verified
from companion.statements import judged

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


_worker_reports = None  # in a worker of ours, where its jobs report
RECOMPUTE = ("missing", "stale", "all")


class Stale(UserWarning):
    """Results are shown whose code or data have changed since."""


FAITHFUL = tuple(name for name in parameters.PROFILES if name != "smoke")  # they reproduce something


@dataclass(frozen=True)
class Run:
    """A notebook's results.

    Attributes
    ----------
    name : str
        The notebook.
    profile : str or None
        The profile whose values these are.
    near : str
        The profile from which the fewest values differ.
    parameters : dict
        Values of all its parameters.
    stored : list of Stored
        One per job: its ``job``, its ``table`` (a DataFrame, or None where it diverged) and its
        ``provenance`` (a dict).
    joined : list of Stored
        Of a more faithful profile that is not stored whole, what is stored of it, for a page that shows both.
    joined_profile : tuple
        That profile, and how many jobs it has.
    """

    name: str
    profile: str | None
    near: str
    parameters: dict
    stored: list
    joined: list = ()
    joined_profile: tuple = (None, 0)

    @property
    def shown_profile(self) -> str:
        """``quick``, ``quick, in part paper`` or, for values of one's own, ``custom``."""
        own = self.profile or "custom"
        return f"{own}, in part {self.joined_profile[0]}" if self.joined else own

    @property
    def shown(self) -> list["results.Stored"]:
        """Everything that the page shows, ``stored`` and ``joined``."""
        return [*self.stored, *self.joined]

    @cached_property
    def table(self) -> pd.DataFrame:
        """All finished jobs, one below the other, with their scalar arguments as columns.

        Where jobs of another profile are shown beside, a column ``joined`` tells them.
        """
        tables, added = [], []
        for position, item in enumerate(self.shown):
            if item.diverged:
                continue
            scalars = {k: v for k, v in item.job.arguments.items() if isinstance(v, str | int | float | bool)}
            more = {k: v for k, v in scalars.items() if k not in item.table} | {"unit": item.job.name}
            if self.joined:
                more["joined"] = position >= len(self.stored)
            tables.append(item.table)
            added.append(more)
        if not tables:
            return pd.DataFrame({"unit": []})
        names = {tuple(more) for more in added}
        if len(names) > 1:  # some jobs have columns that others have as arguments, or not at all
            tables = [table.assign(**more) for table, more in zip(tables, added, strict=True)]
            return pd.concat(tables, ignore_index=True)
        # Every job has the same: one column at a time, of thousands of jobs each.
        places = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        columns = {name: pd.Series([more[name] for more in added]).take(places).array for name in added[0]}
        return pd.concat(tables, ignore_index=True).assign(**columns)

    @property
    def diverged(self) -> list[str]:
        """Names of the jobs whose loss stopped being finite."""
        return [item.job.name for item in self.shown if item.diverged]

    @property
    def stale(self) -> dict[str, list[str]]:
        """Reasons by file name, of the jobs whose code or data have changed since."""
        reasons = {results.file_name(item.job): item.stale() for item in self.shown}
        return {name: why for name, why in reasons.items() if why}

    @property
    def stale_line(self) -> str:
        """What is stale and how to mend it; empty where nothing is."""
        return stale_line(self.stale, len(self.shown))

    @cached_property
    def claims(self) -> list[Claim]:
        """The paper's claims, decided on these results; at profile smoke and near it, none is."""
        with self._told("claims"):
            claims = self._judged(self.table)
        if self.near == "smoke":
            return [claim.not_judged("profile smoke reproduces nothing") for claim in claims]
        claims = [replace(claim, needed=self._needed(claim)) for claim in claims]
        planned = self._judged_elsewhere()
        return [
            replace(planned.get(claim.id, claim), headline=claim.headline, part=claim.part)
            for claim in claims
        ]

    @cached_property
    def numbers(self) -> list[Claim]:
        """What the page tells without a verdict: claims without an outcome."""
        listed = getattr(notebooks.find(self.name).reading, "NUMBERS", ())
        with self._told("numbers"):
            return [number for one in listed for number in one.measured(self.table, self.parameters)]

    def _judged(self, table):
        notebook = notebooks.find(self.name)
        try:
            return judged(notebook.reading.STATEMENTS, table, self.parameters, notebook.parts)
        except AlignbookError as error:
            raise AlignbookError(f"{self.name}: {error}") from error

    def _judged_elsewhere(self):
        """{id: claim} of those that runs of a plan judge in place of a page's own, see :mod:`plans`."""
        found = {}
        for plan in plans.of(self.name):
            wanted = set(plan.judges) - found.keys()
            # A plan's own runs have no profile, so that this asks no further.
            nearer = (plan.profile, self.profile) == ("paper", "quick")
            if not wanted or not (nearer or plan.profile == self.profile) or plan.values == self.parameters:
                continue
            run = load_values(notebooks.find(self.name), plan.values)
            for claim in run.claims if run else ():
                if claim.id in wanted:
                    runs = f"profile {plan.profile}, {plan.differs}" if nearer else plan.differs
                    found[claim.id] = replace(claim, runs=runs)
        return found

    def _needed(self, claim):
        """What would decide an open ``claim``: how many more values, core hours as stored, and why."""
        need = needed(claim)
        if need is None or need["seeds"] is None:
            return need and need | {"core_hours": None}
        # Of a part of the page there may be more seeds than of the others.
        seeds = max(self.parameters.get("seeds", 0), claim.seeds) if claim.what == SEED else claim.seeds
        spent = sum(item.cost for item in self.joined or self.stored)  # on which verdicts rest
        return need | {"core_hours": round(need["seeds"] * spent / seeds / 3600, 2)}

    @property
    def headline(self) -> Claim:
        """The claim that the notebook exists for."""
        return next(claim for claim in self.claims if claim.headline)

    @cached_property
    def finding(self) -> "findings.Finding":
        """What was seen, with its caveat; numbers are those of claims and of ``numbers``."""
        front = notebooks.find(self.name).front
        with self._told("finding"):
            return findings.of(front, self.claims, self.numbers)

    @property
    def key_numbers(self) -> list[KeyNumber]:
        """At most three numbers, each with ``what``, ``here`` and ``paper``: ours beside the paper's."""
        front = notebooks.find(self.name).front
        with self._told("key numbers"):
            return findings.key_numbers(front, self.claims, self.numbers)

    def _told(self, name):
        """The table may come from elsewhere, with the right digest and with text where numbers belong."""
        return _told(f"{self.name}: no {name} from {self._folders()}")

    def _folders(self):
        folders = {results.location(item.job).parent for item in self.shown}
        return ", ".join(map(paths.shown, sorted(folders)))


def run(
    name,
    *,
    profile=None,
    device="auto",
    workers=None,
    scheduler=None,
    recompute=None,
    progress=None,
    **overrides,
):
    """Compute or load the results of notebook ``name``, e.g. ``random_labels/fig02_misalignment``.

    Parameters
    ----------
    name : str
        E.g. ``random_labels/fig02_misalignment``; a beginning will do where only one notebook has it.
    profile : {"smoke", "quick", "paper"}, optional
        By default the notebook's own values, which are those of quick.
    device : {"auto", "cpu", "cuda"}
        For what is computed. What is stored may be of another, which is warned about where the device is
        named.
    workers : int, optional
        Processes at once, by default one per core, or one on a GPU, where several share it.
    scheduler : str or distributed.Client, optional
        A Dask cluster that computes instead, or its address.
    recompute : {"missing", "stale", "all"}, optional
        What is computed: jobs without a result, jobs whose code or data have changed, too, or all. By
        default ``missing``, with a warning where a result is stale; ``stale`` for a study of your own, of
        which the book brings no results.
    progress : callable, optional
        ``progress(text)`` for lines of progress, by default none.
    **overrides : object
        Any parameter of the notebook.

    Returns
    -------
    Run
        Its ``table`` has one row per measurement, its ``claims`` the verdicts.

    Raises
    ------
    AlignbookError
        For bad input, missing data or a job that fails; and where there is no checkout of the book.

    Notes
    -----
    What is stored already is not computed again. Workers are processes that import the calling script: put
    the call below ``if __name__ == "__main__":``. Cost: from seconds (smoke) to hours (paper);
    ``alignbook run NAME --dry-run`` says how many core hours.

    Examples
    --------
    >>> import companion
    >>> run = companion.run("signal_propagation/cor01", profile="quick")  # which is stored
    >>> run.name, len(run.stored)
    ('signal_propagation/cor01_equilibrium', 28)
    >>> sorted(run.table["kind"].unique())[:2]
    ['backward', 'equilibrium']
    """
    notebook = notebooks.find(name)
    values = parameters.resolve(notebook, profile, overrides)
    jobs = jobs_of(notebook, values)
    recompute = default_recompute(jobs) if recompute is None else recompute
    stored = run_jobs(
        jobs, device=device, workers=workers, scheduler=scheduler, recompute=recompute, progress=progress
    )
    made = _run(notebook, parameters.profile_of(notebook, values), values, stored)
    if made.stale:
        warnings.warn(made.stale_line, Stale, stacklevel=2)
    return made


def default_recompute(jobs):
    """``missing``, or ``stale`` for a study that is being written: the book brings no results of it."""
    return "missing" if results.in_book(jobs) else "stale"


def stale_line(stale, count):
    """One line on ``stale``, {file name: reasons}, of ``count`` stored results; empty where nothing is."""
    reasons = ", ".join(sorted({reason for why in stale.values() for reason in why}))
    remedy = "--recompute stale computes them again"
    return f"{len(stale)} of {count} stored results are stale ({reasons}): {remedy}" if stale else ""


def load(notebook, profile):
    """The stored :class:`Run` of ``notebook`` at ``profile``, or None when any job is missing or broken."""
    return load_values(notebook, parameters.resolve(notebook, profile), profile)


def load_values(notebook, values, profile=None):
    """Like :func:`load`, of the ``values`` of all its parameters."""
    jobs = jobs_of(notebook, values)
    if not all(map(results.exists, jobs)):
        return None
    stored = [results.fetch(job) for job in jobs]
    return None if None in stored else _run(notebook, profile, values, stored)


def most_faithful(notebook):
    """The stored :class:`Run` of the most faithful profile (paper, then quick), or None."""
    runs = (load(notebook, profile) for profile in FAITHFUL)
    return next((run for run in runs if run), None)


def filed(notebook, profile):
    """Whether the files of all jobs of ``notebook`` at ``profile`` are there, whatever is in them."""
    return all(map(results.exists, jobs_of(notebook, parameters.resolve(notebook, profile))))


def _run(notebook, profile, values, stored):
    near = profile or parameters.nearest_profile(notebook, values)
    fuller = getattr(notebook.experiment, "JOINED", {}).get(profile)
    if fuller is None:
        return Run(notebook.name, profile, near, values, stored)
    jobs = jobs_of(notebook, parameters.resolve(notebook, fuller))
    joined = [item for item in map(results.fetch, jobs) if item is not None]
    return Run(notebook.name, profile, near, values, stored, joined, (fuller, len(jobs)))


def jobs_of(notebook, values):
    """The jobs that ``values`` ask for; their names are unique and their arguments JSON."""
    experiment = notebook.experiment
    with _told(f"{notebook.name}: no jobs for these parameters"):
        jobs = list(experiment.jobs(values))
        names = [job.name for job in jobs]
        for job in jobs:
            json.dumps(job.arguments, allow_nan=False)
    if len(set(names)) != len(names):
        again = sorted({name for name in names if names.count(name) > 1})
        raise AlignbookError(f"{notebook.name}: these parameters ask twice for {', '.join(again)}")
    return jobs


@contextmanager
def _told(what):
    """What an experiment's code raises inside becomes one line: ``what``, and where it was raised."""
    try:
        yield
    except AlignbookError:
        raise
    except Exception as error:
        raise AlignbookError(f"{what} ({fault(error)})") from error


def run_jobs(jobs, *, device="auto", workers=None, scheduler=None, recompute="missing", progress=None):
    """Every job's :class:`results.Stored`, in order, computing what is missing."""
    say = progress or (lambda text: None)
    if recompute not in RECOMPUTE:
        raise AlignbookError(f"recompute must be one of {', '.join(RECOMPUTE)}, not {recompute!r}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise AlignbookError(f"workers must be a whole number, at least 1, not {workers!r}")
    device_asked = device
    if scheduler is None:
        device = choose_device(device)
    digest.forget()
    verified.forget()
    found = {job.name: None if recompute == "all" else results.fetch(job) for job in jobs}
    stale = [name for name, item in found.items() if item and item.stale()] if recompute == "stale" else []
    found |= dict.fromkeys(stale)
    waiting = [job for job in jobs if found[job.name] is None]
    if others := sum(device_asked not in ("auto", item.kind) for item in found.values() if item):
        warnings.warn(
            f"{others} of {len(jobs)} jobs are stored, but not made on {device_asked}; "
            "--recompute all computes them again",
            stacklevel=2,
        )
    if waiting:
        results.require_writable()
        if scheduler is None:
            require_data(waiting)
        workers = min(workers or jobs_at_once(device), len(waiting))
        say(f"{len(jobs) - len(waiting)} of {len(jobs)} jobs stored, computing {len(waiting)}")
        # A job that another process stored meanwhile is taken from there, unless it is to be replaced.
        task = partial(compute_one, device=device, replace=recompute == "all" or bool(stale))
        if scheduler is None:
            in_workers(waiting, task, workers, say, done=lambda job, text: say(f"{job.name}: {text}"))
        else:
            from companion.runs import cluster

            cluster.compute(waiting, scheduler, device=device, say=say)
        found.update({job.name: results.fetch(job) for job in waiting})
        lost = [name for name, item in found.items() if item is None]
        if lost:
            raise AlignbookError(f"results vanished from the store while running: {', '.join(lost)}")
    return [found[job.name] for job in jobs]


def in_workers(jobs, task, workers, say, *, done, until=math.inf, admits=None):
    """Call ``task(job)`` for every job in ``workers`` processes of one thread each.

    task : picklable; its jobs may ``report``, which becomes lines of progress for ``say(text)``
    done : callable(job, result), called here as jobs finish
    until : time.monotonic() at which those that still run are ended, and none is begun
    admits : callable(job) → bool, asked when a worker is free: whether the job is begun at all

    Raises AlignbookError for the first job that fails, once those in hand are finished.
    """
    finished_jobs, began = 0, time.monotonic()
    crew = (_kept or {}).pop(workers, None) or _Crew(workers)
    waiting, pending = deque(jobs), {}

    def begin(most):
        with system.environment(WORKER_ENVIRONMENT), _interrupts_ignored():
            while waiting and len(pending) < most:
                job = waiting.popleft()
                if admits is None or admits(job):
                    pending[crew.pool.submit(task, job)] = job

    most = len(jobs) if admits is None else workers
    begin(most)
    shares, failure, told = {}, None, 0.0
    sound = False
    try:
        while pending:
            left = until - time.monotonic()
            finished, _ = wait(pending, timeout=max(0, min(1.0, left)), return_when=FIRST_COMPLETED)
            _drain(crew.reports, shares)
            for future in [f for f in pending if f in finished]:  # in order: the first failure is told
                job = pending.pop(future)
                try:
                    done(job, future.result())
                    finished_jobs += 1
                except BrokenProcessPool:
                    failure = failure or AlignbookError(
                        "a worker process ended early (out of memory? or a script that calls companion.run "
                        "outside \"if __name__ == '__main__':\"?); finished jobs are stored"
                    )
                except AlignbookError as error:
                    failure = failure or error
            if failure:
                for future in pending:
                    future.cancel()
                break
            begin(most)
            # A job's last report may arrive after its result.
            running = [job.name for job in pending.values() if job.name in shares]
            if time.monotonic() - told > 5 and running:
                told = time.monotonic()
                lines = [f"{name} {shares[name][0]:.0%} {shares[name][1]}".strip() for name in running]
                say(f"[{finished_jobs}/{len(jobs)} jobs, {told - began:.0f} s] {', '.join(lines)}")
            if pending and left <= 0:
                crew.terminate()
                break
        sound = not pending and not failure
    except BaseException:
        crew.terminate()
        raise
    finally:
        if _kept is not None and sound:
            _kept[workers] = crew
        else:
            crew.close()
    if failure:
        raise failure


class _Crew:
    """Worker processes of one thread each, and the queue of what they report."""

    def __init__(self, workers):
        context = multiprocessing.get_context("spawn")
        self.reports = context.Queue()
        self.pool = ProcessPoolExecutor(
            workers, context, initializer=_enter_worker, initargs=(os.getpid(), self.reports)
        )

    def terminate(self):
        for process in list((self.pool._processes or {}).values()):
            process.terminate()

    def close(self):
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.reports.close()
        self.reports.cancel_join_thread()


_kept = None  # inside kept_workers: {how many: those of the last run that ended well}


@contextmanager
def kept_workers():
    """Inside, workers of one run go on to the next: each new one imports PyTorch, which takes seconds."""
    global _kept
    _kept = {}
    try:
        yield
    finally:
        for crew in _kept.values():
            crew.close()
        _kept = None


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


def compute_one(job, device, replace):
    """Compute ``job`` in a worker and store it, unless another process did meanwhile; says how it ended.

    replace : whether a stored result is computed anew
    """
    try:
        with results.claimed(job):
            with warnings.catch_warnings(action="ignore"):  # a broken result: the parent has said so
                already = not replace and results.fetch(job) is not None
            if already:
                return "stored by another run"
            return _compute_and_store(job, device)
    except OSError as error:  # a full disk, a folder that cannot be made
        where, why = paths.shown(paths.results()), error.strerror or error
        raise AlignbookError(f"cannot store job {job.name} in {where}: {why}") from None


def _compute_and_store(job, device):
    origin = results.origin(job)
    table, step, elapsed, cost = compute(job, device)
    made_on = {"device": describe(device), "processor": system.features(device)}
    results.store(job, table, origin, **made_on, wall_time=elapsed, cost=cost, step=step)
    return ended(step, elapsed)


def ended(step, seconds):
    """How a job ended, as a text: ``step`` after which it diverged, or None."""
    return f"{'done' if step is None else f'diverged: {Diverged(step)}'} in {seconds:.1f} s"


def compute(job, device):
    """(table, steps until it diverged or None, seconds, cost) of ``job``, in a worker; nothing is stored.

    The table is None when it diverged; cost : seconds that it takes where no checkpoint is found.
    Raises AlignbookError, one line, when it fails.
    """
    import torch

    from alignbook.kernels.products import float32_convolutions

    began, spared = time.monotonic(), checkpoints.spared()
    last = [0.0]

    def report(done, text=""):
        if time.monotonic() - last[0] > 0.5:
            last[0] = time.monotonic()
            if _worker_reports is None:  # a cluster's worker: its jobs only say that they have begun
                return
            _worker_reports.put((job.name, float(done), text))

    step = None
    try:
        with float32_convolutions():
            table = job.compute(**job.arguments, device=torch.device(device), report=report)
    except Diverged as error:
        table, step = None, error.step
    except AlignbookError:
        raise
    except Exception as error:
        raise AlignbookError(_failure(job, error)) from None
    if step is None and getattr(table, "empty", True):
        raise AlignbookError(f"job {job.name} of {results.owner(job)} failed: no table with rows")
    seconds = time.monotonic() - began
    return table, step, seconds, seconds + checkpoints.spared() - spared


def _failure(job, error):
    """One line; the traceback goes to a file that the line names."""
    where = logged(f"{results.owner(job)}-{job.name}", traceback.format_exc())
    what = f"{type(error).__name__}: {on_one_line(error)}"
    return f"job {job.name} of {results.owner(job)} failed: {what}{where}"


def require_data(jobs):
    """Have the data sets of ``jobs`` at hand. Raises DataError where one cannot be had."""
    from alignbook.data import tables

    for name in sorted({name for job in jobs for name in results.datasets(job).values()}):
        tables.fetch(name)


def choose_device(device):
    """``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``. Raises AlignbookError where it cannot be had."""
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise AlignbookError(f"device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise AlignbookError("device cuda was asked for, but torch finds no CUDA device")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def jobs_at_once(device):
    """How many where nobody says it: one per core, or one on a GPU."""
    return 1 if device == "cuda" else system.cores()


def describe(device):
    """What ``cpu`` or ``cuda`` is here: on the same processor, rounding is the same."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    name = system.processor("model name") or platform.machine()
    family, model = system.processor("cpu family"), system.processor("model")
    kind = f" (family {family}, model {model})" if family and model else ""
    return f"{name}{kind}, 1 thread"


def _enter_worker(parent, reports):
    global _worker_reports
    _worker_reports = reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports.cancel_join_thread()  # after a failure nobody reads on, and a full pipe would hold the worker
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent):
    """End with the parent: a pool's workers outlive one that was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _drain(reports, shares):
    while True:
        try:
            name, share, text = reports.get_nowait()
        except (queue.Empty, OSError):
            return
        shares[name] = (share, text)
