"""The reference: a page for every public name, made of its docstring, and one for the commands.

What a function returns, if it is a class of ours, stands on the function's page; and so do the studies and
the pages of prose that call it. Sphinx's autodoc and napoleon render the docstrings, in NumPy's form.
"""

import argparse
import contextlib
import hashlib
import html
import importlib
import inspect
import io
import re
import shlex
import sys
from collections import Counter, namedtuple
from pathlib import Path

import yaml

import alignbook
from alignbook import paths
from alignbook.errors import AlignbookError
from companion.pages.tables import marked, table

FOLDER = "reference"
# What stands beside the public face, in the modules of the recorder and the probe.
BESIDE = ("probing.INSTRUMENTS", "recording.INSTRUMENTS", "recording.hugging_face", "recording.lightning")
NAMES = (*alignbook.PUBLIC, *BESIDE)
Prose = namedtuple("Prose", "name title text")  # a page of prose, as a study has its name and title
_SAYS = {
    "probing.INSTRUMENTS": (
        "The names of the probe's instruments, a tuple: what ``without=`` of :func:`alignbook.probe` takes, "
        "and by which ``tables`` of :class:`alignbook.Probe` are named."
    ),
    "recording.INSTRUMENTS": (
        "The recorder's instruments by name, a dict of functions: what ``instruments=`` of "
        ":class:`alignbook.Recorder` takes. Each returns its numbers as a dict by (layer, parameter)."
    ),
}
# Lines that a reader would type and the prose has within a sentence at most.
_TYPED = ("book --profile smoke", "sign --base HEAD~1", "new random_labels/fig30_something", "fetch cifar10")
# Under which term the glossary explains what a function measures.
_TERMS = {
    "alignment_curve": "alignment curve",
    "cka": "centred kernel alignment",
    "filter_normalised_directions": "filter-normalised direction",
    "hessian_eigenvalues": "Hessian",
    "landscape": "loss landscape",
    "layer_cka": "centred kernel alignment",
    "loss_variation": "loss variation",
    "misalignment": "misalignment",
    "patch_covariance": "principal axis",
    "spectral_density": "Hessian",
    "tangent_alignment": "neural tangent kernel",
    "tangent_kernel": "neural tangent kernel",
    "transfer_function": "transfer function",
    "weight_deviation": "weight deviation",
}
_PRINTS = ("list", "show signal_propagation/cor01")  # the commands whose output stands below them
_LINES = 9  # of an output at most
_COLUMNS = ("list", "status")  # whose lines are longer than a page and stay whole, so that columns line up
# What the other commands print, which takes long or depends on the store.
_TOLD = {
    "book": "a line for each notebook that is computed or executed, and at the end where the book is",
    "verify": "for each job that was recomputed whether it agrees and by how much it differs, then how many "
    "stale jobs that verifies, and which stay stale and why",
    "sign": "how many jobs and records of verification were signed, and how many jobs are stale",
    "claims": "the outcome of each claim with its page and its statement, then how many claims, and how many "
    "headlines, have each outcome",
}
_USED = {"Claim": "Every study: its verdicts are claims."}
_KEPT = Path(__file__).with_name("printed.yaml")
_RETURNS = re.compile(r"^Returns\n-+\n(\w+)$", re.MULTILINE)
_DEFAULT = re.compile(r" ?\(default: ([^)]*)\)")  # in the help of an argument
_SHARED = re.compile(r"^from \.\.(\w*) import ([^\n]+)", re.MULTILINE)


def names():
    """The pages of the reference, without their folder, in the order of the contents."""
    return ["commands", *map(page_of, _in_order())]


def _in_order():
    return sorted(NAMES, key=str.lower)


def thing_of(name):
    """What is called ``alignbook.<name>``."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"alignbook.{module}") if module else alignbook, own)


def page_of(name):
    """The page of a public name: ``Probe`` and ``probe`` would be one file where case does not count."""
    if name in BESIDE:
        return name.replace(".", "-")
    alike = [other for other in alignbook.PUBLIC if other.lower() == name.lower()]
    return name if len(alike) == 1 or name == name.lower() else f"{name}-class"


def write(books, pages):
    """Write the reference into the folder ``pages``.

    Parameters
    ----------
    books : list of Notebook
        The studies, in the book's order.
    pages : Path
    """
    folder = pages / FOLDER
    folder.mkdir(exist_ok=True)
    used, labels = uses(books), Counter(map(_label, books))
    for name in NAMES:
        called = {book: _label(book) if labels[_label(book)] == 1 else book.title for book in used[name]}
        (folder / f"{page_of(name)}.md").write_text(_page(name, called), encoding="utf-8")
    (folder / "index.md").write_text(_index(used), encoding="utf-8")
    (folder / "commands.md").write_text(commands(), encoding="utf-8")


def uses(books):
    """{public name: the books whose code calls it, and no function of their own, and the prose}."""
    sources, prose = {book.name: _source(book) for book in books}, _prose()

    def calls(source, name):
        made = r"(?:\.\w+)?" if name[0].isupper() else ""  # by a constructor with a name
        return re.search(rf"\b{name}{made}\(", source) and f"def {name}(" not in source

    return {
        name: [book for book in books if name not in BESIDE and calls(sources[book.name], name)]
        + [page for page in prose if re.search(rf"\b{_in_prose(name)}\b", page.text)]
        for name in NAMES
    }


def _in_prose(name):
    """A pattern of how prose calls it: ``recording.lightning`` has been imported from alignbook."""
    return re.escape(name if name in BESIDE else f"alignbook.{name}")


def _prose():
    """The pages in ``book/`` that no study makes."""
    found = []
    for path in sorted((paths.root() / "book").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if title := re.search(r"^# (.+)$", text, re.MULTILINE):
            found.append(Prose(path.stem, title[1], text))
    return found


def _source(book):
    """All code of the study, with that of its paper's modules that it imports."""
    files = [*sorted(book.folder.glob("*.py")), book.source]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    shared = {book.folder.parent / f"{module}.py" for module in _shared(text)}
    return "\n".join([text, *(path.read_text(encoding="utf-8") for path in sorted(shared) if path.is_file())])


def _shared(text):
    """Names of the paper's modules that a study's code imports, whole or in part."""
    return {
        name
        for module, imported in _SHARED.findall(text)
        for name in ([module] if module else re.findall(r"(\w+)(?: as \w+)?", imported))
    }


def returned(thing):
    """The class of ours that the docstring of the function ``thing`` says it returns, or None."""
    found = _RETURNS.search(inspect.getdoc(thing) or "")
    module = sys.modules[inspect.unwrap(thing).__module__] if found else None
    kind = getattr(module, found[1], None) if found else None
    return kind if inspect.isclass(kind) else None


def _page(name, called):
    thing = thing_of(name)
    known = [_SAYS[name], *_instruments(name)] if name in _SAYS else _shown(thing)
    mark = hashlib.sha256("".join(known).encode()).hexdigest()
    # The mark makes the page another one where a docstring has changed.
    parts = [f"# {name}", "", f"% {mark}", "", "```{eval-rst}", ".. currentmodule:: alignbook", ""]
    if name in _SAYS:
        module, _, own = f"alignbook.{name}".rpartition(".")
        parts += [f".. py:data:: {own}", f"   :module: {module}", "", f"   {_SAYS[name]}", ""]
        parts += [*_instruments(name), "", f"   >>> import {module}", f"   >>> list({module}.{own})"]
        parts += [f"   {list(thing)!r}", ""]  # what it prints today
    elif _is_error(thing):
        parts.append(f".. autoexception:: alignbook.{name}")
    elif inspect.isclass(thing):
        parts += [f".. autoclass:: alignbook.{name}", "   :members:", "   :inherited-members:"]
    else:
        parts.append(f".. autofunction:: alignbook.{name}")
        kind = returned(thing)
        if kind and kind.__name__ not in alignbook.PUBLIC:
            parts += ["", f".. autoclass:: {kind.__module__}.{kind.__name__}", "   :members:"]
    parts += ["```", ""]
    if name in _TERMS:
        parts += [f"The glossary on this: {{term}}`{_TERMS[name]}`.", ""]
    if called or name in _USED:
        linked = _USED.get(name) or ", ".join(f"[{text}](/{book.name})" for book, text in called.items())
        parts += ["## Used by", "", linked, ""]
    return "\n".join(parts)


def _shown(thing):
    """The texts that autodoc shows of ``thing``."""
    shown = [inspect.getdoc(each) or "" for each in (thing, returned(thing)) if each]
    return shown if _is_error(thing) else [*shown, str(inspect.signature(thing))]


def _is_error(thing):
    """Whether it is an exception, whose arguments and methods are Python's."""
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _instruments(name):
    """reStructuredText of a list: each instrument and the first line on what it measures."""
    from alignbook.report import ABOUT

    known = thing_of(name)
    if isinstance(known, dict):
        said = {each: inspect.getdoc(function).split("\n")[0] for each, function in known.items()}
    else:
        said = {each: f"{ABOUT[each][0]} ({ABOUT[each][1]})." for each in known}
    return [f"   * ``{each}``: {text}" for each, text in said.items()]


def _label(book):
    return book.title.split(" · ")[0]


def _summary(name):
    """HTML of the first line of its docstring."""
    first = _SAYS[name].partition(":")[0] + "." if name in _SAYS else inspect.getdoc(thing_of(name))
    first = (first or "").split("\n")[0]
    plain, *named = re.split(r"(?::\w+:)?`+([^`]*)`+", first)
    pairs = zip(named[::2], named[1::2], strict=True)
    return marked(plain) + "".join(f"<code>{html.escape(name)}</code>{marked(rest)}" for name, rest in pairs)


def _index(used):
    rows = [
        {
            "Name": f'<a href="{page_of(name)}.html"><code>{name}</code></a>',
            "What it is": _summary(name),
            "Pages that use it": str(len(used[name])) if used[name] else "–",
        }
        for name in _in_order()
    ]
    return "\n".join(
        [
            "# Reference",
            "",
            "Every public function and class: its parameters, what it returns and raises, the formula, its",
            "source, what it costs, and an example that the tests run. [](commands) has the command line.",
            "",
            "```python",
            "import alignbook",
            "```",
            "",
            table(rows, "reference"),
            "",
            "The {ref}`index <genindex>` also has the methods and properties of the classes.",
            "",
        ]
    )


def commands():
    """MyST of the page on the command line: every command with its arguments, defaults and examples.

    Of the commands in ``_PRINTS`` it has what they print today, of those in ``_KEPT`` what a test has seen.
    """
    from alignbook.cli import _parser

    given = examples()
    parts = [
        "# Commands",
        "",
        "In a checkout the command is `.venv/bin/alignbook`. Bad input ends in one line on standard error",
        "and exit status 2, a failed build or verification in 1.",
        "",
    ]
    for name, command in subcommands(_parser()).items():
        usage = " ".join(command.format_usage().removeprefix("usage: ").split())
        parts += [f"## {name}", "", _sentence(command.description), ""]
        parts += ["```text", usage, "```", "", table(_arguments(command), "arguments"), ""]
        if given.get(name):
            parts += ["```text", *(f".venv/bin/alignbook {line}" for line in given[name]), "```", ""]
        shown = [(line, printed(line)) for line in given.get(name, ()) if line in _PRINTS]
        shown += [(line, text.splitlines()) for line, text in kept() if line.split()[0] == name]
        for line, said in shown:
            if said:
                parts += [f"`{line}` prints", "", *_block(name), *said, "```", ""]
        if name in _TOLD:
            parts += [f"It prints {_TOLD[name]}.", ""]
    return "\n".join(parts)


def _block(name):
    """The lines that begin a block with the output of a command."""
    return ["```{code-block} text", ":class: ab-columns", ""] if name in _COLUMNS else ["```text"]


def kept():
    """[(line, what it printed)] of commands that take seconds, or whose output depends on the store."""
    return [(each["line"], each["prints"]) for each in yaml.safe_load(_KEPT.read_text(encoding="utf-8"))]


def printed(line):
    """The first lines that the command ``line`` prints here; none where it cannot do its work."""
    from alignbook.cli import _parser

    options, output = _parser().parse_args(shlex.split(line)), io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            options.action(options)
    except AlignbookError:  # a checkout without that study
        return []
    lines = [text.rstrip() for text in output.getvalue().splitlines()]
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "…"]


def _sentence(text):
    """``text`` with a capital and a full stop, its options as code, whose dashes stay two."""
    text = re.sub(r"--[\w-]+", r"`\g<0>`", f"{text[0].upper()}{text[1:]}")
    return text if text.endswith("?") else f"{text}."


def subcommands(parser):
    """{name: its parser} of the commands of ``parser``."""
    (chosen,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return chosen.choices


def examples():
    """{command: the lines that call it in the book's prose, and ``_TYPED``, without the program}."""
    found = {}
    for page in sorted((paths.root() / "book").glob("*.md")):
        text = re.sub(r" \\\n +", " ", page.read_text(encoding="utf-8"))  # a command on several lines is one
        for line in re.findall(r"^(?:\$ )?\.venv/bin/alignbook ([^\n#\\]+)$", text, re.MULTILINE):
            lines = found.setdefault(line.split()[0], [])
            if line.strip() not in lines:
                lines.append(line.strip())
    for line in _TYPED:
        found.setdefault(line.split()[0], []).append(line)
    return found


def _arguments(command):
    rows = []
    for each in command._actions:
        if each.dest == "help":
            continue
        shown = ", ".join(each.option_strings) or str(each.metavar or each.dest)
        if each.option_strings and each.nargs != 0:
            shown += f" {each.metavar or each.dest.upper()}"
        choices = ", ".join(map(str, each.choices or ()))
        said = _DEFAULT.search(each.help or "")
        none = each.default is None or each.default is False or each.default == []  # 0 is a default
        default = "" if none or each.required else str(each.default)
        default = said[1] if said else default
        rows.append(
            {
                "Argument": f"<code>{html.escape(shown)}</code>",
                "Meaning": html.escape(
                    _DEFAULT.sub("", each.help or "") or f"one of {choices}" * bool(choices)
                ),
                "Default": html.escape(default),
            }
        )
    if not any(row["Default"] for row in rows):
        rows = [{name: row[name] for name in ("Argument", "Meaning")} for row in rows]
    return rows
