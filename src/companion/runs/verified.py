"""Records that today's code stands for results that older code made: ``<store>/<notebook>/verified.json``.

One entry per job that was recomputed and agreed (:mod:`companion.runs.verify`), and per profile that has it:

``compute``, ``path``
    the compute function, and its arguments that are no numbers: the path through the code;
``profile``, ``tried``
    one that has the job, and {name: [smallest, largest]} of the numeric arguments that were tried, those of
    all jobs of this profile, path and ``from`` that were recomputed with it (:func:`numbers`);
``from``, ``to``
    digests of the code that made the stored table, and of the code that it was recomputed with;
``job``, ``table``
    the stored job's file name and the SHA-256 of its table;
``largest_difference``, ``column``, ``tolerance``
    as a share of the largest value in its column; 0.0 where the tables are the same, bit for bit;
``base``
    the commit whose code was run beside, so that the two are of one processor; null: the stored table
``stored_device``, ``device``, ``date``, ``commit``, ``wall_time_s``
    where and when, then and now.

An entry speaks for the job that it names, and for those jobs of the same compute function, path and
``from`` that ``profile`` has and whose numeric arguments all lie within ``tried``. No profile speaks for
another: a small job may never reach what a large one does. What happens only between the smallest and the
largest value that were tried, or for a combination of values that was not, is not seen.

An older entry, without these two, does not say between which values the code was tried. What it speaks for
besides its own job is not stale, but ``alignbook status`` counts it as drifted (:func:`is_untried`), and
``alignbook verify`` tries the extremes.
"""

import json
from functools import cache

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line
from companion.runs import notebooks, parameters

NAME = "verified.json"
_read = {}  # path: ((time of change, size), {(compute, path): {from: entries}})


def code_path(arguments):
    """What of a job's ``arguments`` may choose a branch: all but numbers, as canonical JSON."""
    return json.dumps(without_numbers(arguments), sort_keys=True)


def entries(notebook):
    """All entries of the notebook's file, a list of dicts; empty where there is none."""
    try:
        found = json.loads(_file(notebook).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        where = paths.shown(_file(notebook))
        raise AlignbookError(f"cannot read {where}: {on_one_line(error)}; restore or remove it") from None
    return found


def chain(notebook, name, job, old, new):
    """Entries that lead from the code digest ``old`` to ``new``; None where none do.

    The fewest of those that say what was tried, else the fewest of all.
    notebook, name : under which ``job`` is stored
    """
    return tried_chain(notebook, name, job, old, new) or _chain(notebook, name, job, old, new, _speaks)


def tried_chain(notebook, name, job, old, new):
    """As :func:`chain`, of entries alone that name ``job`` or were tried at its extremes and beyond."""

    def speaks(entry, *of):
        return not is_untried(entry, name) and _speaks(entry, *of)

    return _chain(notebook, name, job, old, new, speaks)


def _chain(notebook, name, job, old, new, speaks):
    steps = _steps(notebook).get((job.compute.__name__, code_path(job.arguments)), {})
    ways, seen = [(old, [])], {old}
    for digest, way in ways:
        if digest == new:
            return way
        for entry in steps.get(digest, ()):
            if entry["to"] not in seen and speaks(entry, notebook, name, job):
                seen.add(entry["to"])
                ways.append((entry["to"], [*way, entry]))
    return None


def _speaks(entry, notebook, name, job):
    if entry["unit"] == name:
        return True
    if "tried" not in entry:
        return True
    profiles = _profiles(notebook)
    return entry["profile"] in profiles.get(name, ()) and within(numbers(job.arguments), entry["tried"])


def is_untried(entry, name):
    """Whether ``entry`` is an older one of another job than that called ``name``."""
    return "tried" not in entry and entry["unit"] != name


def _profiles(notebook):
    """{file name: profiles that have the job}, of all jobs that are stored under ``notebook``."""
    return _profiles_of(notebook.split("/")[0]).get(notebook, {})


@cache
def _profiles_of(paper):
    """{notebook: {file name: profiles}} of the jobs of one paper's notebooks, which share some."""
    from companion.runs import engine, results  # here: both look at what is verified

    found = {}
    for book in notebooks.every():
        if book.paper != paper:
            continue
        for profile in parameters.PROFILES:
            try:
                jobs = engine.jobs_of(book, parameters.resolve(book, profile))
            except AlignbookError:  # whoever asks for that notebook is told
                continue
            for job in jobs:
                under = found.setdefault(results.owner(job), {})
                under.setdefault(results.file_name(job), set()).add(profile)
    return found


def forget():
    """Read the profiles anew from here on: they may have been edited since."""
    _profiles_of.cache_clear()


def numbers(arguments):
    """{name: [smallest, largest]} of the numbers in a job's ``arguments`` (JSON).

    Those of a list are taken together, as ``steps[]``, and ``steps.length`` is one more; those of a dict are
    named ``network.width``.

    >>> numbers({"seed": 3, "steps": [10, 40, 20], "label": "real"})
    {'seed': [3, 3], 'steps[]': [10, 40], 'steps.length': [3, 3]}
    """
    found = {}

    def take(value, name):
        if isinstance(value, dict):
            for key, part in value.items():
                take(part, f"{name}.{key}" if name else key)
        elif isinstance(value, list):
            for part in value:
                take(part, f"{name}[]")
            take(len(value), f"{name}.length")
        elif _is_number(value):
            low, high = found.get(name, (value, value))
            found[name] = [min(low, value), max(high, value)]

    take(arguments, "")
    return found


def hull(many):
    """The smallest and the largest of every number, over ``many`` of :func:`numbers`."""
    found = {}
    for one in many:
        for name, (low, high) in one.items():
            least, most = found.get(name, (low, high))
            found[name] = [min(least, low), max(most, high)]
    return found


def within(one, tried):
    """Whether every number of ``one`` lies between the smallest and the largest in ``tried``."""
    return all(
        name in tried and tried[name][0] <= low and high <= tried[name][1]
        for name, (low, high) in one.items()
    )


def add(notebook, new):
    """Write the entries ``new`` beside those that are there."""
    _change(notebook, lambda old: [*old, *new])


def withdraw(notebook, compute, to):
    """Remove what was written of code ``to`` of the function ``compute``: some job of it differs."""
    _change(notebook, lambda old: [e for e in old if (e["compute"], e["to"]) != (compute, to)])


def _change(notebook, changed):
    file = _file(notebook)
    file.parent.mkdir(parents=True, exist_ok=True)
    with system.locked(paths.book_results() / ".locks" / f"{notebook.replace('/', '-')}-verified"):
        before = entries(notebook)
        after = changed(before)
        if after != before:
            system.replace(file, (json.dumps(after, indent=1, sort_keys=True) + "\n").encode())


def _steps(notebook):
    file = _file(notebook)
    try:
        stat = file.stat()
    except FileNotFoundError:
        return {}
    state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    if _read.get(file, (None,))[0] != state:
        steps = {}
        for entry in entries(notebook):
            key = (entry["compute"], json.dumps(entry["path"], sort_keys=True))
            steps.setdefault(key, {}).setdefault(entry["from"], []).append(entry)
        _read[file] = (state, steps)
    return _read[file][1]


def _file(notebook):
    return paths.book_results() / notebook / NAME


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_numbers(value):
    """``value`` (JSON) without the numbers in it, nor the names of those in a dict."""
    if isinstance(value, dict):
        return {name: without_numbers(part) for name, part in value.items() if not _is_number(part)}
    if isinstance(value, list):
        return [without_numbers(part) for part in value if not _is_number(part)]
    return value
