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

Where they agree an entry is written (:mod:`alignbook.runs.verified`). Where one differs, nothing is
recorded for its compute function, and what was is withdrawn.
"""

import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

import numpy as np

from alignbook import system
from alignbook.errors import AlignbookError
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
    """

    stored: results.Stored
    agrees: bool
    largest: float
    column: str | None
    tolerance: float
    seconds: float

    def __str__(self):
        name = f"{results.owner(self.stored.unit)}: {results.location(self.stored.unit).name}"
        if self.column is None:
            return f"{name} agrees bit for bit ({self.seconds:.1f} s)"
        by = "in what must be the same" if math.isinf(self.largest) else f"by {self.largest:.1e}"
        allowed = f"{self.tolerance:g} allowed" if self.tolerance else "bit for bit asked for"
        word = "agrees: differs" if self.agrees else "DIFFERS"
        return f"{name} {word} {by} in column {self.column} ({allowed}, {self.seconds:.1f} s)"


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
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in self.outcomes
        ]
        return {"outcomes": outcomes, "verified": self.verified, "stale": self.stale}


def verify(name, *, units=1, minutes=MINUTES, tolerance=None, device="auto", workers=None, progress=None):
    """Recompute stale units of notebook ``name`` (of all profiles) and record which of them stand.

    units : how many per path through the code, the cheapest first
    minutes : for all of them; a path that does not fit into what is left stays stale
    tolerance : in place of the module's rule, as a share of a column's largest value; 0: bit for bit
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
    paths = _by_path(stale)
    workers = 1 if device == "cuda" else workers or system.cores()
    chosen, left_out = _choose(paths, units, 60 * minutes * workers)
    if chosen:
        results.require_writable()
        engine.require_data([item.unit for item in chosen])
        say(f"{len(stale)} units are stale by their code, recomputing {len(chosen)} of {len(paths)} paths")
    waiting = {path: set() for path in paths}  # that must agree before the path is recorded
    for item in chosen:
        waiting[_path(item)].add(results.location(item.unit))
    agreed, differing = {}, set()
    items = {results.location(item.unit): item for item in chosen}

    def done(unit, answer):
        place = results.location(unit)
        item, (code, table, step, seconds) = items[place], answer
        outcome = compare(item, table, step, seconds, tolerance=tolerance, device=engine.describe(device))
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
        task = partial(_recompute, device=device)
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
    if tolerance is None:
        same = device == record["device"] and "family" in device and results.versions() == record["versions"]
        tolerance = 0.0 if same else TOLERANCE
    if stored.diverged or table is None:
        largest, column = 0.0, None
        if record["diverged_after_steps"] != step:
            largest, column = math.inf, "diverged_after_steps"
    else:
        largest, column = difference(stored.table, results.written(table), record["table"]["sha256"])
    agrees = column is None or 0 < tolerance >= largest
    return Outcome(stored, agrees, largest, column, tolerance, seconds)


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


def _recompute(unit, device):
    """(digest of the code, table, steps until it diverged or None, seconds), in a worker."""
    code = digest.code_digest(unit.compute)
    return code, *engine.compute(unit, device)


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


def _choose(paths, units, seconds):
    """(units to recompute, the cheapest paths first; {path: seconds of its cheapest unit} of the others)."""
    chosen, left_out = [], {}
    for path, lists in sorted(paths.items(), key=lambda pair: _cost(pair[1], units)):
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
