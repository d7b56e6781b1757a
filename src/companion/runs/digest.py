"""Digest of the code that a result depends on.

A stored result is stale when the code that made it has changed. The code is what ``compute`` reaches inside
this package: functions, classes and constants, followed through imports and through ``a.b.c``; what a name
from elsewhere stands for (which module, which attribute); and, of every module that is reached, the
statements at its top level that act on more than a name of their own. Docstrings, comments, formatting,
claims, figures and the module in which a definition stands do not count.

The digest of a definition is one over its text and the digests of what it refers to, in their order: two
definitions of one name are told apart by their content, not by where they stand.
"""

import ast
import copy
import hashlib
import importlib.util
import sys
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from alignbook import paths
from alignbook.errors import AlignbookError, fault

PACKAGE, FRAME_PACKAGE = "alignbook", "companion"
PACKAGES = (PACKAGE, FRAME_PACKAGE)
SOURCES = Path(__file__).parents[2]  # the folder that holds the package
STUDIES = "notebooks"  # the folder of a checkout that holds its studies
# What does not count: how the data come here and how their digest is made, since their content has one of its
# own; whether what a function makes is read where that function made it before; how torchvision is found; and
# the recorder's figure, which no job draws.
BOUNDARY = {
    (f"{PACKAGE}.training.pretrained", "checkpoint"),
    (f"{PACKAGE}.data.images", "digest"),
    (f"{PACKAGE}.data.images", "fetch"),
    (f"{PACKAGE}.data.tables", "fetch_table"),
    (f"{PACKAGE}.data.torchvision_shim", "import_torchvision"),
    (f"{PACKAGE}.recording.drawing", "drawn"),
}
# What stands between every ``compute`` and its stored table.
FRAME = ((f"{FRAME_PACKAGE}.runs.results", "written"),)
EFFECTS = ""  # in place of a definition's name: the statements that act on more than a module's own names
# Fields of a syntax tree that say nothing of what the code does.
_UNSEEN = {"ctx", "kind", "type_comment"}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = _FUNCTIONS | ast.ClassDef
_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_IMPORTS = ast.Import | ast.ImportFrom
# Builtin functions that leave their arguments as they are, and those of them that make a new object.
_NEW = {"bytearray", "dict", "frozenset", "list", "set", "sorted", "tuple"}
_HARMLESS = _NEW | {
    *("abs", "all", "any", "bool", "enumerate", "filter", "float", "int", "isinstance", "len", "map", "max"),
    *("min", "range", "repr", "reversed", "round", "slice", "str", "sum", "type", "zip", "super"),
}
_CHANGING = {
    *("add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "popitem", "put", "remove"),
    *("resize", "reverse", "setdefault", "setflags", "sort", "update"),
}


def code_digest(function):
    """SHA-256 (hex) over the source of everything in the package that ``function`` reaches."""
    with _one_at_a_time:
        return _sources().code(function.__module__, function.__name__)


def forget():
    """Read the sources anew from here on: they may have been edited since."""
    _read.clear()


_read = []  # the Sources at hand
# Threads of one worker ask at once; Python's parser counts its depth for all of them together.
_one_at_a_time = threading.RLock()


def _sources():
    if not _read:
        _read.append(Sources(SOURCES, paths.root() / STUDIES))
    return _read[0]


@dataclass(frozen=True)
class Module:
    """The top level of one module.

    definitions : {name: the statements that make or change it}
    imports : {name: [(module, attribute or None), …], everything that an import binds to it}
    effects : statements that act on more than names of this module
    """

    name: str
    path: Path
    package: str
    body: list
    definitions: dict
    imports: dict
    effects: list


class Whole(str):
    """The name of a module of the package that stands where a value does."""


class Missing(str):
    """A name that a module of the package does not make as far as its text tells."""


class Sources:
    """The package as its text stands in ``folder``, read when asked for and then kept.

    studies : the folder of ``companion.studies``; by default ``notebooks`` beside ``folder``
    """

    def __init__(self, folder, studies=None):
        self.folder = Path(folder)
        self.studies = Path(studies) if studies else self.folder.parent / STUDIES
        self._modules, self._places, self._digests = {}, {}, {}

    def code(self, module, function):
        """The digest of a compute function: 64 hex digits."""
        parts = [self.digest((module, function)), *map(self.digest, FRAME)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def digest(self, place):
        """The digest of a ``place``: (module, name of a definition, or EFFECTS)."""
        if place not in self._digests:
            for component in _components(place, self._inside, self._digests):
                self._digests.update(self._of_component(component))
        return self._digests[place]

    def reached(self, place):
        """All places that ``place`` reaches, itself among them."""
        seen, waiting = set(), [place]
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                waiting.extend(self._inside(place))
        return seen

    def _of_component(self, places):
        """{place: digest} of places that all reach each other.

        Where there are several, each round lets a digest see one reference farther: after as many rounds as
        there are places, two of them have the same only where they are alike as far as references lead.
        """
        inside = set(places)
        digests = dict.fromkeys(places, "")
        for _ in places if any(inside & set(self._inside(place)) for place in places) else "1":
            digests = {place: self._hash(place, digests) for place in places}
        return digests

    def _hash(self, place, inside):
        text, references = self.place(place)
        lines = [text]
        for name, target in references:
            if isinstance(target, tuple):
                target = inside[target] if target in inside else self._digests[target]
            lines.append(f"{name} {target}")
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _inside(self, place):
        return [target for _, target in self.place(place)[1] if isinstance(target, tuple)]

    def place(self, place):
        """(text, [(name as it is written, what it stands for)]) of ``place``.

        A name stands for another place, a tuple, or for something outside the package, a text.
        """
        if place not in self._places:
            module = self.module(place[0])
            nodes = module.effects if place[1] == EFFECTS else module.definitions[place[1]]
            references = [(EFFECTS, (module.name, EFFECTS))] if module.effects and place[1] != EFFECTS else []
            for node in nodes:
                references += self._references(node, module)
            references = [pair for pair in dict.fromkeys(references) if pair[1] not in BOUNDARY]
            self._places[place] = "\n".join(_text(self._bare(node, module)) for node in nodes), references
        return self._places[place]

    def _bare(self, node, module):
        """``node``, without the decorators that do not count where it is a function."""
        counting = [d for d in getattr(node, "decorator_list", []) if not self._uncounted(d, module)]
        if counting == getattr(node, "decorator_list", []):
            return node
        bare = copy.copy(node)
        bare.decorator_list = counting
        return bare

    def _uncounted(self, decorator, module):
        name, *rest = chain_of(decorator) or ("",)
        return any(place in BOUNDARY for place in self.stands_for(module, module.imports, name, rest))

    def _references(self, node, module):
        imports = module.imports
        local = _imported(node, module.package) if isinstance(node, _DEFINITIONS) else {}
        if local:
            imports = imports | {name: imports.get(name, []) + bound for name, bound in local.items()}
        for name, *rest in chains(node):
            for target in self.stands_for(module, imports, name, rest):
                if not isinstance(target, Whole | Missing):
                    yield ".".join([name, *rest]), target

    def stands_for(self, module, imports, name, rest):
        """What ``name.rest`` stands for inside ``module``, a list; empty for builtins and local names."""
        found = [(module.name, name)] if name in module.definitions else []
        for source, attribute in imports.get(name, ()):
            found += self.imported(source, [*([attribute] if attribute else []), *rest], attribute)
        return found

    def imported(self, source, names, attribute=None, seen=frozenset()):
        """What the attributes ``names``, one after the other, of the module ``source`` stand for, a list."""
        if source.split(".")[0] not in PACKAGES:
            return [f"{source}.{attribute}" if attribute else source]
        here = self.module(source)
        if here is None:
            return [Missing(source)]
        if not names:
            return [Whole(source)]
        name, *rest = names
        found = [(source, name)] if name in here.definitions else []
        if (source, name) not in seen:
            for origin, attribute in here.imports.get(name, ()):
                further = [*([attribute] if attribute else []), *rest]
                found += self.imported(origin, further, attribute, seen | {(source, name)})
        if found:
            return found
        if self.module(f"{source}.{name}"):
            return self.imported(f"{source}.{name}", rest, None, seen)
        if source == PACKAGE and name in self._public:
            return self.imported(self._public[name], names, None, seen)
        return [Missing(f"{source}.{name}")]

    @cached_property
    def _public(self):
        """{public name: module}, the literal ``PUBLIC`` of the package."""
        nodes = self.module(PACKAGE).definitions.get("PUBLIC", ())
        return {name: module for node in nodes for name, module in ast.literal_eval(node.value).items()}

    def modules(self):
        """All modules of the package, sorted by name."""
        found = []
        for folder, parts in (
            *((self.folder / package, (package,)) for package in PACKAGES),
            (self.studies, (FRAME_PACKAGE, "studies")),
        ):
            files = sorted(folder.rglob("*.py"))
            found += [(*parts, *file.relative_to(folder).with_suffix("").parts) for file in files]
        return [self.module(".".join(parts).removesuffix(".__init__")) for parts in found]

    def module(self, name):
        """The :class:`Module` ``name`` of the package, or None where there is none."""
        if name not in self._modules:
            self._modules[name] = self._parsed(name)
        return self._modules[name]

    def _elsewhere(self, name):
        """The file of a module that this process imports from beside the folder, as tests do; or None."""
        found = sys.modules.get(name) if self.folder == SOURCES else None
        return Path(found.__file__) if getattr(found, "__file__", None) else None

    def _parsed(self, name):
        base = self.folder.joinpath(*name.split("."))
        if name.startswith(f"{FRAME_PACKAGE}.studies."):
            base = self.studies.joinpath(*name.split(".")[2:])
        path, package = base / "__init__.py", name
        if not path.is_file():
            path, package = base.with_suffix(".py"), name.rpartition(".")[0]
            if base.is_dir():  # a package without a text of its own
                return Module(name, base, name, [], {}, {}, [])
            if not path.is_file():
                path = self._elsewhere(name)
            if path is None:
                return None
        try:
            body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
        except (SyntaxError, ValueError) as error:
            raise AlignbookError(f"{name} has no digest: {fault(error)}") from error
        definitions, imports = {}, {}
        body = [node for node in body if not _is_main(node)]
        for node in body:
            for changed in _changed(node):
                definitions.setdefault(changed, []).append(node)
            if not isinstance(node, _DEFINITIONS):
                for bound, sources in _imported(node, package).items():
                    imports.setdefault(bound, []).extend(sources)
        # A name that is imported and then changed, T[key] = …, is no definition: that is an effect.
        for bound in imports:
            if bound in definitions and not any(_binds(node, bound) for node in definitions[bound]):
                del definitions[bound]
        module = Module(name, path, package, body, definitions, imports, [])
        module.effects.extend(node for node in body if any(effects(node, module)))
        return module


def _components(root, successors, settled):
    """Strongly connected components that ``root`` reaches (Tarjan 1972), each after those that it reaches.

    What is in ``settled`` is left out, and so is what lies behind it.
    """
    number, low, stack, found = {}, {}, [], []
    calls = []

    def enter(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        calls.append((node, iter(successors(node))))

    enter(root)
    while calls:
        node, rest = calls[-1]
        for following in rest:
            if following in settled:
                continue
            if following not in number:
                enter(following)
                break
            if low[following] is not None:
                low[node] = min(low[node], number[following])
        else:
            calls.pop()
            if calls:
                low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
            if low[node] == number[node]:
                component = stack[stack.index(node) :]
                del stack[stack.index(node) :]
                low.update(dict.fromkeys(component))  # None: done with
                found.append(component)
    return found


def chains(node):
    """Names in ``node`` with the attributes that follow them, ("name", "attribute", …), in their order.

    Without the local names of functions: they stand for nothing outside.
    """
    waiting = [(node, frozenset())]
    while waiting:
        part, local = waiting.pop()
        if isinstance(part, ast.Name):
            if part.id not in local:
                yield (part.id,)
        elif isinstance(part, ast.Attribute) and (chain := chain_of(part)):
            if chain[0] not in local:
                yield chain
        elif isinstance(part, _IMPORTS):  # which of several that bind one name stands where
            yield from ((alias.asname or alias.name.split(".")[0],) for alias in part.names)
        else:
            within = local | _local_names(part) if isinstance(part, _FUNCTIONS | ast.Lambda) else local
            body = getattr(part, "body", ())
            inside = set(map(id, body if isinstance(body, list) else [body]))
            parts = [(child, within if id(child) in inside else local) for child in parts_of(part)]
            waiting.extend(reversed(parts))


def _local_names(function):
    """Names that a function or lambda binds itself: its parameters, and what it assigns to.

    What a comprehension binds and what an import binds are not among them.
    """
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
    outer, imported = set(), set()
    waiting = list(function.body) if isinstance(function.body, list) else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, _DEFINITIONS):
            names.add(part.name)
        elif isinstance(part, ast.Global | ast.Nonlocal):
            outer.update(part.names)
        elif isinstance(part, _IMPORTS):
            imported.update(alias.asname or alias.name.split(".")[0] for alias in part.names)
        elif not isinstance(part, _SCOPES):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del):
                names.add(part.id)
            waiting.extend(parts_of(part))
    return names - outer - imported


def parts_of(node):
    """The nodes right below ``node`` that say what the code does."""
    for name in node._fields:
        if name not in _UNSEEN:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                yield value
            elif isinstance(value, list):
                yield from (part for part in value if isinstance(part, ast.AST))


def every_part(node):
    """``node`` and all nodes below it, in no particular order."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(parts_of(part))


def chain_of(part):
    """("name", "attribute", …) of ``name.attribute…``, or None for anything else."""
    names = []
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return (part.id, *reversed(names)) if isinstance(part, ast.Name) else None


def _is_main(node):
    """Whether it is ``if __name__ == "__main__":``, which no import runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'" and not node.orelse


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
        waiting.extend(parts_of(part))
    return names


def _binds(node, name):
    """Whether the statement ``node`` gives ``name`` a value, rather than changing what it holds."""
    if isinstance(node, _DEFINITIONS):
        return node.name == name
    stored = (part for part in every_part(node) if isinstance(part, ast.Name | _DEFINITIONS))
    return any(
        part.name == name
        if isinstance(part, _DEFINITIONS)
        else part.id == name and isinstance(part.ctx, ast.Store)
        for part in stored
    )


def _base(part):
    """The name at the start of ``name``, ``name.attribute`` or ``name[key]``, as a set."""
    while isinstance(part, ast.Attribute | ast.Subscript):
        part = part.value
    return {part.id} if isinstance(part, ast.Name) else set()


def _imported(node, package):
    """{bound name: [(module, attribute or None), …]} of the import statements within ``node``."""
    bound = {}
    for part in every_part(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.asname or alias.name.split(".")[0]
                bound.setdefault(name, []).append((alias.name if alias.asname else name, None))
        elif isinstance(part, ast.ImportFrom):
            source = importlib.util.resolve_name("." * part.level + (part.module or ""), package)
            for alias in part.names:
                bound.setdefault(alias.asname or alias.name, []).append((source, alias.name))
    return bound


def effects(node, module):
    """What of a statement at the top level of ``module`` acts on more than the module's own names.

    Yields the nodes: statements for their effect alone, changes of what was imported or what another name
    may hold, and calls that are given a table or set something for the whole process.
    """
    for part in _run_at_import(node):
        if isinstance(part, ast.Expr):
            called = part.value
            if isinstance(called, ast.Constant):
                continue
            function = called.func if isinstance(called, ast.Call) else None
            if not (isinstance(function, ast.Attribute) and _own(function.value, module)):
                yield part
        elif isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = getattr(part, "targets", None) or [part.target]
            held = [
                t for target in targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
            plain = not isinstance(part, ast.AugAssign)
            if not all(plain and isinstance(target, ast.Name) or _own(target, module) for target in held):
                yield part
        elif isinstance(part, ast.For | ast.While | ast.With | ast.Assert | ast.Raise | ast.Match):
            yield part
        elif isinstance(part, ast.Call):
            if changes(part) and not (_own(part.func.value, module) or _is_module(part.func.value, module)):
                yield part
            elif sets_for_all(part) or any(_is_table(given, module) for given in _given(part)):
                yield part


def _run_at_import(node):
    """Parts of a statement that run when its module is imported: not the bodies of functions."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, _FUNCTIONS):
            waiting.extend([*part.decorator_list, *part.args.defaults, *filter(None, part.args.kw_defaults)])
        elif not isinstance(part, ast.Lambda):
            waiting.extend(parts_of(part))


def changes(call):
    """Whether a call is one of ``object.append(…)``, ``object.mul_(…)`` and their like."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    return name in _CHANGING or (name.endswith("_") and not name.endswith("__"))


def sets_for_all(call):
    """Whether a call sets something for the whole process, like ``torch.set_default_dtype(…)``."""
    chain = chain_of(call.func)
    if chain is None or len(chain) < 2:
        return False
    name = chain[-1]
    return name.startswith(("set_", "use_deterministic", "register_")) or name in {
        *("seed", "manual_seed", "manual_seed_all", "seterr", "seterrcall", "setbufsize", "filterwarnings"),
    }


def _is_module(part, module):
    """Whether ``part`` is a name that an import binds to a module, or attributes of it."""
    chain = chain_of(part) or ("",)
    bound = module.imports.get(chain[0], ())
    return bool(bound) and all(attribute is None for _, attribute in bound)


def _given(call):
    """Arguments of a call, but for one of the functions that change none."""
    chain = chain_of(call.func) or ("",)
    if len(chain) == 1 and chain[0] in _HARMLESS or chain[0] in ("itertools", "math"):
        return []
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_table(given, module):
    """Whether an argument is a name of ``module`` that holds no function, class, number or text."""
    if not isinstance(given, ast.Name) or given.id not in module.definitions:
        return False
    return not all(_is_fixed(node) for node in module.definitions[given.id])


def _is_fixed(node):
    if isinstance(node, ast.Assign):
        node = node.value
    if isinstance(node, ast.Tuple):
        return all(map(_is_fixed, node.elts))
    return isinstance(node, _DEFINITIONS | ast.Constant | ast.Lambda | ast.JoinedStr)


def _own(part, module):
    """Whether ``part`` begins with a name that the module has made anew, which no other name may hold."""
    names = _base(part)
    nodes = [node for name in names for node in module.definitions.get(name, ()) if _binds(node, name)]
    return bool(nodes) and not names & set(module.imports) and all(map(_is_new, nodes))


def _is_new(node):
    if isinstance(node, ast.AugAssign | _DEFINITIONS):
        return True
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in _NEW
    return value is not None and not isinstance(
        value, ast.Name | ast.Attribute | ast.Subscript | ast.IfExp | ast.BoolOp | ast.NamedExpr
    )


def _text(node):
    """The syntax tree of ``node`` without docstrings, written out alike by every version of Python.

    ``ast.unparse`` quotes nested strings differently from 3.12 on, and ``ast.dump`` shows fields that only
    some versions have; those are empty here, and what is empty is left out. So are the empty strings that
    some versions see at the end of a format. Of an import only the names that it binds are left: what they
    stand for counts by itself.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, _IMPORTS):
        return f"Import({[alias.asname or alias.name.split('.')[0] for alias in node.names]})"
    parts = []
    for name in node._fields:
        value = getattr(node, name, None)
        if name == "body" and isinstance(node, _DEFINITIONS) and _is_docstring(value[0]):
            value = value[1:]
        elif isinstance(node, ast.JoinedStr):
            value = [part for part in value if getattr(part, "value", None) != ""]
        if name not in _UNSEEN and value is not None and value != []:
            parts.append(f"{name}={_text(value)}")
    return f"{type(node).__name__}({', '.join(parts)})"


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
