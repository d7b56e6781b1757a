"""Records that today's code stands for results that older code made: ``<store>/<notebook>/verified.json``.

One entry per unit that was recomputed and agreed (:mod:`alignbook.runs.verify`):

``compute``, ``path``
    the compute function, and its arguments that are no numbers: the path through the code;
``from``, ``to``
    digests of the code that made the stored table, and of the code that it was recomputed with;
``unit``, ``table``
    the stored unit's file name and the SHA-256 of its table;
``largest_difference``, ``column``, ``tolerance``
    as a share of the largest value in its column; 0.0 where the tables are the same, bit for bit;
``base``
    the commit whose code was run beside, so that the two are of one processor; null: the stored table
``stored_device``, ``device``, ``date``, ``commit``, ``wall_time_s``
    where and when, then and now.

An entry speaks for every unit of the same compute function, path and ``from``, and for no other.
"""

import json

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line

NAME = "verified.json"
_read = {}  # path: ((time of change, size), {(compute, path): {from: entries}})


def code_path(arguments):
    """What of a unit's ``arguments`` may choose a branch: all but numbers, as canonical JSON."""
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


def chain(notebook, compute, path, old, new):
    """Entries that lead from the code digest ``old`` to ``new``, the fewest; None where none do."""
    steps = _steps(notebook).get((compute, path), {})
    ways, seen = [(old, [])], {old}
    for digest, way in ways:
        if digest == new:
            return way
        for entry in steps.get(digest, ()):
            if entry["to"] not in seen:
                seen.add(entry["to"])
                ways.append((entry["to"], [*way, entry]))
    return None


def add(notebook, new):
    """Write the entries ``new`` beside those that are there."""
    _change(notebook, lambda old: [*old, *new])


def withdraw(notebook, compute, to):
    """Remove what was written of code ``to`` of the function ``compute``: some unit of it differs."""
    _change(notebook, lambda old: [e for e in old if (e["compute"], e["to"]) != (compute, to)])


def _change(notebook, changed):
    file = _file(notebook)
    file.parent.mkdir(parents=True, exist_ok=True)
    with system.locked(paths.results() / ".locks" / f"{notebook.replace('/', '-')}-verified"):
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
    return paths.results() / notebook / NAME


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_numbers(value):
    """``value`` (JSON) without the numbers in it, nor the names of those in a dict."""
    if isinstance(value, dict):
        return {name: without_numbers(part) for name, part in value.items() if not _is_number(part)}
    if isinstance(value, list):
        return [without_numbers(part) for part in value if not _is_number(part)]
    return value
