"""Imports run one way: from the book's frame to the instruments, and inside each package downwards."""

import ast
import importlib.util
import re
from graphlib import CycleError, TopologicalSorter

import pytest

from alignbook import paths

SOURCES = paths.root() / "src"
# From the bottom to the top; what shares a line may not import each other.
ROOMS = {
    "alignbook": [
        ("code", "errors", "installed", "paths", "seeding", "streams", "system"),
        ("checkpoints", "kernels"),
        ("metrics",),
        ("data",),
        ("report",),
        ("training",),
        ("probing",),
        ("recording",),
        ("public",),
        ("cli",),
    ],
    "companion": [  # what is judged, how it is run, how it is shown
        ("claims", "jobs"),
        ("over_seeds",),
        ("findings", "statements", "studies"),
        ("prose", "runs"),
        ("judging",),
        ("decide", "pages"),
        ("cli",),
    ],
}
# Within the lowest line.
BELOW = {"seeding": {"streams"}, "code": {"errors"}, "errors": {"paths"}, "installed": {"paths"}}


def imports(path, module):
    """What the file of ``module`` imports anywhere in it: modules, and names in them."""
    package = module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


def imported(path):
    """What a file of the two packages imports."""
    return imports(path, ".".join(path.relative_to(SOURCES).with_suffix("").parts))


def rooms(package):
    """{room: rooms of the same package that it imports}; the package's own ``__init__`` only passes on."""
    arrows = {}
    for path in (SOURCES / package).rglob("*.py"):
        room = path.relative_to(SOURCES / package).parts[0].removesuffix(".py")
        names = (name.split(".") for name in imported(path) if name.startswith(f"{package}."))
        if room != "__init__":
            known = {one for line in ROOMS[package] for one in line}
            arrows.setdefault(room, set()).update({parts[1] for parts in names} & known - {room})
    return arrows


def test_the_instruments_do_not_know_the_frame():
    files = list((SOURCES / "alignbook").rglob("*.py"))
    assert len(files) > 50
    assert not [
        (path.name, name) for path in files for name in imported(path) if name.split(".")[0] == "companion"
    ]


@pytest.mark.parametrize("package", ROOMS)
def test_imports_run_downwards(package):
    height = {room: level for level, line in enumerate(ROOMS[package]) for room in line}
    arrows = rooms(package)
    assert set(arrows) == set(height)
    upward = [
        (room, other)
        for room, others in arrows.items()
        for other in others - BELOW.get(room, set())
        if height[other] >= height[room]
    ]
    assert not upward
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(str(error))


def test_a_package_that_gathers_others_only_passes_names_on():
    for path in (SOURCES / "alignbook").rglob("__init__.py"):
        if path.parent.name == "alignbook":
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            plain = isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
            exported = isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
            assert plain or exported, (path, ast.unparse(node))


STUDIES = paths.root() / "notebooks"
LOADS = "companion.studies.representation_alignment.sec6_backwards.experiment"  # what two pages have stored


def imports_of_study(module):
    """What a module of the studies imports; empty for any other."""
    path = STUDIES.joinpath(*module.split(".")[2:]).with_suffix(".py")
    return imports(path, module) if module.startswith("companion.studies.") and path.is_file() else ()


def reached(module):
    """Everything that a module of the studies imports, directly or through others of them."""
    names, waiting = set(), [module]
    while waiting:
        new = set(imports_of_study(waiting.pop())) - names
        names |= new
        waiting += new
    return names


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*/*/experiment.py")), ids=lambda p: p.parts[-2])
def test_what_a_study_computes_knows_neither_judging_nor_another_study(path):
    """Its code and its paper's shared code, instruments, ``companion.jobs``: nothing else of the project."""
    own = f"companion.studies.{path.parts[-3]}.{path.parts[-2]}"
    shared = r"companion\.studies\.\w+\.shared\b"
    known = re.compile(rf"(?!companion)|companion\.jobs\b|{shared}|{re.escape(own)}\b(?!\.reading)")
    if f"{own}.experiment" != LOADS:
        assert not [name for name in reached(f"{own}.experiment") if not known.match(name)]


def test_studies_import_a_metric_from_its_own_module():
    """Else a result would depend on all metrics."""
    for path in STUDIES.rglob("*.py"):
        module = ".".join(("companion.studies", *path.relative_to(STUDIES).with_suffix("").parts))
        assert "alignbook.metrics" not in imports_of_study(module), path
