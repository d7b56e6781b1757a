"""What is undecided, what would decide it, and working off the plans that do.

``alignbook decide`` lists the undecided claims; ``alignbook decide --hours 5`` computes the missing jobs of
:mod:`~companion.runs.plans`, those first that decide a headline, then the cheapest. What is stored is not
computed again, so an interrupted session loses the jobs in hand alone.
"""

import time
from dataclasses import dataclass
from functools import partial

from alignbook import system
from alignbook.errors import AlignbookError
from companion.runs import costs, digest, engine, kept, notebooks, plans, results

NICE = 19  # the lowest priority: whoever works on the machine goes first


@dataclass(frozen=True)
class Undecided:
    """An undecided claim of a page.

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


def undecided():
    """Every :class:`Undecided` claim of the pages as they stand, the headlines first, then the cheapest."""
    rows, keys = [], {}
    for notebook in notebooks.every():
        planned = [(plan, _jobs(plan)) for plan in plans.of(notebook.name)]
        for claim in _claims(notebook, keys):
            if claim["needed"] is not None:
                found = ((plan, jobs) for plan, jobs in planned if claim["id"] in plan.decides)
                plan, jobs = next(found, (None, []))
                stored = sum(map(results.exists, jobs))
                rows.append(Undecided(notebook.name, claim, plan, stored, len(jobs)))
    return sorted(rows, key=_value)


def _value(row):
    need = row.claim["needed"]
    hours = need.get("core_hours")
    return not row.claim["headline"], need["seeds"] is None, float("inf") if hours is None else hours


def queue(names=()):
    """The :class:`Work` of every plan that is not through, in the order in which it is done.

    names : notebooks, as :func:`notebooks.find` takes them; none: all
    """
    wanted, found, keys = {notebooks.find(name).name for name in names}, [], {}
    for plan in plans.every():
        if wanted and plan.notebook not in wanted:
            continue
        jobs = _jobs(plan)
        missing = [job for job in jobs if results.peek(job) is None]
        if missing:
            found.append(
                Work(plan, jobs, missing, _seconds(plan, jobs, missing), _decides_headline(plan, keys))
            )
    return sorted(found, key=lambda work: (not work.headline, work.hours))


def _seconds(plan, jobs, missing):
    """Seconds that each of ``missing`` takes: what it took with other seeds, else its share of the plan's."""
    new = [job for job in jobs if _is_new(job, plan)]
    share = 3600 * plan.expected_core_hours / max(len(new), 1)
    return [share if taken is None else taken for taken in costs.with_other_seeds(missing)]


def work(hours, *, names=(), workers=None, scheduler=None, device="auto", say):
    """Compute missing jobs of the plans for ``hours``, at the lowest priority; returns how many it stored.

    names : as in :func:`queue`. workers : processes at once, by default one per core, or one on a GPU.
    scheduler : of a Dask cluster that computes instead. First come the jobs that are expected to end in time.
    Only those are begun. A plan whose job fails is told and left, the others go on.
    """
    if not hours > 0:
        raise AlignbookError("hours must be above 0")
    system.be_nice(NICE)
    digest.forget()
    until, stored = time.monotonic() + 3600 * hours, 0
    device = device if scheduler else engine.choose_device(device)
    workers = workers or engine.jobs_at_once(device)
    waiting = queue(names)
    if waiting:
        results.require_writable()
    with engine.kept_workers():
        for number, item in enumerate(waiting, 1):
            head = f"[plan {number}/{len(waiting)}] {item.plan}"
            if lacking := system.lacks(item.plan.needs):
                say(f"{head}: left out, this machine has no {lacking}")
                continue
            if time.monotonic() + min(item.seconds) > until:
                say(f"{head}: left for now, a job takes about {min(item.seconds):.0f} s, more than is left")
                continue
            missing = f"{len(item.missing)} of {len(item.jobs)} jobs missing"
            say(f"{head}: {missing}, {item.hours:.1f} core hours")
            try:
                stored += _compute(item, head, until, workers, scheduler, device, say)
            except AlignbookError as error:
                say(f"{head}: {error}")
    return stored


def _compute(item, head, until, workers, scheduler, device, say):
    """How many of its jobs are stored now; those that do not fit are left."""
    if scheduler is not None:
        from companion.runs import cluster

        cluster.compute(item.missing, scheduler, device=device, say=say)
        return sum(map(results.exists, item.missing))
    engine.require_data(item.missing)
    takes = {results.location(job): seconds for job, seconds in zip(item.missing, item.seconds, strict=True)}
    waiting = dict(takes)

    def done(job, text):
        del waiting[results.location(job)]
        end = time.strftime("%H:%M", time.localtime(time.time() + sum(waiting.values()) / workers))
        ended = len(takes) - len(waiting)
        say(f"{head}: {job.name} {text}; {ended} of {len(takes)}, to the end about {end}")

    def fits(job):
        return time.monotonic() + takes[results.location(job)] <= until

    engine.in_workers(
        item.missing,
        partial(engine.compute_one, device=device, replace=False),
        workers,
        say,
        done=done,
        admits=fits,
    )
    return len(takes) - len(waiting)


def _jobs(plan):
    return engine.jobs_of(notebooks.find(plan.notebook), plan.values)


def _is_new(job, plan):
    seed = job.arguments.get("seed")
    return plan.new_seeds is None or seed is None or plan.new_seeds[0] <= seed <= plan.new_seeds[1]


def _decides_headline(plan, keys):
    claims = _claims(notebooks.find(plan.notebook), keys)
    head = next((claim for claim in claims if claim["headline"]), None)
    if head is None:
        return True
    same = {c["id"] for c in claims if c["headline"] or (head["group"] and c["group"] == head["group"])}
    return bool(same & set(plan.decides))


def _claims(notebook, keys):
    judged = kept.claims(notebook, keys)
    return judged["claims"] if judged else []
