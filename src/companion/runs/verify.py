"""Recompute a few stale results: where today's code makes the same tables, the others are fresh again, too.

A file that a study imports may change without changing a number. Of every kind of stale job the cheapest is
computed again, with checkpoints made anew, and its table is compared with the stored one. Jobs are of a kind
if they are of one profile, compute function and code, and have the same arguments apart from numbers. The
rule, written down before any outcome was seen:

- On the processor and with the versions that made the stored table, the two are the same, bit for bit.
- Elsewhere, or where the stored device does not say which processor it was, text, whole numbers and what
  is missing are the same, and every other number differs by at most :data:`TOLERANCE` of the largest
  absolute value in its column of that job's table. Training amplifies rounding: long runs may need a
  tolerance of their own; one as large as a change that matters proves nothing.
- On CUDA, where sums have no fixed order, the second rule holds everywhere.

Where all agree, every job of their kinds gets today's digest of the code, and a record of when that was found
out. Where one differs, all stay stale.
"""

import json
import math
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

import numpy as np

from alignbook import code, system
from alignbook.errors import AlignbookError
from companion.runs import notebooks, parameters, plans, pool, results
from companion.runs.job import Computed, choose_device, computed, require_data
from companion.runs.run import jobs_of

TOLERANCE = 1e-6
MINUTES = 10.0


@dataclass(frozen=True)
class Outcome:
    """How a recomputed table compares with the ``stored`` one."""

    stored: results.Stored
    largest: float  # difference as a share of its column's largest value; inf in what must be the same
    column: str | None  # where; None where the tables are the same, bit for bit
    tolerance: float  # what was allowed
    seconds: float
    code: str  # digest of the code that recomputed it
    elsewhere: str | None = None  # where it was stored, if not on this processor with these versions

    @property
    def agrees(self) -> bool:
        """Whether the difference is allowed."""
        return self.column is None or 0 < self.tolerance >= self.largest

    def __str__(self):
        name = f"{results.owner(self.stored.job)}: {results.file_name(self.stored.job)}"
        if self.column is None:
            return f"{name} agrees bit for bit ({self.seconds:.1f} s)"
        by = "in what must be the same" if math.isinf(self.largest) else f"by {self.largest:.1e}"
        allowed = f"{self.tolerance:g} allowed" if self.tolerance else "bit for bit asked for"
        verdict = "agrees: differs" if self.agrees else "DIFFERS"
        text = f"{name} {verdict} {by} in column {self.column} ({allowed}, {self.seconds:.1f} s)"
        return text + (f"; it was stored {self.elsewhere}" if self.elsewhere and not self.agrees else "")


@dataclass
class Verification:
    """How many stale jobs are fresh now by the ``outcomes``, and which are not: {reason: names}."""

    outcomes: list[Outcome] = field(default_factory=list)
    verified: int = 0
    stale: dict[str, list[str]] = field(default_factory=dict)


def verify(
    name, *, minutes=MINUTES, tolerance=None, device="auto", workers=None, progress=None
) -> Verification:
    """Recompute the cheapest stale job of each kind of notebook ``name``, and stamp all where all agree.

    minutes : for all of them; a kind that does not fit into what is left stays stale
    tolerance : in place of the module's rule, as a share of a column's largest value; 0: bit for bit
    device, workers, progress : as in :func:`companion.run`
    Raises AlignbookError for bad input or a job that fails.
    """
    say = progress or (lambda text: None)
    if not minutes > 0 or (tolerance is not None and not 0 <= tolerance < 1):
        raise AlignbookError("minutes must be above 0, the tolerance in [0, 1)")
    until = time.monotonic() + 60 * minutes
    device = choose_device(device)
    workers = workers or pool.jobs_at_once(device)
    code.forget()
    kinds, broken = _stale_kinds(notebooks.find(name))
    samples = _samples(kinds, 60 * minutes * workers)
    outcomes = {}

    def done(job, result):
        place = results.location(job)
        outcomes[place] = compare(samples[place], result, tolerance)
        say(str(outcomes[place]))

    def in_time(job):
        return time.monotonic() < until

    if samples:
        jobs = [item.job for item in samples.values()]
        results.require_writable()
        require_data(jobs)
        say(f"{sum(map(len, kinds))} jobs are stale by their code, recomputing {len(jobs)}")
        with tempfile.TemporaryDirectory() as checkpoints:
            task = partial(_recompute, device=device, checkpoints=checkpoints)
            pool.compute(jobs, task, workers=min(workers, len(jobs)), done=done, admits=in_time)
    verification = Verification(list(outcomes.values()), stale={"broken": broken} if broken else {})
    all_agree = all(outcome.agrees for outcome in outcomes.values())
    for items in kinds:
        outcome = outcomes.get(results.location(items[0].job))
        if outcome and all_agree:
            _stamp(items, outcome)
            verification.verified += len(items)
            continue
        reason = (
            "a recomputed table differs" if outcome else f"no time, the cheapest took {items[0].cost:.0f} s"
        )
        verification.stale.setdefault(reason, []).extend(item.job.name for item in items)
    return verification


def _stale_kinds(notebook):
    """(a list per kind of jobs that only their code makes stale, the cheapest first; names of broken ones)"""
    kinds, broken, seen = {}, [], set()
    values = [(profile, parameters.resolve(notebook, profile)) for profile in parameters.PROFILES]
    values += [(plan.profile, plan.values) for plan in plans.of(notebook.name)]
    for profile, asked in values:
        for job in jobs_of(notebook, asked):
            if (place := results.location(job)) in seen or not results.exists(job):
                continue
            seen.add(place)
            item = results.peek(job)
            if item is None:
                broken.append(job.name)
            elif item.stale() == [results.CODE]:
                arguments = json.dumps(without_numbers(job.arguments), sort_keys=True)
                kind = profile, results.owner(job), job.compute.__name__, arguments, item.provenance["code"]
                kinds.setdefault(kind, []).append(item)
    return [sorted(items, key=lambda item: item.cost) for items in kinds.values()], broken


def without_numbers(value):
    """``value`` (JSON) without the numbers in it, nor the names of those in a dict.

    >>> without_numbers({"seed": 3, "steps": [10, 40], "label": "real", "network": {"width": 8}})
    {'steps': [], 'label': 'real', 'network': {}}
    """

    def is_number(part):
        return isinstance(part, int | float) and not isinstance(part, bool)

    if isinstance(value, dict):
        return {name: without_numbers(part) for name, part in value.items() if not is_number(part)}
    if isinstance(value, list):
        return [without_numbers(part) for part in value if not is_number(part)]
    return value


def _samples(kinds, seconds):
    """{place: Stored} of the cheapest job of each kind, as far as there is time, the cheapest kinds first."""
    samples = {}
    for item in sorted((items[0] for items in kinds), key=lambda item: item.cost):
        if item.cost <= seconds and (whole := results.fetch(item.job)):  # a table may be unreadable
            seconds -= item.cost
            samples[results.location(item.job)] = whole
    return samples


def _recompute(job, device, checkpoints):
    """The :class:`Computed` of ``job``, in a worker."""
    with system.environment({"ALIGNBOOK_CHECKPOINTS": checkpoints}):
        return computed(job, device)


def _stamp(items, outcome):
    """Give ``items`` the digest of the code that recomputed one of them."""
    record = {
        "job": results.file_name(outcome.stored.job),
        "largest_difference": outcome.largest,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": results.commit(),
    }
    for item in items:
        results.stamp(item, outcome.code, record)


def compare(stored: results.Stored, result: Computed, tolerance: float | None) -> Outcome:
    """How the table that was recomputed as ``result`` compares with the ``stored`` one.

    tolerance : None is the module's rule
    """
    record, elsewhere = stored.provenance, None
    if result.device != record["device"] or "family" not in result.device:
        elsewhere = f"on {record['device']}"
    elif drift := stored.drift(result.processor["kind"]):
        elsewhere = f"with {', '.join(drift)}"
    if tolerance is None:
        tolerance = TOLERANCE if elsewhere else 0.0
    largest, column = 0.0, None
    if (stored.diverged, record["diverged_after_steps"]) != (result.step is not None, result.step):
        largest, column = math.inf, "diverged_after_steps"
    elif result.table is not None:
        text = results.written(result.table)
        largest, column = difference(stored.table, text, record["table"]["sha256"])
    return Outcome(stored, largest, column, tolerance, result.seconds, result.origin["code"], elsewhere)


def difference(old, text, sha=None):
    """(largest difference, its column) between the stored table ``old`` and the bytes ``text`` of a new one.

    A share of the largest absolute value in the column of ``old``; infinite where columns, rows, text,
    whole numbers or what is missing differ. (0.0, None) where ``sha``, the digest of the stored bytes, is
    that of ``text``.
    """
    if sha == sha256(text).hexdigest():
        return 0.0, None
    new = results.read(text)
    if list(old.columns) != list(new.columns):
        return math.inf, "names"
    if len(old) != len(new):
        return math.inf, "rows"
    shares = {column: _share(old[column], new[column]) for column in old.columns}
    column = max(shares, key=shares.get)
    return shares[column], column


def _share(old, new):
    if old.dtype.kind != "f" or new.dtype.kind != "f":
        return 0.0 if old.equals(new) else math.inf
    old, new = old.to_numpy(), new.to_numpy()
    finite = np.isfinite(old)
    if not np.array_equal(old[~finite], new[~finite], equal_nan=True):
        return math.inf
    difference = np.abs(old - new, where=finite, out=np.zeros_like(old)).max(initial=0.0)
    if difference == 0:
        return 0.0
    scale = np.abs(old[finite]).max()
    return float(difference / scale) if scale else math.inf
