"""Compute the plans that decide what is open.

``alignbook decide --hours 5`` computes the missing jobs of :mod:`companion.runs.plans`, the cheapest first.
What is stored is not computed again, so an interrupted session loses the jobs in hand alone.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from alignbook import code, system
from alignbook.errors import AlignbookError
from companion.runs import costs, notebooks, plans, pool, results, run

NICE = 19  # the lowest priority: whoever works on the machine goes first


@dataclass(frozen=True)
class Work:
    """What a plan still asks for: ``missing`` of its jobs, and the ``seconds`` that each may take."""

    plan: plans.Plan
    jobs: list
    missing: list
    seconds: list

    @property
    def hours(self):
        """Core hours that are left."""
        return sum(self.seconds) / 3600


def queue(names=()):
    """The :class:`Work` of every plan that is not through, the cheapest first.

    names : notebooks, as :func:`notebooks.find` takes them; none: all
    """
    wanted, works = {notebooks.find(name).name for name in names}, []
    for plan in plans.every():
        if plan.decides and (not wanted or plan.notebook in wanted):
            jobs = run.jobs_of(notebooks.find(plan.notebook), plan.values)
            if missing := [job for job in jobs if results.peek(job) is None]:
                share = 3600 * plan.expected_core_hours / len(jobs)
                seconds = [share if cost is None else cost for cost in costs.expected(missing, most=0)]
                works.append(Work(plan, jobs, missing, seconds))
    return sorted(works, key=lambda work: work.hours)


def work(
    hours: float,
    *,
    names: list[str] = (),
    workers: int | None = None,
    scheduler=None,
    device: str = "auto",
    say: Callable[[str], None],
) -> int:
    """Compute missing jobs of the plans for ``hours``, at the lowest priority; returns how many it stored.

    names : as in :func:`queue`. workers, scheduler, device : as in :func:`companion.run`. Only jobs that are
    expected to end in time are begun. A plan whose job fails is reported and left, the others go on.
    """
    if not hours > 0:
        raise AlignbookError("hours must be above 0")
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    code.forget()
    how = {"device": device, "workers": workers, "scheduler": scheduler, "progress": say}
    until, stored, waiting = time.monotonic() + 3600 * hours, 0, queue(names)
    if waiting:
        results.require_writable()
    with pool.open_workers():
        for number, item in enumerate(waiting, 1):
            head = f"[plan {number}/{len(waiting)}] {item.plan}"
            if lacking := _lacks(item.plan.needs):
                say(f"{head}: left out, this machine has no {lacking}")
                continue
            if time.monotonic() + min(item.seconds) > until:
                say(f"{head}: left for now, a job takes about {min(item.seconds):.0f} s, more than is left")
                continue
            missing = f"{len(item.missing)} of {len(item.jobs)} jobs missing"
            say(f"{head}: {missing}, {item.hours:.1f} core hours")
            seconds = {results.location(job): s for job, s in zip(item.missing, item.seconds, strict=True)}

            def fits(job, seconds=seconds):
                return time.monotonic() + seconds[results.location(job)] <= until

            try:
                run.compute_and_store(item.missing, admits=fits, **how)
            except AlignbookError as error:
                say(f"{head}: {error}")
            stored += sum(map(results.exists, item.missing))
    return stored


def _lacks(feature):
    """``feature`` (``bfloat16``, ``cuda`` or None) where this machine has not got it, else None."""
    if feature == "cuda":
        import torch

        return None if torch.cuda.is_available() else feature
    if feature == "bfloat16":  # instructions of the processor; emulated, they take a hundred times as long
        flags = (system.processor("flags") or "").split()
        return None if {"avx512_bf16", "amx_bf16"} & set(flags) else feature
    return feature
