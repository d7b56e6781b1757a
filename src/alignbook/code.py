"""Digest of the code that a result depends on: the files that its module imports, directly or not.

All files of this package and of the studies count, but for the modules in ``LEFT_OUT``. Within a file,
docstrings, comments, layout and the type hints of functions do not count, and neither does its place: it may
move. An ``__init__`` that passes a name on is followed to the module that defines the name.
"""

import ast
import hashlib
import importlib.util
import os
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

from alignbook.errors import AlignbookError, fault

PACKAGE = __package__
# Modules that make no number: caches, the command, messages, places of files, the machine; and what finds
# torchvision, which only fetches data, whose content has a digest of its own.
_LEFT_OUT = "checkpoints cli code data.torchvision_shim errors installed paths system"
LEFT_OUT = {f"{PACKAGE}.{name}" for name in _LEFT_OUT.split()}
_one_at_a_time = threading.Lock()  # Python's parser counts its depth for all threads together


class _Import(NamedTuple):
    """``name`` of the module ``source``, or the module itself where it is None; known here as ``alias``."""

    source: str
    name: str | None
    alias: str


class _File(NamedTuple):
    sha: str
    imports: list[_Import]
    is_package: bool


@cache
def digest(module: str) -> str:
    """SHA-256 (hex) over the files that the module called ``module`` reaches by its imports.

    Raises AlignbookError where it has no file, or one of the files is no Python.
    """
    if _file(module) is None:
        raise AlignbookError(f"{module} has no digest: there is no such file")
    return _sha(*sorted(_sha(_file(name).sha, *_lines(name, module)) for name in reached(module)))


def forget() -> None:
    """Look at the files anew from here on: they may have been edited since."""
    digest.cache_clear()
    _file.cache_clear()


def reached(module: str) -> set[str]:
    """Names of the modules whose files count for the one called ``module``, its own among them."""
    names, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in names and _file(name):
            names.add(name)
            waiting += [_origin(entry) for entry in _file(name).imports if _is_followed(entry, module)]
    return names


def _lines(name, module):
    """What the imports of the file ``name`` bring, a sorted list of texts."""
    lines = set()
    for entry in _file(name).imports:
        if _is_followed(entry, module):
            origin = _file(_origin(entry))
            lines.add(f"{entry.name} {entry.alias} {origin.sha if origin else ''}")
        elif entry.source.split(".")[0] not in (PACKAGE, module.split(".")[0]):
            lines.add(f"{entry.name} {entry.alias} {entry.source}")
    return sorted(lines)


def _is_followed(entry, module):
    """Whether an import counts: from this package or, where ``module`` is a study, from the studies."""
    roots = (f"{PACKAGE}.", ".".join([*module.split(".")[:2], ""]))
    if not f"{entry.source}.".startswith(roots):
        return False
    origin = _origin(entry)
    return f"{origin}.".startswith(roots) and origin not in LEFT_OUT


def _origin(entry):
    """The name of the module that defines what is imported."""
    here = _file(entry.source)
    if entry.name is None or (here and not here.is_package):
        return entry.source
    if _file(f"{entry.source}.{entry.name}"):
        return f"{entry.source}.{entry.name}"
    passed_on = [one for one in here.imports if one.alias == entry.name] if here else []
    return _origin(passed_on[0]) if passed_on else entry.source


@cache
def _file(name):
    """The :class:`_File` of the module called ``name``; None where there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return None
    if spec is None or not (spec.origin or "").endswith(".py"):
        return None
    is_package = spec.submodule_search_locations is not None
    stat = os.stat(spec.origin)
    return _parsed(name, spec.origin, is_package, (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))


@cache
def _parsed(name, path, is_package, version):
    """The :class:`_File` of the module ``name`` as its file is in this ``version`` of it."""
    try:
        with _one_at_a_time:
            tree = ast.parse(Path(path).read_bytes(), path)
    except (SyntaxError, ValueError) as error:
        raise AlignbookError(f"{name} has no digest: {fault(error)}") from error
    package = name if is_package else name.rpartition(".")[0]
    return _File(_sha(_text(tree)), list(_imports(tree, package)), is_package)


def _imports(tree, package):
    """The imports of a file, wherever they stand in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.name, None, alias.asname or alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                yield _Import(source, alias.name, alias.asname or alias.name)


def _text(node):
    """What counts of a syntax tree, the same text in every version of Python.

    ``ast.unparse`` and ``ast.dump`` write some trees differently from 3.12 and 3.13 on: so fields that are
    empty are left out here, and the empty strings that some versions see in a format.
    """
    if isinstance(node, list):
        return f"[{', '.join(_text(part) for part in node if not _is_nothing(part))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    unseen = {"ctx", "kind", "type_comment", "returns"}
    unseen |= {"annotation"} if isinstance(node, ast.arg) else set()
    fields = {name: value for name, value in ast.iter_fields(node) if name not in unseen}
    if isinstance(node, ast.JoinedStr):
        fields["values"] = [value for value in node.values if getattr(value, "value", None) != ""]
    parts = [f"{name}={_text(value)}" for name, value in fields.items() if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(parts)})"


def _is_nothing(statement):
    """Whether it is an import, which counts by what it brings, or a docstring."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Import | ast.ImportFrom)


def _sha(*texts):
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
