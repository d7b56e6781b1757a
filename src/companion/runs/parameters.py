"""Parameters: read from a notebook's parameters cell, overridden by profiles and by hand.

The cell is the only place that defines them. Each line is a typed assignment whose comment gives
the range and the meaning:

    epochs: int = 40  # [1, 1000]: passes over the training images
    labels: list[str] = ["real", "random"]  # {real, random}: labels to train with

Whatever the cell does not allow is refused before anything runs.
"""

import ast
import difflib
import io
import math
import re
import reprlib
import tokenize
from copy import copy
from dataclasses import dataclass
from functools import cache

from alignbook import paths
from alignbook.errors import AlignbookError, on_one_line

PROFILES = ("paper", "quick", "smoke")  # most faithful first
_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n:tags: \[parameters\b[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"#\s*(?:(\{.*?\}|[\[(].*?[\])])\s*:\s*)?(.+)")
# What reading YAML raises: what is no YAML or no UTF-8, and too many digits, are ValueErrors, the others come
# from tags.
UNREADABLE = (ValueError, RecursionError, AttributeError, LookupError, TypeError)
_NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # what parsing it raises


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str  # int, float, str or bool
    many: bool  # a list of these
    default: object
    choices: tuple | None  # allowed values
    interval: tuple | None  # (low, high, low is allowed, high is allowed)
    range: str  # either as the cell writes it
    meaning: str

    def check(self, value):
        """``value`` in this parameter's type, or AlignbookError."""
        if not self.many:
            return self._check_one(value)
        if not isinstance(value, list):
            raise AlignbookError(f"{self.name} must be a list of {self.type}, not {_short(value)}")
        if not value:
            raise AlignbookError(f"{self.name} must not be empty")
        checked = [self._check_one(item) for item in value]
        if any(item in checked[:place] for place, item in enumerate(checked)):
            raise AlignbookError(f"{self.name} must not have the same value twice: {_short(value)}")
        return checked

    def _check_one(self, value):
        kind = _TYPES[self.type]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                value = math.inf  # which no range allows
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            article = "an" if self.type == "int" else "a"
            raise AlignbookError(f"{self.name} must be {article} {self.type}, not {_short(value)}")
        if self.choices is not None and value not in self.choices:
            near = difflib.get_close_matches(str(value), map(str, self.choices), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AlignbookError(f"{self.name} must be one of {self.range}, not {_short(value)}{hint}")
        if self.interval is not None and not self._inside(value):
            raise AlignbookError(f"{self.name} must be in {self.range}, not {_short(value)}")
        return value

    def _inside(self, value):
        low, high, low_in, high_in = self.interval
        above = value >= low if low_in else value > low
        below = value <= high if high_in else value < high
        return above and below


def read(notebook):
    """``{name: Parameter}`` of the parameters cell of ``notebook`` (a Notebook), in its order.

    Raises AlignbookError, one line with file and line, for a cell that does not say enough.
    """
    return dict(_read(notebook.text, paths.shown(notebook.source)))


@cache  # of the text: a page asks for its parameters again and again
def _read(text, where):
    cells = [*_CELL.finditer(text)]
    if len(cells) != 1:
        raise AlignbookError(f"{where}: {len(cells)} cells begin with ':tags: [parameters]', one is needed")
    code, first = cells[0][1], text.count("\n", 0, cells[0].start(1)) + 1
    try:
        nodes, comments = ast.parse(code).body, _comments(code)
    except (*_NO_PYTHON, tokenize.TokenError) as error:
        line = first + (getattr(error, "lineno", None) or 1) - 1
        why = on_one_line(getattr(error, "msg", error)) or type(error).__name__
        raise AlignbookError(f"{where}, line {line}: the parameters cell is no Python ({why})") from error
    parameters = {}
    for node in nodes:
        try:
            parameter = _parameter(node, comments)
            if parameter.name in parameters:
                raise ValueError("its name stands there twice")
            parameter.check(parameter.default)
        except (*_NO_PYTHON, TypeError, AlignbookError) as error:
            line = _short(code.split("\n")[node.lineno - 1].strip())
            there, why = f"{where}, line {first + node.lineno - 1}", on_one_line(error)
            raise AlignbookError(f"{there}: cannot read the parameter {line}: {why}") from error
        parameters[parameter.name] = parameter
    return parameters


def resolve(notebook, profile=None, overrides=None):
    """Values of every parameter: the cell's, then those of ``profile``, then ``overrides``.

    Raises AlignbookError for an unknown name, a wrong type, or a value out of range.
    """
    spec = read(notebook)
    values = {name: copy(parameter.default) for name, parameter in spec.items()}
    if profile:
        entry = read_profile(notebook, profile)
        try:
            values.update(_checked(spec, entry, notebook))
        except AlignbookError as error:
            raise AlignbookError(f"{paths.shown(notebook.folder / 'profiles.yaml')}: {error}") from None
    values.update(_checked(spec, overrides or {}, notebook))
    return values


def read_profile(notebook, profile):
    """What ``profile`` changes in the values of ``notebook``'s cell.

    Its ``profiles.yaml`` says so profile by profile; what it leaves out is the cell's.
    """
    there = f"there are: {', '.join(PROFILES)}"
    if profile not in PROFILES:
        raise AlignbookError(f"no profile {profile!r}; {there}")
    path = notebook.folder / "profiles.yaml"
    entries = from_yaml(path)
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise AlignbookError(f"{paths.shown(path)}: a profile has values by name")
    if unknown := [name for name in entries if name not in PROFILES]:
        raise AlignbookError(f"{paths.shown(path)}: no profile {_short(unknown[0])}; {there}")
    return entries.get(profile, {})


def from_yaml(path):
    """What the YAML file ``path`` says. Raises AlignbookError, one line, where it cannot be read."""
    try:
        return _loaded(path.read_text(encoding="utf-8"))
    except (OSError, *UNREADABLE) as error:
        raise AlignbookError(f"cannot read {paths.shown(path)}: {on_one_line(error)}") from None


@cache  # of the text: every notebook asks for the same few files
def _loaded(text):
    return read_yaml(text)


def read_yaml(text):
    """What YAML says. PyYAML is imported when it is needed."""
    from companion.runs import loader

    return loader.loaded(text)


def profile_of(notebook, values):
    """The most faithful profile that has exactly these ``values``, or None."""
    for profile in PROFILES:
        if resolve(notebook, profile) == values:
            return profile
    return None


def nearest_profile(notebook, values):
    """The profile from which the fewest of ``values`` differ, of several the least faithful."""

    def differences(profile):
        return sum(values[name] != value for name, value in resolve(notebook, profile).items())

    return min(reversed(PROFILES), key=differences)


def from_text(assignments):
    """``["k=v", …]`` as a dict; v is YAML, so ``1e-4``, ``true`` and ``["random"]`` mean what they say."""
    values = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not name.strip():
            raise AlignbookError(f"a parameter is written name=value, not {assignment!r}")
        try:
            values[name.strip()] = read_yaml(text)
        except UNREADABLE as error:
            raise AlignbookError(f"cannot read the value of {name.strip()}: {_short(text)}") from error
    return values


def written(value):
    """A value as a reader sees it: the items of a list with commas between them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _checked(spec, values, notebook):
    checked = {}
    for name, value in values.items():
        if name not in spec:
            near = difflib.get_close_matches(str(name), spec, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(spec)}"
            raise AlignbookError(f"{notebook.name} has no parameter {_short(name)}{hint}")
        try:
            checked[name] = spec[name].check(value)
        except AlignbookError as error:
            raise AlignbookError(f"{error}{_own_data(spec[name], value, notebook)}") from None
    return checked


def _own_data(parameter, value, notebook):
    """Where a cell is to name data sets of the reader's own, of which ``value`` is one; else empty."""
    for name in value if isinstance(value, list) else [value]:
        if parameter.type != "str" or not parameter.choices or name in parameter.choices:
            continue
        if re.fullmatch(r"[\w.-]+", str(name)) and (paths.data() / f"{name}.npz").is_file():
            cell = re.search(rf"^{parameter.name}: ", notebook.text, re.MULTILINE)
            line = notebook.text.count("\n", 0, cell.start()) + 1
            where = f"{paths.shown(notebook.source)}, line {line}"
            return f"; to use {name}.npz of your own, add {name} to the braces in {where}"
    return ""


def _comments(code):
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _parameter(node, comments):
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
        raise ValueError("a parameter is a typed assignment")
    annotation = ast.unparse(node.annotation)
    many = annotation.startswith("list[")
    kind = annotation[5:-1] if many else annotation
    if kind not in _TYPES:
        raise ValueError(f"its type is not one of {', '.join(_TYPES)} or a list of these")
    lines = range(node.lineno, node.end_lineno + 1)
    comment = next((comments[line] for line in lines if line in comments), None)
    match = _COMMENT.match(comment or "")
    if match is None:
        raise ValueError("a comment must say what it is")
    limits, meaning = match.groups()
    choices = interval = None
    if limits and (kind == "bool" or (kind == "str" and limits[0] != "{")):
        raise ValueError(f"a {kind} has no range {limits}")
    if limits and limits[0] == "{":
        items = [item.strip() for item in limits[1:-1].split(",")]
        choices = tuple(_TYPES[kind](item) for item in items)
    elif limits:
        low, high = _ends(limits)
        interval = (low, high, limits[0] == "[", limits[-1] == "]" and not math.isinf(high))
    default = ast.literal_eval(node.value)
    return Parameter(node.target.id, kind, many, default, choices, interval, limits or "", meaning.strip())


def _ends(limits):
    """(low, high) of ``[low, high)``, floats."""
    try:
        low, high = (float(end) for end in limits[1:-1].split(","))
    except ValueError:
        raise ValueError(f"a range is written [low, high], not {limits}") from None
    if not low <= high:
        raise ValueError(f"nothing lies in the range {limits}")
    return low, high


def _short(value):
    """``repr(value)``, cut: a value may be long, or hold itself many times."""
    writer = reprlib.Repr()
    writer.maxlevel, writer.maxlist, writer.maxdict = 2, 8, 8
    writer.maxstring = writer.maxlong = writer.maxother = 80
    try:
        return writer.repr(value)
    except ValueError:  # an int of too many digits
        return f"this {type(value).__name__}"
