"""Names that moved to the modules run, job and pool."""
# ruff: noqa: F401

import math
import time

from companion.runs import pool
from companion.runs.job import choose_device, compute, describe, require_data
from companion.runs.pool import WORKER_ENVIRONMENT, jobs_at_once, open_workers as kept_workers
from companion.runs.run import (
    FAITHFUL,
    Run,
    Stale,
    default_recompute,
    filed,
    jobs_of,
    load,
    load_values,
    most_faithful,
    run,
    run_jobs,
    stale_line,
)


def in_workers(jobs, task, workers, say, *, done, until=math.inf):
    pool.compute(jobs, task, workers=workers, done=done, admits=lambda job: time.monotonic() < until)
