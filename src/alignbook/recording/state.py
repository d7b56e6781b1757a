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
    try:
        budget, start = state["budget"], state["start"]
        return {
            "rows": {
                (_a(Integral, step), _a(str, name)): {
                    (_a(str, layer), _a(str, parameter)): _a(Real, value)
                    for layer, parameter, value in values
                }
                for step, name, values in state["rows"]
            },
            "start": None if start is None else _by_name(torch.Tensor, start),
            "budget": {"trained": _a(Real, budget["trained"])}
            | {name: _by_name(Real, budget[name]) for name in ("seconds", "last", "records", "skipped")},
            "left_out": _by_name(str, state["left_out"]),
            "unfit": {_a(str, name) for name in state["unfit"]},
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"this is no recorder's state: {type(error).__name__}: {error}") from None


def _a(kind, value):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _by_name(kind, values):
    return {_a(str, name): _a(kind, value) for name, value in values.items()}
