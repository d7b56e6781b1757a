"""Recompute a few stored jobs with today's code, so that code may change without losing results.

Of every profile, every compute function and every path through it (its arguments that are no numbers) a few
stale jobs are computed again: the cheapest, and of every numeric argument the cheapest of those with its
smallest and of those with its largest value. Their tables are compared with the stored ones. Checkpoints are
made anew, in an empty folder, and by a base in one of its own. The rule, written down before any outcome was
seen:

- On the processor and with the versions that made the stored table, the two are the same, bit for bit.
- Elsewhere, or where the stored device does not say which processor it was, text, whole numbers and what
  is missing are the same, and every other number differs by at most :data:`TOLERANCE` of the largest
  absolute value in its column of that job's table. Training amplifies rounding: long runs may need a
  tolerance of their own, which is recorded; one as large as a change that matters proves nothing.
- On CUDA, where sums have no fixed order, the second rule holds everywhere.
- Against a base, a commit with the very code that made the stored table, both are computed here and are
  the same, bit for bit, whatever processor the stored table is from. Deep networks need this: unchanged
  code gave Figure 3's alignments 7 % apart on two processors. Jobs that other code made stay stale: their
  turn comes with another base.

Where they agree entries are written: :mod:`companion.runs.verified` says for which jobs they speak. Where
one differs, nothing is recorded for its compute function, and what was is withdrawn.
"""

import io
import math
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line
from companion.runs import apart, digest, engine, notebooks, parameters, results, verified

TOLERANCE = 1e-6
MINUTES = 10.0


@dataclass(frozen=True)
class Outcome:
    """What recomputing one stored job said.

    stored : results.Stored; agrees : bool
    largest, column : the largest difference as a share of its column's largest value (inf where what must
        be the same is not), and where; 0.0 and None where the tables are the same, bit for bit
    tolerance : what was allowed; seconds : what it took
    base : the commit with whose table it was compared, or None: with the stored one
    elsewhere : where the stored table is from, if not from this processor and these versions, in words:
        unchanged code may differ there too
    """

    stored: results.Stored
    agrees: bool
    largest: float
    column: str | None
    tolerance: float
    seconds: float
    base: str | None = None
    elsewhere: str | None = None

    def __str__(self):
        name = f"{results.owner(self.stored.job)}: {results.file_name(self.stored.job)}"
        name += f" against {self.base}" if self.base else ""
        if self.column is None:
            return f"{name} agrees bit for bit ({self.seconds:.1f} s)"
        by = "in what must be the same" if math.isinf(self.largest) else f"by {self.largest:.1e}"
        allowed = f"{self.tolerance:g} allowed" if self.tolerance else "bit for bit asked for"
        word = "agrees: differs" if self.agrees else "DIFFERS"
        text = f"{name} {word} {by} in column {self.column} ({allowed}, {self.seconds:.1f} s)"
        if self.elsewhere and not self.agrees:
            text += f"; it was stored {self.elsewhere}: --base COMMIT compares both codes here"
        return text


@dataclass
class Verification:
    """What became of a notebook's jobs whose code has changed.

    outcomes : a list of :class:`Outcome`, one per job that was recomputed
    verified : how many stale jobs today's code now stands for; stale : {reason: names} of those that stay so
    """

    outcomes: list = field(default_factory=list)
    verified: int = 0
    stale: dict = field(default_factory=dict)

    def as_dict(self):
        """It as a JSON-ready dict."""
        outcomes = [
            {
                "job": results.file_name(outcome.stored.job),
                "agrees": outcome.agrees,
                "largest_difference": None if math.isinf(outcome.largest) else outcome.largest,
                "column": outcome.column,
                "tolerance": outcome.tolerance,
                "base": outcome.base,
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in self.outcomes
        ]
        return {"outcomes": outcomes, "verified": self.verified, "stale": self.stale}


def verify(
    name,
    *,
    jobs=1,
    minutes=MINUTES,
    tolerance=None,
    base=None,
    device="auto",
    workers=None,
    progress=None,
):
    """Recompute stale jobs of notebook ``name`` (of all profiles) and record which of them stand.

    jobs : how many at least per profile and path through the code, the cheapest first
    minutes : for all of them; a path that does not fit into what is left stays stale
    tolerance : in place of the module's rule, as a share of a column's largest value; 0: bit for bit
    base : a commit that has the code that made the stored tables: what it computes here is compared with
    device, workers, progress : as in :func:`engine.run`

    Returns a :class:`Verification`. Raises AlignbookError for bad input or a job that fails.
    """
    say = progress or (lambda text: None)
    if jobs < 1 or not minutes > 0 or (tolerance is not None and not 0 <= tolerance < 1):
        raise AlignbookError("jobs must be at least 1, minutes above 0, the tolerance in [0, 1)")
    notebook = notebooks.find(name)
    until = time.monotonic() + 60 * minutes
    device = engine.choose_device(device)
    digest.forget()
    verified.forget()
    stale, broken = _stale_jobs(notebook)
    result = Verification(stale={"broken": broken} if broken else {})
    every = {results.location(item.job): item for items in stale.values() for item in items}
    routes = _routes(stale)
    workers = workers or engine.jobs_at_once(device)
    times = 1 if base is None else 2  # each is computed so often
    taken, left_out = _choose(routes, jobs, 60 * minutes * workers / times)
    items = {results.location(item.job): item for route in taken for item in route.chosen}
    asked = [item.job for item in items.values()]
    base = None if base is None else _hash(base)
    if asked:
        results.require_writable()
        engine.require_data(asked)
        say(f"{len(every)} jobs are stale by their code, recomputing {len(asked)} for {len(taken)} paths")
    agreed, differing, foreign = {}, set(), []

    def done(job, answer):
        place = results.location(job)
        item, (code, table, step, seconds, before) = items[place], answer
        if before and not _made_by(item, before["code"]):
            foreign.append(place)
            say(f"{base} has not the code that made {place.name}")
            return
        if before is None:
            outcome = compare(item, table, step, seconds, tolerance=tolerance, device=device)
        else:
            outcome = _compare_with_base(item, table, step, seconds, before, tolerance or 0.0, base)
        result.outcomes.append(outcome)
        say(str(outcome))
        function = results.owner(job), job.compute.__name__
        if not outcome.agrees:
            differing.add(function)
            verified.withdraw(*function, code)
            return
        agreed[place] = outcome, code
        for route in taken:
            places = [results.location(item.job) for item in route.chosen]
            if place in places and agreed.keys() >= set(places) and function not in differing:
                made = [_entry(*agreed[place], route, engine.describe(device)) for place in places]
                verified.add(function[0], made)

    if asked:
        workers = min(workers, len(asked))
        with _sources(base) as folder, tempfile.TemporaryDirectory() as made:
            task = partial(_recompute, device=device, checkpoints=made, base=folder)
            engine.in_workers(asked, task, workers, say, done=done, until=until)
    if foreign and not result.outcomes:
        raise AlignbookError(f"{base} has not the code that made {foreign[0].name}: name another commit")
    result.outcomes.sort(key=lambda outcome: results.location(outcome.stored.job))
    other = set()  # places of what only a job of other code than the base's could speak for
    for route in taken:
        if any(results.location(item.job) in foreign for item in route.chosen):
            other |= {results.location(item.job) for item in route.items}
    for place, item in every.items():
        if item.verified_by() is not None:
            result.verified += 1
            continue
        function = results.owner(item.job), item.job.compute.__name__
        reason = "its function differs" if function in differing else "not recomputed in time"
        if place in other:
            reason = f"{base} has not the code that made it"
        seconds = [cost for route, cost in left_out if item in route.items]
        if seconds and function not in differing:
            reason = f"no time: what is to be recomputed took {min(seconds):.0f} s"
        result.stale.setdefault(reason, []).append(item.job.name)
    return result


def compare(stored, table, step, seconds, *, tolerance, device):
    """The :class:`Outcome` of a recomputed ``table`` (DataFrame; None: diverged after ``step`` steps).

    device : "cpu" or "cuda", on which it was recomputed here
    """
    record, here = stored.provenance, engine.describe(device)
    elsewhere = None
    if here != record["device"] or "family" not in here:
        elsewhere = f"on {record['device']}"
    elif drift := stored.drift(device):
        elsewhere = f"with {', '.join(drift)}"
    if tolerance is None:
        tolerance = TOLERANCE if elsewhere else 0.0
    if stored.diverged or table is None:
        largest, column = 0.0, None
        if record["diverged_after_steps"] != step:
            largest, column = math.inf, "diverged_after_steps"
    else:
        largest, column = difference(stored.table, results.written(table), record["table"]["sha256"])
    agrees = column is None or 0 < tolerance >= largest
    return Outcome(stored, agrees, largest, column, tolerance, seconds, elsewhere=elsewhere)


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


def _made_by(stored, code):
    """Whether the code of that digest made the ``stored`` table, or was signed for it."""
    signed = {record["code"] for record in stored.provenance.get("signed", ()) if "code" in record}
    return code in signed | {stored.provenance["code"]}


def _compare_with_base(stored, table, step, seconds, before, tolerance, base):
    """Like :func:`compare`, with what the code of commit ``base`` has computed here: ``before``."""
    largest, column = 0.0, None
    if before["step"] != step:
        largest, column = math.inf, "diverged_after_steps"
    elif table is not None:
        text = before["table"].encode()
        largest, column = difference(results.read(text), results.written(table), sha256(text).hexdigest())
    agrees = column is None or 0 < tolerance >= largest
    return Outcome(stored, agrees, largest, column, tolerance, seconds, base)


def _recompute(job, device, checkpoints, base=None):
    """(digest of the code, table, steps until it diverged or None, seconds, what ``base`` says), in a worker.

    checkpoints : folder in which those of this verification are kept
    base : folder with the sources of another commit, or None: it says nothing
    """
    code = digest.code_digest(job.compute)
    with system.environment({"ALIGNBOOK_CHECKPOINTS": str(Path(checkpoints) / "today")}):
        table, step, seconds, _ = engine.compute(job, device)
    before = None if base is None else _ask(base, job, device, Path(checkpoints) / "base")
    return code, table, step, seconds, before


_ASKED = """
import importlib, json, sys
import torch
from alignbook.errors import Diverged
from companion.runs.digest import code_digest

torch.set_num_threads(1)
answer, (module, function, arguments, device) = json.load(sys.stdin)
compute, table, step = getattr(importlib.import_module(module), function), None, None
try:
    table = compute(**arguments, device=torch.device(device), report=lambda done, text="": None)
    table = table.to_csv(index=False, lineterminator="\\n")
except Diverged as error:
    step = error.step
with open(answer, "w", encoding="utf-8", newline="") as file:
    json.dump({"code": code_digest(compute), "table": table, "step": step}, file)
"""


def _ask(sources, job, device, own):
    """{code, table, step}: what the code in the folder ``sources`` makes of ``job``, in a process apart.

    own : folder for what it keeps: it finds nothing in the results store, where other code has kept things
    """
    asked = [job.compute.__module__, job.compute.__name__, job.arguments, device]
    return apart.answered(
        _ASKED, asked, sources, to=f"compute {job.name}",
        ALIGNBOOK_RESULTS=own, ALIGNBOOK_CHECKPOINTS=own / ".checkpoints",
    )  # fmt: skip


def _git(*arguments, fault="it failed"):
    """What git prints, bytes. Raises AlignbookError where it fails, with ``fault`` where git says nothing."""
    try:
        done = subprocess.run(["git", "-C", str(paths.root()), *arguments], capture_output=True)
    except OSError as error:
        raise AlignbookError(f"a base needs git: {error.strerror}") from None
    if done.returncode:
        raise AlignbookError(f"git: {on_one_line(done.stderr.decode(errors='replace')) or fault}")
    return done.stdout


def _hash(commit):
    asked = ["--short=12", "--verify", "--quiet", f"{commit}^{{commit}}"]
    return _git("rev-parse", *asked, fault=f"{commit} is no commit").decode().strip()


@contextmanager
def _sources(commit):
    """Inside, a folder with the sources of ``commit``; None for None."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        there = _git("ls-tree", "--name-only", commit, "--", "src", "notebooks").decode().split()
        asked = ["archive", "--format=tar", commit, *there]
        with tarfile.open(fileobj=io.BytesIO(_git(*asked))) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder) / "src"


def _entry(outcome, code, route, device):
    item = outcome.stored
    record = item.provenance
    return {
        "compute": item.job.compute.__name__,
        "path": verified.without_numbers(item.job.arguments),
        "profile": route.profile,
        "tried": _hull(route.chosen),
        "from": record["code"],
        "to": code,
        "unit": results.file_name(item.job),
        "table": record["table"]["sha256"],
        "largest_difference": outcome.largest,
        "column": outcome.column,
        "tolerance": outcome.tolerance,
        "base": outcome.base,
        "stored_device": record["device"],
        "device": device,
        "wall_time_s": round(outcome.seconds, 3),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": results.commit(),
    }


@dataclass
class _Route:
    """Jobs of one profile, compute function, path and code for which the same recomputed ones may speak.

    items : all that are to be verified; own : those of them whose table that code made, where the others are
    of code that leads to it; chosen : of its own those to recompute
    """

    profile: str
    items: list
    own: list
    chosen: list = ()


def _stale_jobs(notebook):
    """({profile: stored jobs that are stale by their code alone}, names of those that are broken)"""
    found, broken, stale = {}, [], {}
    for profile in parameters.PROFILES:
        for job in engine.jobs_of(notebook, parameters.resolve(notebook, profile)):
            place = results.location(job)
            if place not in found:
                if not results.exists(job):
                    continue
                item = results.peek(job)
                if item is None:
                    broken.append(job.name)
                due = item and (item.stale() == [results.CODE] or (not item.stale() and item.untried()))
                found[place] = item if due else None
            if found[place]:
                stale.setdefault(profile, []).append(found[place])
    return stale, broken


def _routes(stale):
    """A list of :class:`_Route` for the ``stale`` jobs of each profile."""
    groups = {}
    for profile, items in stale.items():
        for item in items:
            path = verified.code_path(item.job.arguments)
            key = profile, results.owner(item.job), item.job.compute.__name__, path
            groups.setdefault(key, []).append(item)
    return [route for (profile, *_), items in groups.items() for route in _by_code(profile, items)]


def _by_code(profile, items):
    """One route per digest, but for jobs whose code leads to another's, within what is tried of that."""
    codes = {item.provenance["code"] for item in items}

    def leads(item, code):
        old, place = item.provenance["code"], results.location(item.job)
        return verified.tried_chain(results.owner(item.job), place.name, item.job, old, code) is not None

    own = {code: [] for code in codes}
    for item in items:
        if not any(leads(item, code) for code in codes - {item.provenance["code"]}):
            own[item.provenance["code"]].append(item)
    tried = {code: _hull(some) for code, some in own.items() if some}
    routes = {code: _Route(profile, list(some), some) for code, some in own.items()}
    for item in items:
        if item in own[item.provenance["code"]]:
            continue
        numbers = verified.numbers(item.job.arguments)
        to = [code for code in tried if verified.within(numbers, tried[code]) and leads(item, code)]
        code = to[0] if to else item.provenance["code"]
        routes[code].items.append(item)
        if not to:
            routes[code].own.append(item)
    return [route for route in routes.values() if route.items]


def _hull(items):
    return verified.hull(verified.numbers(item.job.arguments) for item in items)


def _representatives(items, jobs):
    """Of ``items`` the ``jobs`` cheapest, and the cheapest with each extreme of every numeric argument."""
    items = sorted(items, key=lambda item: item.cost)
    numbers = [verified.numbers(item.job.arguments) for item in items]
    chosen = set(range(min(jobs, len(items))))
    for name, ends in verified.hull(numbers).items():
        for end, value in enumerate(ends):
            chosen.add(next(n for n, has in enumerate(numbers) if name in has and has[name][end] == value))
    return [items[n] for n in sorted(chosen)]


def _choose(routes, jobs, seconds):
    """(routes for which there is time, the cheapest first; [(route, what it takes)] of the others).

    What routes share is computed once.
    """
    taken, left_out, places = [], [], set()
    for route in routes:
        route.chosen = _representatives(route.own, jobs)
    for route in sorted(routes, key=lambda route: sum(item.cost for item in route.chosen)):
        new = [item for item in route.chosen if results.location(item.job) not in places]
        cost = sum(item.cost for item in new)
        if cost > seconds:
            left_out.append((route, cost))
            continue
        whole = [results.fetch(item.job) for item in route.chosen]
        if None in whole:  # a table may be unreadable
            continue
        seconds -= cost
        route.chosen = whole
        places |= {results.location(item.job) for item in new}
        taken.append(route)
    return taken, left_out
