"""What a run that goes on takes up: a recorder's state, or its table as text. Anything else is refused."""

import csv
import io
from collections.abc import Mapping
from numbers import Integral, Real

import torch

COLUMNS = ["step", "instrument", "layer", "parameter", "value"]


def rows_of(text, known):
    """{(step, instrument): {(layer, parameter): value}} of a table in CSV, whose instruments are ``known``.

    Layers and parameters are texts also where they look like numbers. Raises ValueError, one line.
    """
    lines = csv.reader(io.StringIO(text, newline=""))
    head = next(lines, None)
    if head != COLUMNS:
        raise ValueError(f"its columns are {', '.join(head)}" if head else "it is empty")
    if not text.endswith("\n"):
        raise ValueError("its last line is cut off")
    rows = {}
    for line in lines:
        where = f"line {lines.line_num}"
        if len(line) != len(COLUMNS):
            raise ValueError(f"{where} has {len(line)} fields, not {len(COLUMNS)}")
        step, name, layer, parameter, value = line
        if not (step.isascii() and step.isdigit()):
            raise ValueError(f"{where}: step {step!r} is no integer from 0 on")
        if name not in known:
            raise ValueError(f"{where}: there is no instrument {name!r}")
        try:
            rows.setdefault((int(step), name), {})[layer, parameter] = float(value)
        except ValueError:
            raise ValueError(f"{where}: value {value!r} is no number") from None
    return rows


def taken(state):
    """{field: a copy} of what ``state_dict`` returned. Raises ValueError, one line."""
    if not isinstance(state, Mapping):
        raise ValueError(f"a recorder's state is a dict, not {type(state).__name__}")
    found = {}
    for field, copied in FIELDS.items():
        try:
            found[field] = copied(state[field])
        except (KeyError, TypeError, ValueError, AttributeError):
            what = "is not what state_dict() gives" if field in state else "is missing"
            raise ValueError(f"this is no recorder's state: its {field!r} {what}") from None
    return found


def _a(kind, value):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError
    return value


def _step(value):
    if _a(Integral, value) < 0:
        raise ValueError
    return int(value)


def _rows(given):
    return {
        (_step(step), _a(str, name)): {
            (_a(str, layer), _a(str, parameter)): _a(Real, value) for layer, parameter, value in found
        }
        for step, name, found in _a(list | tuple, given)
    }


def _by_name(kind, given):
    return {_a(str, name): _a(kind, value) for name, value in given.items()}


def _budget(given):
    counts = {"seconds": Real, "last": Real, "records": Integral, "skipped": Integral}
    if set(given) != {"trained", *counts}:
        raise ValueError
    trained = _a(Real, given["trained"])
    return {"trained": trained, **{name: _by_name(kind, given[name]) for name, kind in counts.items()}}


FIELDS = {
    "rows": _rows,
    "start": lambda given: None if given is None else _by_name(torch.Tensor, given),
    "budget": _budget,
    "left_out": lambda given: _by_name(str, given),
    "unfit": lambda given: {_a(str, name) for name in _a(list | tuple, given)},
}
