"""Recompute a few stored units with today's code, so that code may change without losing results.

Of every compute function and every path through it (its arguments that are no numbers) the cheapest
stale unit is computed again and its table compared with the stored one. The rule, written down before
any outcome was seen:

- On the processor and with the versions that made the stored table, the two are the same, bit for bit.
- Elsewhere, or where the stored device does not say which processor it was, text, whole numbers and what
  is missing are the same, and every other number differs by at most :data:`TOLERANCE` of the largest
  absolute value in its column of that unit's table. Training amplifies rounding: long runs may need a
  tolerance of their own, which is recorded; one as large as a change that matters proves nothing.
- On CUDA, where sums have no fixed order, the second rule holds everywhere.
- Against a base, a commit with the very code that made the stored table, both are computed here and are
  the same, bit for bit, whatever processor the stored table is from. Deep networks need this: unchanged
  code gave Figure 3's alignments 7 % apart on two processors.

Where they agree an entry is written (:mod:`alignbook.runs.verified`). Where one differs, nothing is
recorded for its compute function, and what was is withdrawn.
"""

import io
import json
import math
import os
import subprocess
import sys
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
from alignbook.runs import digest, engine, notebooks, parameters, results, verified

TOLERANCE = 1e-6
MINUTES = 10.0


@dataclass(frozen=True)
class Outcome:
    """What recomputing one stored unit said.

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
        name = f"{results.owner(self.stored.unit)}: {results.location(self.stored.unit).name}"
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
    """What became of a notebook's units whose code has changed.

    outcomes : a list of :class:`Outcome`, one per unit that was recomputed
    verified : how many stale units today's code now stands for; stale : {reason: names} of those that stay so
    """

    outcomes: list = field(default_factory=list)
    verified: int = 0
    stale: dict = field(default_factory=dict)

    def as_dict(self):
        """It as a JSON-ready dict."""
        outcomes = [
            {
                "unit": results.location(outcome.stored.unit).name,
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
    units=1,
    minutes=MINUTES,
    tolerance=None,
    base=None,
    device="auto",
    workers=None,
    progress=None,
):
    """Recompute stale units of notebook ``name`` (of all profiles) and record which of them stand.

    units : how many per path through the code, the cheapest first
    minutes : for all of them; a path that does not fit into what is left stays stale
    tolerance : in place of the module's rule, as a share of a column's largest value; 0: bit for bit
    base : a commit that has the code that made the stored tables: what it computes here is compared with
    device, workers, progress : as in :func:`engine.run`

    Returns a :class:`Verification`. Raises AlignbookError for bad input or a unit that fails.
    """
    say = progress or (lambda text: None)
    if units < 1 or not minutes > 0 or (tolerance is not None and not 0 <= tolerance < 1):
        raise AlignbookError("units must be at least 1, minutes above 0, the tolerance in [0, 1)")
    notebook = notebooks.find(name)
    until = time.monotonic() + 60 * minutes
    device = engine.choose_device(device)
    digest.forget()
    stale, broken = _stale_units(notebook)
    result = Verification(stale={"broken": broken} if broken else {})
    routes = _by_path(stale)
    workers = 1 if device == "cuda" else workers or system.cores()
    times = 1 if base is None else 2  # each is computed so often
    chosen, left_out = _choose(routes, units, 60 * minutes * workers / times)
    base = None if base is None else _hash(base)
    if chosen:
        results.require_writable()
        engine.require_data([item.unit for item in chosen])
        say(f"{len(stale)} units are stale by their code, recomputing {len(chosen)} of {len(routes)} paths")
    waiting = {path: set() for path in routes}  # that must agree before the path is recorded
    for item in chosen:
        waiting[_path(item)].add(results.location(item.unit))
    agreed, differing = {}, set()
    items = {results.location(item.unit): item for item in chosen}

    def done(unit, answer):
        place = results.location(unit)
        item, (code, table, step, seconds, before) = items[place], answer
        if before is None:
            outcome = compare(item, table, step, seconds, tolerance=tolerance, device=engine.describe(device))
        else:
            outcome = _compare_with_base(item, table, step, seconds, before, tolerance or 0.0, base)
        result.outcomes.append(outcome)
        say(str(outcome))
        path = _path(item)
        function = path[:2]
        if not outcome.agrees:
            differing.add(function)
            verified.withdraw(*function, code)
            return
        waiting[path].discard(place)
        agreed.setdefault(path, []).append(_entry(outcome, code, engine.describe(device)))
        if not waiting[path] and function not in differing:
            verified.add(function[0], agreed[path])

    if chosen:
        workers = min(workers, len(chosen))
        with _sources(base) as folder:
            task = partial(_recompute, device=device, base=folder)
            engine.in_workers([item.unit for item in chosen], task, workers, say, done=done, until=until)
    result.outcomes.sort(key=lambda outcome: results.location(outcome.stored.unit))
    for item in stale:
        if item.verified_by() is not None:
            result.verified += 1
            continue
        path = _path(item)
        reason = "its function differs" if path[:2] in differing else "not recomputed in time"
        if path in left_out:
            reason = f"no time: its cheapest unit took {left_out[path]:.0f} s"
        result.stale.setdefault(reason, []).append(item.unit.name)
    return result


def compare(stored, table, step, seconds, *, tolerance, device):
    """The :class:`Outcome` of a recomputed ``table`` (DataFrame; None: diverged after ``step`` steps)."""
    record = stored.provenance
    elsewhere = None
    if device != record["device"] or "family" not in device:
        elsewhere = f"on {record['device']}"
    elif results.versions() != record["versions"]:
        elsewhere = "with other versions"
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


def _compare_with_base(stored, table, step, seconds, before, tolerance, base):
    """Like :func:`compare`, with what the code of commit ``base`` has computed here: ``before``."""
    if before["code"] != stored.provenance["code"]:
        name = results.location(stored.unit).name
        raise AlignbookError(f"{base} has not the code that made {name}: name another commit")
    largest, column = 0.0, None
    if before["step"] != step:
        largest, column = math.inf, "diverged_after_steps"
    elif table is not None:
        text = before["table"].encode()
        largest, column = difference(results.read(text), results.written(table), sha256(text).hexdigest())
    agrees = column is None or 0 < tolerance >= largest
    return Outcome(stored, agrees, largest, column, tolerance, seconds, base)


def _recompute(unit, device, base=None):
    """(digest of the code, table, steps until it diverged or None, seconds, what ``base`` says), in a worker.

    base : folder with the sources of another commit, or None: it says nothing
    """
    code = digest.code_digest(unit.compute)
    return code, *engine.compute(unit, device), None if base is None else _ask(base, unit, device)


_ASKED = """
import importlib, json, sys
import torch
from alignbook.errors import Diverged
from alignbook.runs.digest import code_digest

torch.set_num_threads(1)
module, function, arguments, device, answer = json.load(sys.stdin)
compute, table, step = getattr(importlib.import_module(module), function), None, None
try:
    table = compute(**arguments, device=torch.device(device), report=lambda done, text="": None)
    table = table.to_csv(index=False, lineterminator="\\n")
except Diverged as error:
    step = error.step
with open(answer, "w", encoding="utf-8", newline="") as file:
    json.dump({"code": code_digest(compute), "table": table, "step": step}, file)
"""


def _ask(sources, unit, device):
    """{code, table, step}: what the code in the folder ``sources`` makes of ``unit``, in a process apart."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        asked = [unit.compute.__module__, unit.compute.__name__, unit.arguments, device, str(answer)]
        environment = os.environ | {
            "PYTHONPATH": str(sources),
            "ALIGNBOOK_DATA": os.environ.get("ALIGNBOOK_DATA") or str(paths.root() / "data"),
            "ALIGNBOOK_RESULTS": str(paths.results()),
        }
        done = subprocess.run(
            [sys.executable, "-c", _ASKED],
            env=environment,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = on_one_line((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
            raise AlignbookError(f"the base cannot compute {unit.name}: {reason}")
        return json.loads(answer.read_text(encoding="utf-8"))


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
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit, "src"))) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder) / "src"


def _entry(outcome, code, device):
    item = outcome.stored
    record = item.provenance
    return {
        "compute": item.unit.compute.__name__,
        "path": verified.without_numbers(item.unit.arguments),
        "from": record["code"],
        "to": code,
        "unit": results.location(item.unit).name,
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


def _stale_units(notebook):
    """(stored units of all profiles that are stale by their code alone, names of those that are broken)"""
    found, broken = {}, []
    for profile in parameters.PROFILES:
        for unit in engine.units_of(notebook, parameters.resolve(notebook, profile)):
            place = results.location(unit)
            if place in found or not results.exists(unit):
                continue
            found[place] = results.peek(unit)
            if found[place] is None:
                broken.append(unit.name)
    return [item for item in found.values() if item and item.stale() == [results.CODE]], broken


def _path(item):
    """(notebook under which it is stored, compute function, what may choose a branch)"""
    unit = item.unit
    return results.owner(unit), unit.compute.__name__, verified.code_path(unit.arguments)


def _by_path(stale):
    """{path: its stale units, the cheapest first}, once per digest that does not lead to another's."""
    found = {}
    for item in sorted(stale, key=lambda item: item.provenance["wall_time_s"]):
        found.setdefault(_path(item), {}).setdefault(item.provenance["code"], []).append(item)
    for path, by_code in found.items():
        ends = [
            code
            for code in by_code
            if not any(other != code and verified.chain(*path, code, other) for other in by_code)
        ]
        found[path] = [by_code[code] for code in ends or by_code]
    return found


def _choose(routes, units, seconds):
    """(units to recompute, the cheapest paths first; {path: seconds of its cheapest unit} of the others)."""
    chosen, left_out = [], {}
    for path, lists in sorted(routes.items(), key=lambda pair: _cost(pair[1], units)):
        cost = _cost(lists, units)
        if cost <= seconds:
            seconds -= cost
            found = [results.fetch(item.unit) for items in lists for item in items[:units]]
            chosen += [item for item in found if item]  # a table may be unreadable
        else:
            left_out[path] = lists[0][0].provenance["wall_time_s"]
    return chosen, left_out


def _cost(lists, units):
    return sum(item.provenance["wall_time_s"] for items in lists for item in items[:units])
