"""The reference: a page for every public name, which Sphinx fills from its docstring; what commands take."""

import argparse
import importlib
import inspect
import re
import sys
from pathlib import Path

import alignbook
from alignbook import system
from alignbook.cli import _parser
from companion.pages.render import without_colour

FOLDER = "reference"
DATA = {
    "probing.INSTRUMENTS": "The names of the probe's instruments, which ``without=`` of "
    ":func:`alignbook.probe` takes and by which ``tables`` of :class:`alignbook.Probe` are named",
    "recording.INSTRUMENTS": "The recorder's instruments by name, which ``instruments=`` of "
    ":class:`alignbook.Recorder` takes: each a function that returns its numbers by (layer, parameter)",
}
NAMES = sorted([*alignbook.PUBLIC, *DATA, "recording.hugging_face", "recording.lightning"], key=str.lower)


def names() -> list[str]:
    """The pages of the reference, without their folder, in the order of the contents."""
    return ["commands", *map(page_of, NAMES)]


def page_of(name: str) -> str:
    """The page of a public name: ``Probe`` and ``probe`` would be one file where case does not count."""
    twice = name != name.lower() and name.lower() in NAMES
    return f"{name}-class" if twice else name.replace(".", "-")


def thing_of(name: str) -> object:
    """What is called ``alignbook.<name>``."""
    module, _, own = f"alignbook.{name}".rpartition(".")
    return getattr(importlib.import_module(module), own)


def returned(function: object) -> type | None:
    """The class of ours that the docstring of ``function`` says it returns, if any."""
    kind = re.search(r"^Returns\n-+\n(\w+)$", inspect.getdoc(function) or "", re.MULTILINE)
    kind = kind and getattr(sys.modules[inspect.unwrap(function).__module__], kind[1], None)
    return kind if inspect.isclass(kind) else None


def write(pages: Path) -> None:
    """Write the reference into the folder ``pages``."""
    folder = pages / FOLDER
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        text = f"# {name}\n\n```{{eval-rst}}\n{_directives(name)}\n```\n"
        (folder / f"{page_of(name)}.md").write_text(text, encoding="utf-8")
    summaries = ".. currentmodule:: alignbook\n.. autosummary::\n\n   " + "\n   ".join(
        name for name in NAMES if name not in DATA
    )
    (folder / "names.txt").write_text(f"```{{eval-rst}}\n{summaries}\n```\n", encoding="utf-8")
    commands = "\n".join(_command(*each) for each in subcommands(_parser()).items())
    (folder / "commands.txt").write_text(commands, encoding="utf-8")


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of every command by its name."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return commands.choices


def _command(name, parser):
    """MyST of one command: what ``--help`` prints."""
    with system.environment({"COLUMNS": "78"}):
        shown = without_colour(parser.format_help())
    return f"## {name}\n\n```{{code-block}} text\n:class: ab-columns\n\n{shown}```\n"


def _directives(name):
    """reStructuredText that documents ``alignbook.<name>``."""
    if name in DATA:
        members = ", ".join(f"``{member}``" for member in thing_of(name))
        return f".. py:data:: alignbook.{name}\n\n   {DATA[name]}: {members}."
    thing, lines = thing_of(name), [f".. autofunction:: alignbook.{name}"]
    if inspect.isclass(thing):
        error = issubclass(thing, Exception)
        lines = [f".. auto{'exception' if error else 'class'}:: alignbook.{name}"]
        lines += [] if error else ["   :members:", "   :inherited-members:"]
    elif kind := returned(thing):
        if kind.__name__ not in alignbook.PUBLIC:
            lines += ["", f".. autoclass:: {kind.__module__}.{kind.__name__}", "   :members:"]
    return "\n".join(lines)
