"""The claims of every page, kept while nothing that they follow from has changed.

Judging takes seconds a page; most commands only want to know how it came out. ``<build>/claims/`` holds, per
notebook, the claims of the results that its page shows, under a key: the package's sources but the other
papers' studies, the paper's own studies, profiles, plans and stored results.
"""

import hashlib
import json
import os
from pathlib import Path

from alignbook import paths, system

_HERE = Path(__file__).resolve().parents[1]


def claims(notebook, keys):
    """{"profile": str, "claims": list of dicts} of the most faithful results that are stored; None of none.

    keys : a dict, empty at first, that the calls of one command share: nothing changes meanwhile
    Raises AlignbookError as :class:`~alignbook.runs.engine.Run` does.
    """
    key = keys.get(notebook.paper) or keys.setdefault(notebook.paper, _key(notebook.paper))
    file = paths.build() / "claims" / f"{notebook.name.replace('/', '-')}.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return kept["judged"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or broken
    judged = _judged(notebook)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        system.replace(file, json.dumps({"key": key, "judged": judged}).encode())
    except OSError:
        pass  # nowhere to keep it: judged again the next time
    return judged


def _judged(notebook):
    system.one_thread()  # small matrices, whose threads would wait for each other
    from alignbook.runs import engine

    run = engine.most_faithful(notebook)
    return run and {"profile": run.profile, "claims": [claim.as_dict() for claim in run.claims]}


def _key(paper):
    notes = paths.root() / "notebooks"
    sources = [path for path in _files(_HERE, ".py") if not _is_other(path, paper)]
    sources += [*_files(notes / "profiles"), *_files(notes / paper), *_files(paths.root() / "data/plans")]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path}\0".encode() + path.read_bytes() + b"\0")
    for path in _files(paths.results() / paper):
        stat = path.stat()
        digest.update(f"{path} {stat.st_mtime_ns} {stat.st_size}\n".encode())
    return digest.hexdigest()


def _is_other(path, paper):
    parts = path.relative_to(_HERE).parts
    return parts[0] == "experiments" and len(parts) > 2 and parts[1] != paper


def _files(folder, suffix=""):
    """All files below ``folder`` whose names end so, sorted; hidden and compiled ones do not count."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        found += [Path(place, n) for n in names if n.endswith(suffix) and not n.startswith(".")]
    return sorted(found)

