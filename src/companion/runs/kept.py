"""What commands say of every page, kept while nothing that it follows from has changed.

Judging a page takes a second, and so does comparing what is stored with the code of today; most commands only
want to know how it came out. ``<build>/<what>/`` holds it per notebook under a key: the package's sources,
those files of the paper's studies that count, plans, stored results, the data at hand, versions and device.
"""

import glob
import hashlib
import json
import os
import re
from pathlib import Path

from alignbook import paths, system
from companion.runs.notebooks import SOURCE

_SOURCES = Path(__file__).resolve().parents[2]
_CELL = re.compile(rb"^```\{code-cell\}.*?^```", re.MULTILINE | re.DOTALL)
_GPUS = "/dev/nvidia[0-9]*"
# Of the environment, what chooses the device or how it rounds.
_VARIABLES = ("ALIGNBOOK_DATA", "CUDA_VISIBLE_DEVICES", "ATEN_CPU_CAPABILITY", *system.INSTRUCTIONS)


def claims(notebook, keys):
    """{"profile": str, "claims": list of dicts} of the most faithful results that are stored; None of none.

    keys : a dict, empty at first, that the calls of one command share: nothing changes meanwhile
    Raises AlignbookError as :func:`companion.judging.claims_of` does.
    """
    return kept("claims", notebook, keys, _judged, _own)


def status(notebook, keys):
    """List of dicts, one per profile: how many jobs are asked for, stored, stale, drifted, diverged; why.

    Raises AlignbookError where the notebook, its profiles or its experiment cannot be read.
    """
    return kept("status", notebook, keys, _status, _computing)


def kept(what, notebook, keys, make, counts=lambda notebook, path: True):
    """What ``make(notebook)`` answered last, where nothing has changed; else its answer, which JSON can hold.

    what : a name for the answer, which that of a folder can be; keys : as :func:`claims` has it
    counts : ``counts(notebook, path)`` tells whether the answer follows from that file of the paper's studies
    """
    key = _key(notebook, keys, counts)
    file = paths.build() / what / f"{notebook.name.replace('/', '-')}.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["key"] == key:
            return found["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or broken
    answer = make(notebook)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        system.replace(file, json.dumps({"key": key, "answer": answer}).encode())
    except OSError:
        pass  # nowhere to keep it: made again the next time
    return answer


def _judged(notebook):
    system.one_thread()  # small matrices, whose threads would wait for each other
    from companion.judging import claims_of
    from companion.runs.run import most_faithful

    run = most_faithful(notebook)
    return run and {"profile": run.profile, "claims": [claim.as_dict() for claim in claims_of(run)]}


def _status(notebook):
    from companion.runs import parameters, results
    from companion.runs.job import choose_device
    from companion.runs.run import jobs_of

    rows, kind = [], choose_device("auto")
    for profile in parameters.PROFILES:
        jobs = jobs_of(notebook, parameters.resolve(notebook, profile))
        stored = [item for item in map(results.peek, jobs) if item]
        drifts = {item.job.name: why for item in stored if (why := item.drift(kind))}
        reasons = {item.job.name: why for item in stored if (why := item.stale())}
        rows.append(
            {
                "notebook": notebook.name,
                "profile": profile,
                "jobs": len(jobs),
                "stored": len(stored),
                "stale": len(reasons),
                "why": reasons,
                "drifted": len(drifts),
                "drift": {name: list(why) for name, why in drifts.items()},
                "diverged": sum(item.diverged for item in stored),
            }
        )
    return rows


def _own(notebook, path):
    """Of the notebook's folder or shared by the paper's: no study imports another."""
    return path.parent == notebook.source.parents[1] or notebook.source.parent in path.parents


def _computing(notebook, path):
    """What can make a result stale: nothing to the right of the stored tables, nor another study's prose."""
    return path.name not in ("reading.py", SOURCE) or path == notebook.source


def shown(notebook, path):
    """What a page follows from: its own folder, and what tells whether its results are stale."""
    return _own(notebook, path) or _computing(notebook, path)


def _key(notebook, keys, counts):
    paper, digest = notebook.paper, hashlib.sha256()
    if "" not in keys:
        keys[""] = _of_all()
    if paper not in keys:
        keys[paper] = _of_paper(paper)
    files, stored = keys[paper]
    digest.update((keys[""] + stored).encode())
    for path, found in files.items():
        if counts(notebook, path):
            digest.update(f"{path} {found}\n".encode())
    return digest.hexdigest()


def _of_all():
    """Digest of what counts for every paper."""
    digest = hashlib.sha256(json.dumps([system.versions(), glob.glob(_GPUS)]).encode())
    digest.update(repr([(name, os.environ.get(name)) for name in _VARIABLES]).encode())
    for path in [*_files(_SOURCES, ".py"), *_files(paths.root() / "data/plans")]:
        digest.update(f"{path}\0".encode() + path.read_bytes() + b"\0")
    for path in sorted(paths.data().glob("*.npz")):
        digest.update(f"{path} {_version(path)}\n".encode())
    return digest.hexdigest()


def _of_paper(paper):
    """({path: digest} of the files of a paper's studies, digest of the paper's stored results).

    A notebook's code cells, its parameters among them, have a digest beside that of the whole file.
    """
    files = {}
    for path in _files(paths.root() / "notebooks" / paper):
        content = path.read_bytes()
        files[path] = hashlib.sha256(content).hexdigest()
        if path.name == SOURCE:
            files[path / "cells"] = hashlib.sha256(b"".join(_CELL.findall(content))).hexdigest()
    stored = hashlib.sha256()
    for path in [path for store in paths.stores() for path in _files(store / paper)]:
        stored.update(f"{path} {_version(path)}\n".encode())
    return files, stored.hexdigest()


def _version(path):
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _files(folder, suffix=""):
    """All files below ``folder`` whose names end so, sorted; hidden and compiled ones do not count."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        found += [Path(place, n) for n in names if n.endswith(suffix) and not n.startswith(".")]
    return sorted(found)
