"""Imports run one way: from the book's frame to the instruments, and inside each package downwards."""

import ast
import importlib.util
from graphlib import CycleError, TopologicalSorter

import pytest

from alignbook import paths

SOURCES = paths.root() / "src"
# From the bottom to the top; what shares a line may not import each other.
ROOMS = {
    "alignbook": [
        ("errors", "installed", "paths", "seeding", "streams", "system"),
        ("kernels",),
        ("metrics",),
        ("data",),
        ("report",),
        ("training",),
        ("probing",),
        ("recording",),
        ("public",),
        ("cli",),
    ],
    "companion": [
        ("claims",),
        ("over_seeds",),
        ("statements",),
        ("findings",),
        ("runs", "studies"),
        ("pages",),
        ("cli",),
    ],
}
BELOW = {"seeding": {"streams"}, "errors": {"paths"}, "installed": {"paths"}}  # within the lowest line
# Files that leave the package; the frame's rooms that are not in order yet.
LEAVING = {"held", "resuming", "checkpoints"}


def imported(path):
    """Modules that a file imports anywhere in it, of the two packages."""
    module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    package = module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{source}.{alias.name}" for alias in node.names)


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
    files = [p for p in (SOURCES / "alignbook").rglob("*.py") if p.stem not in LEAVING]
    assert len(files) > 50
    assert not [
        (path.name, name) for path in files for name in imported(path) if name.split(".")[0] == "companion"
    ]


@pytest.mark.parametrize("package", ["alignbook"])
def test_imports_run_downwards(package):
    height = {room: level for level, line in enumerate(ROOMS[package]) for room in line}
    arrows = {room: to for room, to in rooms(package).items() if room not in LEAVING}
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
