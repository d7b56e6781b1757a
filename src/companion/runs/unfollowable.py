"""What the digest of code cannot follow, and how to write it instead.

:mod:`companion.runs.digest` reads the package's text. Names that are made or exchanged as the program runs
escape it, and a change of them would leave stored results fresh that are not. So what counts is written
without them: :func:`unfollowable` names every place where it is not.

Two things are looked at: statements at the top level of every module, since importing any of them may act on
all others, and the definitions that the ``jobs`` of some study reach.
"""

import ast

from companion.runs import digest
from companion.runs.digest import (
    EFFECTS,
    FRAME,
    FRAME_PACKAGE,
    PACKAGE,
    Missing,
    Sources,
    Whole,
    chain_of,
    changes,
)

# (module, definition or text of a statement; None: its top level): why it may do what others may not.
PERMITTED = {
    (f"{PACKAGE}.public", None): "it wraps functions that stay as they are",
    (f"{PACKAGE}.data.shapes", "EMBEDDED['shapes'] = shapes"): "the content of image sets has its own digest",
    (
        f"{FRAME_PACKAGE}.studies.signal_propagation.fig03_peak_law.design",
        "PAPER_TABLES",
    ): "its values are arguments of the jobs, which identify them",
    (f"{PACKAGE}.data.embedded", "_photograph"): "as above",
    (f"{PACKAGE}.data.images", "_arrays"): "as above",
    (f"{PACKAGE}.data.images", "location"): "where files lie, not what is in them",
    (f"{PACKAGE}.data.folders", "_pixels"): "a reader's own images, which have no digest: their page says so",
    (f"{PACKAGE}.data.tables", "load_table"): "as above",
    (f"{PACKAGE}.paths", "_CHECKOUT"): "where files lie, not what is in them",
    (f"{PACKAGE}.paths", "root"): "where files lie, not what is in them",
    (f"{PACKAGE}.paths", "results"): "where files lie, not what is in them",
    (f"{PACKAGE}.paths", "book_results"): "where files lie, not what is in them",
    (f"{PACKAGE}.paths", "data"): "where files lie, not what is in them",
    (f"{PACKAGE}.paths", "build"): "where files lie, not what is in them",
    (
        f"{FRAME_PACKAGE}.runs.notebooks",
        "Notebook",
    ): "what it says are arguments of jobs, which identify them",
    (f"{FRAME_PACKAGE}.runs.parameters", "read_profile"): "as above",
    (
        f"{PACKAGE}.kernels.products",
        "float32_products",
    ): "inside a with alone; its test compares the two routes",
    (f"{PACKAGE}.kernels.products", "_keeps_float32"): "set back before it returns",
    (f"{PACKAGE}.kernels.products", "float32_convolutions"): "set back when the with ends",
    (f"{PACKAGE}.probing.measurable", "measurable"): "set back when the with ends",
    (f"{PACKAGE}.probing.untouched", "random_states_kept"): "it sets random states back",
    (f"{PACKAGE}.probing.weights", "read"): "of a file that a caller names; no study does",
    (f"{PACKAGE}.probing.weights", "safetensors"): "as above",
    (f"{PACKAGE}.recording.recorder", "Recorder"): "a run that goes on reads its own rows; no study does",
    (f"{PACKAGE}.training.imagenet", "imagenet_network"): "weights that an installed package holds",
    (f"{PACKAGE}.training.imagenet", "lite_network"): "as above",
    (f"{PACKAGE}.system", "processor"): "which of two exact routes is faster here",
    (f"{PACKAGE}.system", "locked"): "who may write, not what",
    (f"{PACKAGE}.training.pretrained", "checkpoint"): "what it reads is kept under a digest of its own",
}
DYNAMIC = {"globals", "locals", "vars", "eval", "exec", "compile", "__import__", "setattr", "delattr"}
HIDDEN = {
    "__builtins__",
    "__globals__",
    "__subclasses__",
    "__init_subclass__",
    "__set_name__",
    "__class_getitem__",
}
READERS = {
    *("open", "read_text", "read_bytes", "read_csv", "read_json", "read_parquet", "loadtxt", "genfromtxt"),
    *("fromfile", "memmap", "get_data", "from_file"),
}
FILES = {
    "numpy.load",
    "torch.load",
    "json.load",
    "pickle.load",
    "PIL.Image",
    "pkgutil",
    "importlib.resources",
}
READING = ".reading"  # right of the stored table: no compute imports it, which a test of the notebooks asks
LEFT_SET = "is left set for every later job of the process; give it as an argument"
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def unfollowable(folder=digest.SOURCES):
    """One line per place of the package in ``folder`` that the digest cannot follow: where, what, instead."""
    sources = Sources(folder)
    found = []
    for module in sources.modules():
        if not module.name.endswith(READING):
            found += _at_top_level(module)
    studies = [module.name for module in sources.modules() if "jobs" in module.definitions]
    reached = set().union(*map(sources.reached, [*FRAME, *((name, "jobs") for name in studies)]))
    counted = {place for place in reached if place[1] != EFFECTS}
    for module, name in sorted(counted):
        for node in sources.module(module).definitions[name]:
            found += _Reader(sources, module, name, counted).faults(node)
    for module in sources.modules():  # whoever changes a constant need not be reached himself
        for name, nodes in module.definitions.items():
            if (module.name, name) not in counted:
                for node in nodes:
                    found += _Reader(sources, module.name, name, counted).changes_alone(node)
    return list(dict.fromkeys(found))


def _at_top_level(module):
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield _line(module, node, "import *: import each name by itself")
        if getattr(node, "name", None) == "__getattr__" and module.name != PACKAGE:
            yield _line(module, node, "__getattr__ of a module makes names that no text shows: define them")
        allowed = {(module.name, None), (module.name, ast.unparse(node))} & PERMITTED.keys()
        if node in module.effects and not allowed:
            part = next(digest.effects(node, module))
            yield _line(
                module, part,
                f"{_short(part)}: acts on more than a name made here, whenever the module is imported; do it "
                "in the function that needs it and undo it there, or write a table out where it is made",
            )  # fmt: skip


def _line(module, node, text):
    return f"{module.path.name}:{getattr(node, 'lineno', 1)} ({module.name}): {text}"


def _short(node):
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


class _Reader:
    """Walks one definition with what its functions bind: a local name is no module's."""

    def __init__(self, sources, module, name, counted):
        self.sources, self.module, self.name = sources, sources.module(module), name
        self.counted, self.found, self.alone = counted, [], False

    def faults(self, node):
        if (self.module.name, self.name) in PERMITTED:
            return self.changes_alone(node)
        self._walk(node, frozenset(), self.module.imports, {})
        return self.found

    def changes_alone(self, node):
        self.alone = True
        self._walk(node, frozenset(), self.module.imports, {})
        return self.found

    def _say(self, node, text):
        self.found.append(_line(self.module, node, text))

    def _walk(self, node, bound, imports, held):
        """bound : names of the functions around; held : {local name: chain outside that it was set to}"""
        if isinstance(node, _SCOPES):
            own, globals_ = _bound(node)
            bound = (bound | own) - globals_
            local = digest._imported(node, self.module.package) if not isinstance(node, ast.Lambda) else {}
            imports = imports | local
            bound -= set(local)
            held = {n: c for n, c in held.items() if n not in own} | self._held(node, bound)
            for name in sorted(globals_):
                if (self.module.name, name) in self.counted:
                    self._changed_constant(node, name)
        elif isinstance(node, _COMPREHENSIONS):
            bound = bound | {
                p.id
                for p in digest.every_part(node)
                if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)
            }
        scope = (bound, imports, held)
        self._look(node, *scope)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return
        chain = chain_of(node) if isinstance(node, ast.Attribute | ast.Name) else None
        if chain:
            self._chain(node, chain, bound, imports)
            return
        for part in digest.parts_of(node):
            self._walk(part, *scope)

    def _held(self, function, bound):
        """{local name: chain of a name outside the function} of plain assignments ``name = chain``."""
        found = {}
        for part in digest.every_part(function):
            if isinstance(part, ast.Assign | ast.For):
                value, targets = (
                    (part.iter, [part.target]) if isinstance(part, ast.For) else (part.value, part.targets)
                )
                if (chain := _chain_within(value)) and chain[0] not in bound:
                    found |= {target.id: chain for target in targets if isinstance(target, ast.Name)}
        return found

    def _chain(self, node, chain, bound, imports):
        if self.alone or chain[0] in bound:
            return
        for name in chain[1:]:
            if name in HIDDEN:
                self._say(node, f"{'.'.join(chain)}: {name} cannot be followed; name what is meant")
        if chain[0] in ("__file__", "__path__", "__spec__", "__loader__"):
            self._say(
                node, f"{chain[0]}: a file beside a module does not count; write its values into the module"
            )
        for target in self.sources.stands_for(self.module, imports, chain[0], chain[1:]):
            if isinstance(target, Whole):
                self._say(node, f"{'.'.join(chain)} is a module in place of a value: name what is used of it")
            elif isinstance(target, Missing):
                self._say(node, f"{target} is made by no text of its module: define it there")
            elif isinstance(target, str):
                whole = ".".join([target, *chain[1:]])
                if any(f"{whole}.".startswith(f"{name}.") for name in FILES):
                    self._say(node, f"{whole}: a file does not count; read data by alignbook.data")
                if whole.startswith(("os.environ", "os.getenv")):
                    self._say(node, f"{whole}: the environment does not count; make it an argument")
                if whole.startswith(
                    ("sys.modules", "sys._getframe", "importlib.import_module", "inspect.stack")
                ):
                    self._say(node, f"{whole} cannot be followed: import what is used")

    def _look(self, node, bound, imports, held):
        self._look_for_changes(node, bound, imports, held)
        if self.alone:
            return
        if isinstance(node, ast.FunctionDef) and node.name in HIDDEN:
            self._say(node, f"{node.name} fills tables as classes are made: write the table out")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            self._say(node, "import *: import each name by itself")
        if not isinstance(node, ast.Call):
            return
        chain = chain_of(node.func)
        if chain and len(chain) == 1 and chain[0] not in bound and chain[0] in DYNAMIC:
            first = node.args and chain_of(node.args[0])
            if chain[0] not in ("setattr", "delattr", "vars") or (first and first[0] not in bound):
                self._say(node, f"{_short(node)}: {chain[0]} cannot be followed; name what is meant")
            elif chain[0] == "vars" and not node.args:
                self._say(node, "vars(): name what is meant")
        reads = chain[-1] if chain else getattr(node.func, "attr", "")
        if reads in READERS and not (chain and chain[0] in bound and reads == "open"):
            self._say(node, f"{_short(node)}: a file does not count; read data by alignbook.data")
        if digest.sets_for_all(node) and chain[0] in imports and chain[0] not in bound:
            self._say(node, f"{_short(node)}: {LEFT_SET}")

    def _look_for_changes(self, node, bound, imports, held):
        """Of what a function changes: names outside of it, by themselves or under a local name."""
        changed, called = [], False
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete | ast.For):
            for target in getattr(node, "targets", None) or [node.target]:
                parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                in_place = ast.Name | ast.Attribute | ast.Subscript
                in_place = in_place if isinstance(node, ast.AugAssign) else ast.Attribute | ast.Subscript
                changed += [part for part in parts if isinstance(part, in_place)]
        elif isinstance(node, ast.Call):
            called = changes(node)
            changed += [node.func.value] if called else []
            changed += [keyword.value for keyword in node.keywords if keyword.arg == "out"]
        for part in changed:
            chain = _chain_within(part)
            if chain is None or (chain[0] in bound and chain[0] not in held):
                continue
            chain = held[chain[0]] if chain[0] in bound else chain
            for target in self.sources.stands_for(self.module, imports, chain[0], chain[1:]):
                outside = isinstance(target, str) and not isinstance(target, Missing)
                if isinstance(target, tuple) and target in self.counted - {(self.module.name, self.name)}:
                    self._changed_constant(node, ".".join(chain))
                elif isinstance(target, Missing) and not called:
                    self._changed_constant(node, ".".join(chain))
                elif outside and not called and not self.alone:
                    self._say(node, f"{_short(node)}: {LEFT_SET}")

    def _changed_constant(self, node, name):
        self._say(
            node, f"{_short(node)}: changes {name}, which counts as its module's top level makes it; copy it"
        )


def _chain_within(part):
    while isinstance(part, ast.Subscript) or (isinstance(part, ast.Attribute) and chain_of(part) is None):
        part = part.value
    return chain_of(part)


def _bound(function):
    """(names that the function binds, names that it takes for global ones), without the functions in it."""
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    names, shared = {a.arg for a in every if a}, set()
    waiting = function.body[:] if isinstance(function.body, list) else [function.body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(part.name)
            continue
        if isinstance(part, ast.Global):
            shared.update(part.names)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            names.add(part.name)
        elif isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
            names.add(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            names.add(part.rest)
        waiting.extend(digest.parts_of(part))
    return names, shared
