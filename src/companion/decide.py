"""What is open, what would decide it, and computing the plans that do.

``alignbook decide`` lists the open claims; ``alignbook decide --hours 5`` computes the missing jobs of
:mod:`companion.runs.plans`, those first that decide a headline, then the cheapest. What is stored is not
computed again, so an interrupted session loses the jobs in hand alone.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from alignbook import code, system
from alignbook.errors import AlignbookError
from companion import records
from companion.runs import costs, notebooks, plans, pool, results, run

NICE = 19  # the lowest priority: whoever works on the machine goes first


@dataclass(frozen=True)
class OpenClaim:
    """An open claim of a page.

    notebook, claim : the notebook's name and the claim, a dict that says what it needs
    plan : the plan that is to decide it, or None; stored, jobs : how much of that plan is there
    """

    notebook: str
    claim: dict
    plan: plans.Plan | None
    stored: int
    jobs: int

    def as_dict(self):
        """It as a JSON-ready dict."""
        return {
            "notebook": self.notebook,
            **{name: self.claim[name] for name in ("id", "headline", "seeds", "needed")},
            "plan": None if self.plan is None else self.plan.changed,
            "stored": self.stored,
            "jobs": self.jobs,
        }

    def cells(self):
        """Its row of the table: value, claim, seeds, needed, core hours, plan; texts."""
        need = self.claim["needed"]
        hours = need.get("core_hours")
        return (
            "headline" if self.claim["headline"] else "",
            f"{self.notebook}#{self.claim['id']}",
            str(self.claim["seeds"]),
            f"none: {need['why']}" if need["seeds"] is None else str(need["seeds"]),
            "" if hours is None else f"{hours:.1f}",
            f"{self.stored} of {self.jobs} jobs stored" if self.plan else "none",
        )


@dataclass(frozen=True)
class Work:
    """What a plan still asks for: ``missing`` jobs, and how many ``seconds`` each is expected to take."""

    plan: plans.Plan
    jobs: list
    missing: list
    seconds: list
    headline: bool

    @property
    def hours(self):
        """Core hours that are left."""
        return sum(self.seconds) / 3600


def open_claims():
    """Every :class:`OpenClaim` of the pages as they stand, the headlines first, then the cheapest."""
    rows = []
    for name, claims in _claims(notebook.name for notebook in notebooks.every()).items():
        planned = [(plan, _jobs(plan)) for plan in plans.of(name)]
        for claim in claims:
            if claim["needed"] is not None:
                deciding = ((plan, jobs) for plan, jobs in planned if claim["id"] in plan.decides)
                plan, jobs = next(deciding, (None, []))
                stored = sum(map(results.exists, jobs))
                rows.append(OpenClaim(name, claim, plan, stored, len(jobs)))
    return sorted(rows, key=_value)


def _value(row):
    need = row.claim["needed"]
    hours = need.get("core_hours")
    return not row.claim["headline"], need["seeds"] is None, float("inf") if hours is None else hours


def queue(names=()):
    """The :class:`Work` of every plan that is not through, in the order in which it is done.

    names : notebooks, as :func:`notebooks.find` takes them; none: all
    """
    wanted, waiting = {notebooks.find(name).name for name in names}, []
    for plan in plans.every():
        if wanted and plan.notebook not in wanted:
            continue
        jobs = _jobs(plan)
        missing = [job for job in jobs if results.peek(job) is None]
        if missing:
            waiting.append((plan, jobs, missing))
    claims = _claims({plan.notebook for plan, _, _ in waiting})
    works = [
        Work(*each, _seconds(*each), _decides_headline(each[0], claims[each[0].notebook])) for each in waiting
    ]
    return sorted(works, key=lambda work: (not work.headline, work.hours))


def _seconds(plan, jobs, missing):
    """Seconds that each of ``missing`` takes: what it took with other seeds, else its share of the plan's."""
    new = [job for job in jobs if _is_new(job, plan)]
    share = 3600 * plan.expected_core_hours / max(len(new), 1)
    return [share if taken is None else taken for taken in costs.with_other_seeds(missing)]


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


def _jobs(plan):
    return run.jobs_of(notebooks.find(plan.notebook), plan.values)


def _is_new(job, plan):
    seed = job.arguments.get("seed")
    return plan.new_seeds is None or seed is None or plan.new_seeds[0] <= seed <= plan.new_seeds[1]


def _decides_headline(plan, claims):
    head = next((claim for claim in claims if claim["headline"]), None)
    if head is None:
        return True
    same = {c["id"] for c in claims if c["headline"] or (head["group"] and c["group"] == head["group"])}
    return bool(same & set(plan.decides))


def _claims(names):
    """{name: its claims, dicts} of studies; none where a result is missing."""
    judged = records.stored(names)
    for each in judged.values():
        if isinstance(each, AlignbookError):
            raise each
    return {name: [claim.as_dict() for claim in each.claims] if each else [] for name, each in judged.items()}


def _lacks(feature):
    """``feature`` (``bfloat16``, ``cuda`` or None) where this machine has not got it, else None."""
    if feature == "cuda":
        import torch

        return None if torch.cuda.is_available() else feature
    if feature == "bfloat16":  # instructions of the processor; emulated, they take a hundred times as long
        flags = (system.processor("flags") or "").split()
        return None if {"avx512_bf16", "amx_bf16"} & set(flags) else feature
    return feature
