"""Stored results: a tidy CSV and a JSON of provenance per job, written atomically.

Runs write into a store of the reader's own and read from it and from the book's, see
:func:`alignbook.paths.stores`. ``<store>/<paper>/<slug>/<job>-<key>.csv`` holds the table, ``.json`` beside
it where it comes from; ``key`` is a digest of the job's arguments. The JSON is written last and names the
digest of the CSV: a job is stored when the two agree, and a broken one is computed again.
"""

import csv
import hashlib
import io
import json
import math
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from alignbook import code, paths, system
from alignbook.errors import AlignbookError, on_one_line

_STUDIES, _PART = "companion.studies.", ".experiment"
# A job's argument: where its provenance names the data set.
DATASETS = {"dataset": "data", "source": "source_data", "other": "other_data"}
CODE = "the code has changed"  # a reason to be stale
_FIELDS = {
    "code": str | None,  # None of a result that was stale when digests of files began
    **dict.fromkeys(DATASETS.values(), dict | None),
    "date": str,
    "commit": str | None,
    "device": str,
    "wall_time_s": int | float,
    "cost_s": int | float,
    "versions": dict,
    "processor": dict,
}
_LACKING = {"source_data", "other_data", "cost_s", "processor"}  # in older results


@dataclass(frozen=True)
class Stored:
    """A job as it was stored: its table (DataFrame; None when it diverged) and its provenance (a dict)."""

    job: object
    table: object
    provenance: dict

    @property
    def diverged(self):
        return self.provenance["outcome"] == "diverged"

    def stale(self):
        """Why the result no longer matches what would be computed now: a list, empty when fresh.

        The data are compared only where they are at hand: a result from elsewhere can be shown without them.
        """
        from alignbook.data import DataError, tables

        reasons = []
        if self.provenance["code"] != code.digest(self.job.compute.__module__):
            reasons.append(CODE)
        for made_from in self.made_from.values():
            if tables.available(made_from["name"]):
                try:
                    if tables.digest(made_from["name"]) != made_from["sha256"]:
                        reasons.append("the data have changed")
                except DataError:
                    reasons.append("the data at hand cannot be read")
        return list(dict.fromkeys(reasons))

    def drift(self, kind):
        """What differs here from where the result was made: a list of texts, empty where nothing does.

        kind : "cpu" or "cuda", what would compute now. Versions, that kind, and what else decides how the
        processor rounds (:func:`alignbook.system.features`); of older results the versions alone. The result
        is not stale for it: the code and the data are the same, and unchanged code may round otherwise.
        """
        pairs = [(self.provenance["versions"], system.versions())]
        if made_on := self.provenance.get("processor"):
            pairs.append((made_on, system.features(kind)))
        return [
            f"{name} {there.get(name, 'unset')} there, {here.get(name, 'unset')} here"
            for there, here in pairs
            for name in sorted(there | here)
            if there.get(name) != here.get(name)
        ]

    @property
    def kind(self):
        """What computed it, "cpu" or "cuda"; older results tell it by the name of the device alone."""
        named = "cpu" if self.provenance["device"].endswith(" thread") else "cuda"
        return self.provenance.get("processor", {}).get("kind", named)

    @property
    def cost(self):
        """Seconds that it takes where no checkpoint is found; of older results, that it took."""
        return self.provenance.get("cost_s", self.provenance["wall_time_s"])

    @property
    def made_from(self):
        """{argument: {"name", "sha256"}} of ``dataset``, ``source`` and ``other``, those that it has."""
        found = {argument: self.provenance.get(field) for argument, field in DATASETS.items()}
        return {argument: made_from for argument, made_from in found.items() if made_from}


def datasets(job):
    """{argument: name} of ``dataset``, ``source`` and ``other``, those that ``job`` needs."""
    return {argument: job.arguments[argument] for argument in DATASETS if job.arguments.get(argument)}


def owner(job):
    """The notebook under whose name ``job`` is stored.

    That of the module of its ``compute``; one that several notebooks share names it, as ``STORED_AS``.
    """
    module = job.compute.__module__
    named = getattr(sys.modules.get(module), "STORED_AS", None)
    if named:
        return named
    if not module.startswith(_STUDIES):
        raise ValueError(f"{module} is not a study's module")
    return module.removeprefix(_STUDIES).removesuffix(_PART).replace(".", "/")


def location(job):
    """Path of the job's files without their suffix: where they are, or where they would be written."""
    places = _places(job)
    return next(filter(_both_there, places), places[0])


def file_name(job):
    """The name of the job's files without folder and suffix."""
    canonical = json.dumps(job.arguments, sort_keys=True, allow_nan=False)
    return f"{job.name}-{hashlib.sha256(canonical.encode()).hexdigest()[:10]}"


def folders(job):
    """The folders that may hold the job's files, the reader's own first."""
    return [store / owner(job) for store in paths.stores()]


def _places(job):
    name = file_name(job)
    return [folder / name for folder in folders(job)]


def exists(job):
    """Whether both files of ``job`` are there, whatever is in them."""
    return any(map(_both_there, _places(job)))


def _both_there(place):
    return os.path.isfile(f"{place}.csv") and os.path.isfile(f"{place}.json")


def in_book(jobs):
    """Whether the book brings results of the studies that ``jobs`` are of."""
    book = paths.root() / "data" / "results"
    return any(any((book / name).glob("*-*.json")) for name in set(map(owner, jobs)))


def fetch(job):
    """The stored job, or None when it is missing or broken; a broken one is warned about."""
    return _fetched(job, read_table=True)


def peek(job):
    """Like :func:`fetch`, without reading the table, whose digest is compared: the ``table`` is None."""
    return _fetched(job, read_table=False)


def _fetched(job, read_table):
    place = location(job)
    try:
        try:
            provenance, text, whole = _read(place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not whole:  # perhaps it is being replaced at this moment, the table first
            time.sleep(0.2)
            provenance, text, whole = _read(place)
        if not whole:
            raise ValueError("the table does not match its digest")
        _check(provenance, job)
        table = None
        if read_table and provenance["outcome"] == "finished":
            table = read(text)
        if read_table and provenance["table"]["rows"] != (0 if table is None else len(table)):
            raise ValueError("the table has another number of rows")
        return Stored(job, table, provenance)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = on_one_line(f"{type(error).__name__}: {error}")
        warnings.warn(
            f"stored result {paths.shown(place)} is broken ({reason}); it counts as missing", stacklevel=3
        )
        return None


def written(table):
    """The bytes of ``table`` (DataFrame) in the store; of None, for a run that diverged, none."""
    return b"" if table is None else table.to_csv(index=False, lineterminator="\n").encode()


def read(text):
    """The table (DataFrame) of stored bytes."""
    import pandas as pd  # here: most commands need no table, and it takes a second

    # Only an empty field is missing: "None" may be a label.
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline=""))
    if len(next(lines, ())) < len(next(lines, ())):  # pandas would take the first column for an index
        raise ValueError("the rows are longer than the header")
    return pd.read_csv(io.BytesIO(text), keep_default_na=False, na_values=[""])


def _check(provenance, job):
    """Raise ValueError, KeyError or TypeError where what is said of a table cannot be of this job."""
    if provenance["arguments"] != json.loads(json.dumps(job.arguments)):
        raise ValueError("it has the arguments of another job")
    if provenance["outcome"] not in ("finished", "diverged"):
        raise ValueError(f"its outcome is {provenance['outcome']!r}")
    if provenance["outcome"] == "finished" and not provenance["table"]["rows"] > 0:
        raise ValueError("its table has no rows")
    for field in _FIELDS.keys() - (_LACKING - provenance.keys()):
        value, number = provenance[field], field in ("wall_time_s", "cost_s")
        if not isinstance(value, _FIELDS[field]) or (number and not 0 <= value < math.inf):
            raise TypeError(f"{field} is {value!r}")
    for argument, field in DATASETS.items():
        made_from = provenance.get(field)
        if made_from and not isinstance(made_from["sha256"], str):
            raise TypeError(f"the sha256 of {field} is {made_from['sha256']!r}")
        if (made_from["name"] if made_from else None) != datasets(job).get(argument):
            raise ValueError(f"{field} is not the job's {argument}")


def _read(place):
    """(provenance, bytes of the table, whether the two belong together)."""
    provenance = json.loads(_with_suffix(place, ".json").read_text(encoding="utf-8"))
    text = _with_suffix(place, ".csv").read_bytes()
    return provenance, text, hashlib.sha256(text).hexdigest() == provenance["table"]["sha256"]


def origin(job):
    """What ``job`` is about to be computed from: digests of code and data, versions, commit.

    Taken before it is computed: sources and archives may change while it runs.
    """
    return origin_of_code(job) | origin_of_data(job)


def origin_of_code(job):
    """The part of :func:`origin` that does not depend on the data."""
    return {"code": code.digest(job.compute.__module__), "versions": system.versions(), "commit": commit()}


def origin_of_data(job):
    """The part of :func:`origin` that says which data are at hand."""
    from alignbook.data import tables

    needed = datasets(job)
    made_from = {name: {"name": name, "sha256": tables.digest(name)} for name in set(needed.values())}
    return {field: made_from.get(needed.get(argument)) for argument, field in DATASETS.items()}


def store(job, table, origin, *, device, wall_time, cost=None, processor=None, step=None, host=None):
    """Write ``table`` (DataFrame; None for a run that diverged after ``step`` steps) and provenance.

    origin : what :func:`origin` said before the job was computed; the others are those of a
    :class:`~companion.runs.job.Computed`, the host where it is not this one
    """
    text = written(table)
    provenance = origin | {
        "unit": job.name,
        "notebook": owner(job),
        "arguments": job.arguments,
        "outcome": "diverged" if table is None else "finished",
        "diverged_after_steps": None if step is None else int(step),
        "table": {"sha256": hashlib.sha256(text).hexdigest(), "rows": 0 if table is None else len(table)},
        "device": device,
        "wall_time_s": round(wall_time, 3),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **({"cost_s": round(max(cost, 0.0), 3)} if cost is not None else {}),
        **({"processor": processor} if processor else {}),
        **({"host": host} if host else {}),
    }
    place = _places(job)[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    system.replace(_with_suffix(place, ".csv"), text)
    _describe(place, provenance)


def stamp(stored, digest, verified):
    """Write that code of this ``digest`` makes the table of ``stored``, too; not where it has been replaced.

    verified : dict for the provenance, how that was found out
    """
    latest = peek(stored.job)
    if latest and latest.provenance == stored.provenance:
        _describe(location(stored.job), stored.provenance | {"code": digest, "verified": verified})


def _describe(place, provenance):
    text = json.dumps(provenance, indent=1, sort_keys=True) + "\n"
    system.replace(_with_suffix(place, ".json"), text.encode())


def require_writable():
    """Raise AlignbookError unless the store can be written to."""
    store = paths.results()
    if why := system.unwritable(store):
        raise AlignbookError(
            f"cannot write to the results folder {paths.shown(store)} ({why}); "
            "make it writable or set ALIGNBOOK_RESULTS"
        )


@cache
def commit():
    """The checkout's commit, with ``+changes`` when the sources differ from it; None outside git."""
    git = ["git", "-C", str(paths.root())]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
        if head.returncode:
            return None
        sources = [*git, "status", "--porcelain", "--", "src", "notebooks"]
        changes = subprocess.run(sources, capture_output=True, text=True).stdout
    except OSError:
        return None
    return head.stdout.strip() + ("+changes" if changes.strip() else "")


def _with_suffix(place, suffix):
    return place.with_name(place.name + suffix)  # a job's name may hold dots
