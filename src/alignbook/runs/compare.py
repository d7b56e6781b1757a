"""Two tables, or two folders of them, number by number."""

import math
from dataclasses import dataclass
from pathlib import Path

from alignbook.errors import AlignbookError, on_one_line

NAMES = ("instrument", "layer", "parameter")  # columns of texts, though "0.10" looks like a number
RECORD = ["step", *NAMES, "value"]  # the columns of a recorder's table, whose instruments share one


@dataclass(frozen=True)
class Difference:
    """How the table ``name`` differs: ``what``; ``largest``, a share of its column's largest value.

    In a recorder's table it is a share of the instrument's largest value.
    """

    name: str
    what: str
    largest: float | None = None


def compare(first, second):
    """(how many tables the two share, list of :class:`Difference`) of CSV files or folders of them.

    first, second : paths; in folders, files of the same name below them belong together.
    Raises AlignbookError where one is missing or holds no tables, where a file is to be compared with a
    folder, or a table cannot be read.
    """
    ours, theirs = _tables(Path(first)), _tables(Path(second))
    files = [path for path in (first, second) if Path(path).is_file()]
    if len(files) == 1:
        raise AlignbookError(f"{files[0]} is a file, the other a folder: compare two of a kind")
    if files:
        name = Path(first).name
        ours, theirs = {name: Path(first)}, {name: Path(second)}
    shared = sorted(set(ours) & set(theirs))
    found = [Difference(name, f"only in {first}") for name in sorted(set(ours) - set(theirs))]
    found += [Difference(name, f"only in {second}") for name in sorted(set(theirs) - set(ours))]
    pairs = (_difference(name, ours[name], theirs[name]) for name in shared)
    return len(shared), [*filter(None, pairs), *found]


def _tables(path):
    if path.is_file() and path.suffix == ".csv":
        return {path.name: path}
    files = sorted(path.rglob("*.csv")) if path.is_dir() else []
    found = {str(file.relative_to(path)): file for file in files}
    if not found:
        raise AlignbookError(f"{path} is no CSV file and no folder of them")
    return found


def _difference(name, ours, theirs):
    import pandas as pd

    if ours.read_bytes() == theirs.read_bytes():
        return None
    tables = []
    for path in (ours, theirs):
        try:
            table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(NAMES, str))
            if list(table.columns) == RECORD:
                table["value"] = table["value"].astype(float)  # "nan" would make it a column of texts
            tables.append(table.reset_index(drop=True))
        except (OSError, ValueError) as error:
            raise AlignbookError(f"cannot read {path}: {on_one_line(error)}") from None
    a, b = tables
    if list(a.columns) != list(b.columns):
        return Difference(name, f"other columns: {', '.join(sorted(set(a.columns) ^ set(b.columns)))}")
    if len(a) != len(b):
        return Difference(name, f"{len(a)} and {len(b)} rows")
    return _of_columns(name, a, b)


def _of_columns(name, a, b):
    worst = None
    for column in a.columns:
        numbers = all(table[column].dtype.kind in "fiu" for table in (a, b))
        if not numbers:
            if not a[column].equals(b[column]):
                return Difference(name, f"{column} has other texts")
            continue
        missing, finite = _not_finite(a[column]), a[column].abs() < math.inf
        if not missing.equals(_not_finite(b[column])):
            return Difference(name, f"{column} is missing or infinite in other rows")
        for what, x in _parts(a[finite], column):
            y = b.loc[x.index, column]
            scale = max(x.abs().max(), y.abs().max())
            largest = float((x - y).abs().max() / scale) if scale else 0.0
            if largest > (worst[0] if worst else 0.0):
                worst = largest, what
    if worst is None:
        return None
    return Difference(name, f"{worst[1]} differs by {worst[0]:.2g} of its largest value", worst[0])


def _not_finite(numbers):
    """The same with 0 for each finite number."""
    return numbers.astype(float).mask(numbers.abs() < math.inf, 0.0)


def _parts(table, column):
    """(what it is called, numbers) of a column, or of each instrument in a recorder's."""
    if list(table.columns) == RECORD and column == "value":
        return [
            (f"{column} of {name}", part) for name, part in table.groupby("instrument", dropna=False)[column]
        ]
    return [(column, table[column])]
