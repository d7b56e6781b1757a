"""Compute one job: its table, and what that was computed from, on which device and in how long."""

import platform
import time
import traceback
from dataclasses import dataclass

import pandas as pd

from alignbook import checkpoints, system
from alignbook.errors import AlignbookError, Diverged, logged, on_one_line
from companion.jobs import Job
from companion.runs import results

REPORT_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class Computed:
    """What comes back from the worker that computed a job."""

    table: pd.DataFrame | None  # None where training diverged, after so many steps
    step: int | None
    seconds: float
    cost: float  # seconds that it takes where no checkpoint is found
    origin: dict  # digests of the code and data that the worker used, its versions and commit
    device: str  # the name of the processor or GPU
    processor: dict  # what decides how it rounds, see system.features
    host: str

    @property
    def summary(self) -> str:
        """How the job ended, in a few words."""
        outcome = "done" if self.step is None else f"diverged: {Diverged(self.step)}"
        return f"{outcome} in {self.seconds:.1f} s"


def computed(job: Job, device: str = "auto", report: bool = False) -> Computed:
    """Compute ``job`` in a worker; nothing is stored. ``report``: progress goes to its standard error.

    Raises AlignbookError, one line, where the job fails or its data are missing.
    """
    device = choose_device(device)
    require_data([job])
    origin = results.origin(job)  # before computing: sources and archives may change while it runs
    table, step, seconds, cost = compute(job, device, report)
    made_on = describe(device), system.features(device), platform.node() or "unknown"
    return Computed(table, step, seconds, cost, origin, *made_on)


def compute(job: Job, device: str, report: bool = False) -> tuple:
    """(table, steps until it diverged or None, seconds, cost) of ``job``, on one thread.

    Raises AlignbookError, one line, where the job fails.
    """
    import torch

    from alignbook.kernels.products import float32_convolutions

    torch.set_num_threads(1)
    began, spared, step = time.monotonic(), checkpoints.spared(), None
    try:
        with float32_convolutions():
            table = job.compute(**job.arguments, device=torch.device(device), report=_reporter(job, report))
    except Diverged as error:
        table, step = None, error.step
    except AlignbookError:
        raise
    except Exception as error:
        where = logged(f"{results.owner(job)}-{job.name}", traceback.format_exc())
        what = f"{type(error).__name__}: {on_one_line(error)}"
        raise AlignbookError(f"job {job.name} of {results.owner(job)} failed: {what}{where}") from None
    if step is None and getattr(table, "empty", True):
        raise AlignbookError(f"job {job.name} of {results.owner(job)} failed: no table with rows")
    seconds = time.monotonic() - began
    return table, step, seconds, seconds + checkpoints.spared() - spared


def _reporter(job, report):
    last = time.monotonic()

    def tell(done, text=""):
        nonlocal last
        if report and time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            system.to_stderr(f"{job.name}: {done:.0%} {text}".rstrip())

    return tell


def require_data(jobs: list[Job]) -> None:
    """Have the data sets of ``jobs`` at hand. Raises DataError where one cannot be had."""
    from alignbook.data import tables

    for name in sorted({name for job in jobs for name in results.datasets(job).values()}):
        tables.fetch(name)


def choose_device(device: str) -> str:
    """``cpu`` or ``cuda`` for ``auto``, ``cpu`` or ``cuda``. Raises AlignbookError where it cannot be had."""
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise AlignbookError(f"device must be auto, cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise AlignbookError("device cuda was asked for, but torch finds no CUDA device")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def describe(device: str) -> str:
    """What ``cpu`` or ``cuda`` is here: on the same processor, rounding is the same."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    name = system.processor("model name") or platform.machine()
    family, model = system.processor("cpu family"), system.processor("model")
    kind = f" (family {family}, model {model})" if family and model else ""
    return f"{name}{kind}, 1 thread"
