"""Executed notebooks that are kept: a page is executed again only when something it is made of has changed.

``<build>/executed/<profile>/<paper>/<slug>.ipynb`` is the notebook, ``.json`` beside it its key and its
:class:`~companion.pages.record.Record`. The JSON is written last and names the digest of the notebook: where
the two do not agree, or cannot be read, the notebook is executed again.
"""

import ast
import hashlib
import importlib.util
import json
import sysconfig
from functools import cache
from pathlib import Path

from alignbook import paths, system
from companion.pages import record
from companion.runs import notebooks, parameters, plans, results
from companion.runs.run import jobs_of

PACKAGE = __package__.split(".")[0]


def key(notebook, profile):
    """SHA-256 (hex) of all that the page is made of, or None where a result is missing or broken.

    That is the notebook's text, the values of its parameters, the stored results with what makes them stale,
    the sources of the package that the notebook reaches through imports, and the installed packages.
    """
    values = parameters.resolve(notebook, profile)
    jobs = jobs_of(notebook, values)
    fuller = getattr(notebook.experiment, "JOINED", {}).get(profile)
    joined = jobs_of(notebook, parameters.resolve(notebook, fuller)) if fuller else []
    stored = [_stored(job) for job in jobs]
    if None in stored:
        return None
    source = notebook.source.read_text(encoding="utf-8")
    own = (module.__name__ for module in notebook.modules)
    start = (*own, *_imported("\n".join(notebooks.cells(notebook)), PACKAGE))
    planned = [repr(plan) for plan in plans.of(notebook.name)]
    for plan in plans.of(notebook.name):
        if plan.judges or "page.planned()" in source:
            planned += [_stored(job) for job in jobs_of(notebook, plan.values)]
    parts = [source, values, planned, stored, [_stored(job) for job in joined]]
    parts += [_sources(start), installed()]
    if fuller:
        parts.append(parameters.resolve(notebook, fuller))
    parts.append(parameters.resolve(notebook, "paper"))  # stands beside the values of every page
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def find(notebook, profile, key):
    """(path of the kept notebook, its record) where it was executed under ``key``, else None."""
    path = _place(notebook, profile)
    try:
        kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if kept["key"] != key or kept["notebook"] != _sha(path):
            return None
        return path, record.read(kept["record"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(notebook, profile, key, executed, made):
    """Keep the notebook in the file ``executed`` and its :class:`record.Record` ``made`` under ``key``."""
    path = _place(notebook, profile)
    path.parent.mkdir(parents=True, exist_ok=True)
    system.replace(path, executed.read_bytes())
    kept = {"key": key, "notebook": _sha(path), "record": made.written()}
    system.replace(path.with_suffix(".json"), json.dumps(kept).encode())


def digest_of(*places):
    """SHA-256 (hex) of files, of all files in folders and of the installed packages."""
    parts = []
    for number, place in enumerate(places):
        files = sorted(path for path in place.rglob("*") if path.is_file()) or [place]
        parts += [
            (number, path.relative_to(place).as_posix(), _sha(path)) for path in files if path.is_file()
        ]
    return hashlib.sha256(json.dumps([parts, installed()]).encode()).hexdigest()


def sources(*start):
    """Paths of the package's modules named in ``start`` and of those that they import, sorted."""
    return [Path(importlib.util.find_spec(module).origin) for module in sorted(_sources(start))]


def _place(notebook, profile):
    return paths.build() / "executed" / (profile or "custom") / f"{notebook.name}.ipynb"


def _stored(job):
    """What tells the stored ``job`` from any other, and why it is stale; None where it is missing."""
    item = results.peek(job)
    if item is None:
        return None
    described = json.dumps(item.provenance, sort_keys=True)
    return [results.file_name(job), hashlib.sha256(described.encode()).hexdigest(), item.stale()]


def _sources(start):
    """{module: SHA-256 of its file} of the modules named in ``start``, and of those that they import."""
    found, waiting = {}, [*start]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found[module], reached = _module(module)
        waiting.extend(reached)
    return {module: sha for module, sha in found.items() if sha}


@cache
def _module(name):
    """(SHA-256 of its file, the package's modules that it imports), or (None, ()) of what is no module."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.origin:
        return None, ()
    text = Path(spec.origin).read_text(encoding="utf-8")
    package = name if spec.submodule_search_locations else name.rpartition(".")[0]
    return hashlib.sha256(text.encode()).hexdigest(), _imported(text, package)


def _imported(text, package):
    """Names of the package's modules that the Python ``text`` imports anywhere, and of what may be one."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names |= {source} | {f"{source}.{alias.name}" for alias in node.names}
            if source == PACKAGE:
                names |= _public({alias.name for alias in node.names})
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == PACKAGE:
            names |= _public({node.attr})
    return tuple(sorted(name for name in names if name.split(".")[0] == PACKAGE))


def _public(names):
    """Modules of what the package itself offers under ``names``."""
    public = importlib.import_module(PACKAGE).PUBLIC
    return {public[name] for name in names if name in public}


@cache
def installed():
    """SHA-256 (hex) of names and versions of the installed packages, and Python's."""
    folder = Path(sysconfig.get_path("purelib"))
    names = [sysconfig.get_python_version(), *sorted(path.name for path in folder.glob("*.dist-info"))]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
