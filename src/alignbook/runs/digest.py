"""Digest of the code that a result depends on.

A stored result is stale when the code that made it has changed. The code is what ``compute``
reaches inside this package: functions, classes and constants, followed through imports. Docstrings,
comments, formatting, claims, figures and the module in which a definition stands do not count.
"""

import ast
import hashlib
import importlib
import importlib.util
from functools import cache
from pathlib import Path

from alignbook.errors import AlignbookError, fault

PACKAGE = __package__.split(".")[0]
# What does not count: how the data come here, since their content has a digest of its own; whether what a
# function makes is read where that function made it before, since what it reaches counts; which of
# several equally exact routes a device takes, the CUDA kernel of a sum, the library of a product, or a
# replay of the same kernels; and what is refused before or after. A decorator among these does not count
# where it is used, either.
BOUNDARY = {
    (f"{PACKAGE}.checkpoints", "checkpoint"),
    (f"{PACKAGE}.data.arguments", "checked"),
    (f"{PACKAGE}.data.images", "fetch"),
    (f"{PACKAGE}.data.tables", "fetch_table"),
    (f"{PACKAGE}.kernels.cuda_graph", "replayed"),
    (f"{PACKAGE}.kernels.gram_product", "squared_sum"),
    (f"{PACKAGE}.kernels.products", "float32_products"),
    (f"{PACKAGE}.metrics.checks", "finite_moments"),
    (f"{PACKAGE}.metrics.checks", "scaled"),
    (f"{PACKAGE}.metrics.checks", "scaled_back"),
    (f"{PACKAGE}.metrics.checks", "squares_in_range"),
}
# Fields of a syntax tree that say nothing of what the code does.
_UNSEEN = {"ctx", "kind", "type_comment"}
_DEFINITIONS = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def code_digest(function):
    """SHA-256 (hex) over the source of everything in the package that ``function`` reaches."""
    return _digest_of(function.__module__, function.__name__)


def forget():
    """Read the sources anew from here on: they may have been edited since."""
    _digest_of.cache_clear()
    _visit.cache_clear()
    _scope.cache_clear()


@cache
def _digest_of(module, name):
    seen, waiting = {}, [(module, name)]
    while waiting:
        place = waiting.pop()
        if place in seen or place in BOUNDARY:
            continue
        seen[place], reached = _visit(*place)
        waiting.extend(reached)
    lines = sorted(f"{name}\n{text}" for (_, name), text in seen.items())  # wherever it stands
    return hashlib.sha256("\n\n".join(lines).encode()).hexdigest()


@cache
def _visit(module, name):
    """(text, places reached) of what ``name`` is at the top level of ``module``."""
    nodes, scope = _definition(module, name)
    routes = frozenset(name for name, source in scope[1].items() if source in BOUNDARY)
    reached = {place for node in nodes for place in _references(node, scope, module)}
    return "\n".join(_text(node, routes) for node in nodes), reached


@cache
def _scope(module):
    """(definitions, imports, package) of the top level of ``module``, or None outside the package.

    definitions : {name: the statements that make or change it}
    """
    if module.split(".")[0] != PACKAGE:
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a name that a module makes as it runs
        return None
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        return None
    if not spec.origin:  # a study's folder, which has modules and no code of its own
        return {}, {}, module
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    definitions, imports = {}, {}
    try:
        body = ast.parse(Path(spec.origin).read_text(encoding="utf-8"), spec.origin).body
    except (SyntaxError, ValueError) as error:
        raise AlignbookError(f"{module} has no digest: {fault(error)}") from error
    for node in body:
        for name in _changed(node):
            definitions.setdefault(name, []).append(node)
        if not isinstance(node, _DEFINITIONS):
            imports.update(_imported(node, package))
    return definitions, imports, package


def _changed(node):
    """Names that a statement makes or changes: defined, assigned to, or ``T`` of T[key] = … and T.add(…)."""
    names, waiting = set(), [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _DEFINITIONS):
            names.add(part.name)
            continue
        if isinstance(part, _SCOPES):  # what they bind is theirs
            continue
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            function = part.value.func
            names |= _base(function) if isinstance(function, ast.Attribute) else set()
        elif isinstance(getattr(part, "ctx", None), ast.Store | ast.Del):
            names |= _base(part)
        waiting.extend(ast.iter_child_nodes(part))
    return names


def _base(part):
    """The name at the start of ``name``, ``name.attribute`` or ``name[key]``, as a set."""
    while isinstance(part, ast.Attribute | ast.Subscript):
        part = part.value
    return {part.id} if isinstance(part, ast.Name) else set()


def _imported(node, package):
    """{bound name: (module, attribute or None)} of the import statements within ``node``."""
    bound = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.asname or alias.name.split(".")[0]
                bound[name] = (alias.name if alias.asname else name, None)
        elif isinstance(part, ast.ImportFrom):
            source = importlib.util.resolve_name("." * part.level + (part.module or ""), package)
            for alias in part.names:
                bound[alias.asname or alias.name] = (source, alias.name)
    return bound


def _definition(module, name):
    scope = _scope(module)
    return scope[0][name], scope


def _references(node, scope, module):
    definitions, imports = scope[0], scope[1] | _imported(node, scope[2])
    attributes = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            attributes.setdefault(part.value.id, set()).add(part.attr)
    for name in {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}:
        if name in imports:
            yield from _resolve(*imports[name], attributes.get(name, ()))
        elif name in definitions:
            yield module, name


def _resolve(module, name, attributes):
    """Places in the package that an imported name, used with ``attributes``, stands for."""
    scope = _scope(module)
    if scope is None:
        return
    if name is None:
        for attribute in attributes:
            yield from _resolve(module, attribute, ())
    elif name in scope[0]:
        yield module, name
    elif name in scope[1]:
        yield from _resolve(*scope[1][name], attributes)
    elif _scope(f"{module}.{name}") is not None:
        yield from _resolve(f"{module}.{name}", None, attributes)
    elif module == PACKAGE:
        public = importlib.import_module(PACKAGE).PUBLIC
        if name in public:
            yield from _resolve(public[name], name, attributes)


def _text(node, routes=frozenset()):
    """The syntax tree of ``node`` without docstrings, written out alike by every version of Python.

    Decorators with a name in ``routes`` are left out.
    ``ast.unparse`` quotes nested strings differently from 3.12 on, and ``ast.dump`` shows fields that only
    some versions have; those are empty here, and what is empty is left out. So are the empty strings that
    some versions see at the end of a format.
    """
    if isinstance(node, list):
        return f"[{', '.join(_text(part, routes) for part in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _DEFINITIONS):
        fields["decorator_list"] = [d for d in node.decorator_list if getattr(d, "id", None) not in routes]
    if isinstance(node, _DEFINITIONS) and ast.get_docstring(node):
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):
        fields["values"] = [part for part in node.values if getattr(part, "value", None) != ""]
    kept = {name: value for name, value in fields.items() if name not in _UNSEEN and value not in (None, [])}
    parts = ", ".join(f"{name}={_text(value, routes)}" for name, value in kept.items())
    return f"{type(node).__name__}({parts})"
