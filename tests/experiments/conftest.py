"""Every study's smoke run: computed once a suite, and shared by all workers that test it."""

import fcntl
import os
import pickle
import time
from dataclasses import dataclass
from functools import cache

import pytest

from companion.runs import notebooks, parameters
from tests import judging


@dataclass(frozen=True)
class Smoke:
    """A study's results at profile smoke.

    parameters : values of all its parameters; table : of all jobs, their arguments as columns
    jobs; tables, seconds, progress : what each computed, how long it took, which shares it reported
    """

    parameters: dict
    jobs: list
    tables: list
    seconds: list
    progress: list

    @property
    def table(self):
        return judging.joined(self.jobs, self.tables)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """smoke(name): the :class:`Smoke` of the study called ``name``."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "smoke"
    folder.mkdir(exist_ok=True)

    @cache
    def of(name):
        file = folder / f"{name.replace('/', '-')}.pickle"
        with open(file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                file.write_bytes(pickle.dumps(_computed(name, folder)))
        book = notebooks.find(name)
        values = parameters.resolve(book, "smoke")
        return Smoke(values, book.experiment.jobs(values), *pickle.loads(file.read_bytes()))

    return of


def _computed(name, folder):
    book = notebooks.find(name)
    tables, seconds, progress = [], [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALIGNBOOK_RESULTS", str(folder))  # where trained networks are kept
        for job in book.experiment.jobs(parameters.resolve(book, "smoke")):
            began, shares = time.monotonic(), []
            tables.append(
                judging.compute(job, report=lambda share, text="", shares=shares: shares.append(share))
            )
            seconds.append(time.monotonic() - began)
            progress.append(shares)
    return tables, seconds, progress


@pytest.fixture(scope="session")
def computed():
    """computed(experiment, parameters): the table of all jobs, with their arguments as columns."""

    def table(experiment, values):
        jobs: list = experiment.jobs(values)
        return judging.joined(jobs, [judging.compute(job) for job in jobs])

    return table
