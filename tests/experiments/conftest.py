"""Every study's smoke run: computed once a suite, and shared by its workers and by the book."""

import fcntl
from functools import cache

import pytest

from companion.runs import notebooks, parameters, pool
from companion.runs.run import run_values
from tests import judging
from tests.conftest import in_this_process


@pytest.fixture(scope="session")
def smoke(shared):
    """smoke(name): the Run of the study called ``name`` at profile smoke."""
    folder = shared / "book-smoke"
    folder.mkdir(exist_ok=True)

    @cache
    def of(name):
        book = notebooks.find(name)
        with pytest.MonkeyPatch.context() as patch, open(folder / f"{book.slug}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            patch.setenv("ALIGNBOOK_CHECKPOINTS", str(shared / "checkpoints"))
            patch.setenv("ALIGNBOOK_RESULTS", str(folder / "smoke-results"))  # the book's
            patch.setattr(pool, "compute", in_this_process)
            return run_values(book, parameters.resolve(book, "smoke"))

    return of


@pytest.fixture(scope="session")
def computed():
    """computed(experiment, parameters): the table of all jobs, with their arguments as columns."""

    def table(experiment, values):
        jobs: list = experiment.jobs(values)
        return judging.joined(jobs, [judging.compute(job) for job in jobs])

    return table
