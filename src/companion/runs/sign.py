"""Carry stored results over to a new rule of digests: ``alignbook sign --base COMMIT``.

What the digests of code and data count is itself code, and may change. By itself that makes nothing stale:
the code and data are what they were. For every stored job, what the rule of COMMIT finds to be today's code
or today's data is written down as today's rule says it, and what it finds to be anything else is left: a job
that was stale stays stale. Provenance keeps the old digests under ``signed``, with the commit and the date;
entries of :mod:`~companion.runs.verified` are carried over likewise.

A digest of the old rule is today's code where the rule of COMMIT makes it of today's sources. It is also
where it makes it of the sources of COMMIT, and today's rule finds no difference between the two.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from alignbook import paths, system
from alignbook.data import tables
from companion.runs import apart, digest, engine, notebooks, parameters, results, verified, verify

RULE = Path("alignbook/runs/digest.py")


@dataclass
class Signing:
    """What was carried over. signed : jobs; entries : of verified.json; stale : jobs that stay stale.

    without_data : names of sets that are not at hand, whose digests were left as they were.
    """

    signed: int = 0
    entries: int = 0
    stale: int = 0
    without_data: list = field(default_factory=list)


def sign(base):
    """Carry over all stored jobs of all profiles, from the rule of the commit ``base``: a :class:`Signing`.

    Raises AlignbookError where git does not know ``base``, or its code cannot say its digests.
    """
    results.require_writable()
    digest.forget()
    base = verify._hash(base)
    jobs = _stored_jobs()
    computes = sorted({(job.compute.__module__, job.compute.__name__) for job in jobs})
    needed = sorted({name for job in jobs for name in results.datasets(job).values()})
    found = Signing(without_data=[name for name in needed if not tables.available(name)])
    at_hand = [name for name in needed if name not in found.without_data]
    codes, data = _translations(base, computes, at_hand)
    for job in jobs:
        with results.claimed(job):
            found.signed += _sign(job, codes, data, base)
    owners = {results.owner(job): job.compute.__module__ for job in jobs}
    for owner, module in sorted(owners.items()):
        found.entries += _sign_entries(owner, module, codes)
    stored = filter(None, map(results.peek, jobs))
    found.stale = sum(bool(item.stale()) for item in stored)
    return found


def _stored_jobs():
    found = {}
    for book in notebooks.every():
        for profile in parameters.PROFILES:
            for job in engine.jobs_of(book, parameters.resolve(book, profile)):
                if results.exists(job):
                    found[results.location(job)] = job
    return list(found.values())


def _translations(base, computes, data):
    """({(module, function): {old digest: new}}, {data set: {old digest: new}}) of today's code and data."""
    today = digest.Sources(digest.SOURCES, paths.root() / digest.STUDIES)
    with verify._sources(base) as old, tempfile.TemporaryDirectory() as mixed:
        shutil.copytree(digest.SOURCES / digest.PACKAGE, Path(mixed) / digest.PACKAGE)
        shutil.copy(old / RULE, Path(mixed) / RULE)
        of_today, _ = _ask(mixed, paths.root(), computes, [])
        of_base, old_data = _ask(old, old.parent, computes, data)
        then = digest.Sources(old)
        codes = {}
        for place, here, there in zip(computes, of_today, of_base, strict=True):
            new = today.code(*place)
            codes[place] = {here: new}
            if there and _code(then, place) == new:
                codes[place][there] = new
    pairs = zip(data, old_data, strict=True)
    return codes, {name: {old: tables.digest(name)} for name, old in pairs}


def _code(sources, place):
    """Today's digest of a compute function in other sources, or None where it is not there."""
    try:
        return sources.code(*place)
    except (KeyError, AttributeError):
        return None


_ASKED = """
import json, sys
from types import SimpleNamespace
from companion.runs.digest import code_digest

answer, (computes, data) = json.load(sys.stdin)

def code(module, name):
    try:
        return code_digest(SimpleNamespace(__module__=module, __name__=name))
    except (KeyError, TypeError):  # not there
        return None

codes = [code(*place) for place in computes]
if data:
    from alignbook.data import tables
    data = [tables.digest(name) for name in data]
with open(answer, "w") as file:
    json.dump([codes, data], file)
"""


def _ask(sources, root, computes, data):
    """(digests of ``computes``, digests of ``data``) as the code in the folder ``sources`` says them.

    root : the checkout whose studies are meant
    """
    asked = [computes, data]
    return apart.answered(_ASKED, asked, sources, to="say its digests", ALIGNBOOK_ROOT=root)


def _sign(job, codes, data, base):
    """Whether the provenance of ``job`` was written anew."""
    item = results.peek(job)
    if item is None:
        return False
    provenance, old = dict(item.provenance), {}
    new = codes[job.compute.__module__, job.compute.__name__].get(provenance["code"], provenance["code"])
    if new != provenance["code"]:
        old["code"], provenance["code"] = provenance["code"], new
    for argument, made_from in item.made_from.items():
        known = data.get(made_from["name"], {})
        new = known.get(made_from["sha256"], made_from["sha256"])
        if new != made_from["sha256"]:
            where = results.DATASETS[argument]
            old[where], provenance[where] = made_from["sha256"], made_from | {"sha256": new}
    if not old:
        return False
    record = old | {"rule": base, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    provenance["signed"] = [*provenance.get("signed", []), record]
    place = results.location(job)
    text = json.dumps(provenance, indent=1, sort_keys=True) + "\n"
    system.replace(place.with_name(f"{place.name}.json"), text.encode())
    return True


def _sign_entries(owner, module, codes):
    """How many entries of the notebook's verified.json were written anew; ``module`` computes its jobs."""
    count = 0

    def changed(entries):
        nonlocal count
        after = []
        for entry in entries:
            known = codes.get((module, entry["compute"]), {})
            ends = {end: known.get(entry[end], entry[end]) for end in ("from", "to")}
            count += ends != {end: entry[end] for end in ends}
            after.append(entry | ends)
        return after

    verified._change(owner, changed)
    return count
