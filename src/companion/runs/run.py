"""Run a study: find the jobs that its parameters ask for, compute those that are missing, and load all.

Each job is stored as soon as it comes back, so that a run that was killed goes on where it stopped.
"""

import itertools
import json
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from alignbook import code, paths
from alignbook.errors import AlignbookError, fault
from companion.jobs import Job
from companion.runs import notebooks, parameters, pool, results
from companion.runs.job import choose_device, computed, require_data

RECOMPUTE = ("missing", "stale", "all")
FAITHFUL = tuple(name for name in parameters.PROFILES if name != "smoke")  # they reproduce something


class Stale(UserWarning):
    """Results are shown whose code or data have changed since."""


@dataclass(frozen=True)
class Run:
    """A notebook's results."""

    name: str
    profile: str | None  # whose values these are
    near: str  # the profile from which the fewest values differ
    parameters: dict  # the values of all
    stored: list[results.Stored]  # one per job
    joined: list[results.Stored] = ()  # what is stored of a more faithful profile that the page shows, too
    joined_profile: tuple = (None, 0)  # that profile, and how many jobs it has

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
            more = {k: v for k, v in item.job.arguments.items() if isinstance(v, str | int | float | bool)}
            more["unit"] = item.job.name
            if self.joined:
                more["joined"] = position >= len(self.stored)
            tables.append(item.table)
            added.append(more)
        if not tables:
            return pd.DataFrame({"unit": []})
        known = {name for table in tables for name in table}
        for place, (table, more) in enumerate(zip(tables, added, strict=True)):
            # A column of one job that is an argument of another.
            if lacking := {name: more[name] for name in more if name in known and name not in table}:
                tables[place] = table.assign(**lacking)
        # Arguments one column at a time, of thousands of jobs each.
        places = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        names = dict.fromkeys(name for more in added for name in more if name not in known)
        columns = {
            name: pd.Series([more.get(name, np.nan) for more in added]).take(places).array for name in names
        }
        return pd.concat(tables, ignore_index=True).assign(**columns)

    @property
    def diverged(self) -> list[str]:
        """Names of the jobs whose loss stopped being finite."""
        return [item.job.name for item in self.shown if item.diverged]

    @cached_property
    def stale(self) -> dict[str, list[str]]:
        """Reasons by file name, of the jobs whose code or data have changed since."""
        reasons = {results.file_name(item.job): item.stale() for item in self.shown}
        return {name: why for name, why in reasons.items() if why}


def run(
    name: str,
    *,
    profile: str | None = None,
    device: str = "auto",
    workers: int | None = None,
    scheduler=None,
    recompute: str | None = None,
    progress: Callable[[str], None] | None = None,
    **overrides,
) -> Run:
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
        Its ``table`` has one row per measurement; :func:`companion.judge` has the verdicts on it.

    Raises
    ------
    AlignbookError
        For bad input, missing data or a job that fails; and where there is no checkout of the book.

    Notes
    -----
    What is stored already is not computed again. Cost: from seconds (smoke) to hours (paper);
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
    how = {"device": device, "workers": workers, "scheduler": scheduler}
    return run_values(notebook, values, recompute=recompute, progress=progress, **how)


def run_values(
    notebook: notebooks.Notebook,
    values: dict,
    *,
    device: str = "auto",
    workers: int | None = None,
    scheduler=None,
    recompute: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Like :func:`run`, of the resolved ``values`` of all parameters."""
    jobs = jobs_of(notebook, values)
    recompute = default_recompute(jobs) if recompute is None else recompute
    if recompute not in RECOMPUTE:
        raise AlignbookError(f"recompute must be one of {', '.join(RECOMPUTE)}, not {recompute!r}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise AlignbookError(f"workers must be a whole number, at least 1, not {workers!r}")
    if scheduler is None and device != "auto":
        choose_device(device)
    code.forget()
    stored = {job.name: None if recompute == "all" else results.fetch(job) for job in jobs}
    if recompute == "stale":
        stored |= {name: None for name, item in stored.items() if item and item.stale()}
    if others := sum(device not in ("auto", item.kind) for item in stored.values() if item):
        remedy = "--recompute all computes them again"
        line = f"{others} of {len(jobs)} jobs are stored, but not made on {device}; {remedy}"
        warnings.warn(line, stacklevel=2)
    if waiting := [job for job in jobs if stored[job.name] is None]:
        results.require_writable()
        if progress:
            progress(f"{len(jobs) - len(waiting)} of {len(jobs)} jobs stored, computing {len(waiting)}")
        compute_and_store(waiting, device=device, workers=workers, scheduler=scheduler, progress=progress)
        stored |= {job.name: results.fetch(job) for job in waiting}
        if lost := [name for name, item in stored.items() if item is None]:
            raise AlignbookError(f"results vanished from the store while running: {', '.join(lost)}")
    profile = parameters.profile_of(notebook, values)
    run = _run(notebook, profile, values, [stored[job.name] for job in jobs])
    if stale := run.stale:
        warnings.warn(stale_line(stale, len(run.shown)), Stale, stacklevel=3)
    return run


def default_recompute(jobs):
    """``missing``, or ``stale`` for a study that is being written: the book brings no results of it."""
    return "missing" if results.in_book(jobs) else "stale"


def stale_line(stale, count):
    """One line on ``stale``, {file name: reasons}, of ``count`` stored results."""
    reasons = ", ".join(sorted({reason for why in stale.values() for reason in why}))
    remedy = "--recompute stale computes them again"
    return f"{len(stale)} of {count} stored results are stale ({reasons}): {remedy}"


def load(notebook, profile):
    """The stored :class:`Run` of ``notebook`` at ``profile``, or None when any job is missing or broken."""
    return load_values(notebook, parameters.resolve(notebook, profile), profile)


def load_values(notebook, values, profile=None):
    """Like :func:`load`, of the ``values`` of all its parameters."""
    jobs = jobs_of(notebook, values)
    if not all(map(results.exists, jobs)):
        return None  # without reading any
    stored = [results.fetch(job) for job in jobs]
    return None if None in stored else _run(notebook, profile, values, stored)


def most_faithful(notebook):
    """The stored :class:`Run` of the most faithful profile (paper, then quick), or None."""
    runs = (load(notebook, profile) for profile in FAITHFUL)
    return next((run for run in runs if run), None)


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
    with in_one_line(f"{notebook.name}: no jobs for these parameters"):
        jobs = list(experiment.jobs(values))
        names = [job.name for job in jobs]
        for job in jobs:
            json.dumps(job.arguments, allow_nan=False)
    if len(set(names)) != len(names):
        again = sorted({name for name in names if names.count(name) > 1})
        raise AlignbookError(f"{notebook.name}: these parameters ask twice for {', '.join(again)}")
    return jobs


@contextmanager
def in_one_line(what: str):
    """What an experiment's or a reading's code raises inside becomes one line: ``what``, and where."""
    try:
        yield
    except AlignbookError:
        raise
    except Exception as error:
        raise AlignbookError(f"{what} ({fault(error)})") from error


def compute_and_store(
    jobs: list[Job],
    *,
    device: str = "auto",
    workers: int | None = None,
    scheduler=None,
    progress: Callable[[str], None] | None = None,
    admits: Callable[[Job], bool] | None = None,
) -> None:
    """Compute ``jobs`` and store each as it comes back.

    ``admits(job)`` is asked before a job begins here, not on a cluster: whether it does at all.
    """
    count = itertools.count(1)

    def done(job, result):
        _store(job, result, host=result.host if scheduler is not None else None)
        if progress:
            progress(f"{job.name}: {result.summary}; {next(count)} of {len(jobs)}")

    if scheduler is not None:
        pool.compute_on_cluster(jobs, partial(computed, device=device), scheduler, done=done)
        return
    device = choose_device(device)
    require_data(jobs)
    workers = min(workers or pool.jobs_at_once(device), len(jobs))
    task = partial(computed, device=device, report=progress is not None)
    pool.compute(jobs, task, workers=workers, done=done, admits=admits)


def _store(job, result, host):
    where = {"device": result.device, "processor": result.processor, "host": host, "step": result.step}
    try:
        results.store(job, result.table, result.origin, wall_time=result.seconds, cost=result.cost, **where)
    except OSError as error:  # a full disk, a folder that cannot be made
        where, why = paths.shown(paths.results()), error.strerror or error
        raise AlignbookError(f"cannot store job {job.name} in {where}: {why}") from None
