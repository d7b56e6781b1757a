"""Plans of runs, written down and committed before the runs are made: ``data/plans/<paper>.yaml``.

A file is a list. An entry says of one notebook

``notebook``, ``profile``, ``values``
    the values of which parameters differ from the profile's
``new_seeds``
    first and last of the seeds on which verdicts rest alone; left out where every run is new
``decides``, ``matters``, ``spread``, ``rule``, ``why``
    the claims, the smallest effects that matter, the spread that chose the number of seeds, the verdict's
    rule and a reason
``expected_core_hours``
    at the stored wall times
``needs``
    what only some machines have, e.g. ``bfloat16``; left out where any will do
``judges``
    the claims that these runs judge for the page: in all that the claims rest on, the runs differ
    from the page's in their number alone, or are nearer to the paper's. Of several entries, the first whose
    runs are stored counts

A plan is *adopted* when the page shows its values; verdicts rest on all seeds. ``decides`` is a record of
what was planned: its statements may have been renamed since.
"""

import math
from dataclasses import dataclass
from functools import cache

from alignbook import paths
from alignbook.errors import AlignbookError, on_one_line
from companion.runs import notebooks, parameters

LONG = 6  # values of a list, from which on not all are named
FIELDS = {
    "notebook": str,
    "profile": str,
    "values": dict,
    "new_seeds": list | None,
    "decides": list,
    "matters": dict,
    "spread": str,
    "rule": str,
    "expected_core_hours": int | float,
    "why": str,
    "needs": str | None,
    "judges": list | None,
}
_OPTIONAL = ("new_seeds", "needs", "judges")


@dataclass(frozen=True)
class Plan:
    """One entry, see the module; ``values`` are those of all parameters, ``changed`` the entry's own."""

    notebook: str
    profile: str
    changed: dict
    values: dict
    new_seeds: tuple | None
    decides: list
    matters: dict
    spread: str
    rule: str
    expected_core_hours: float
    why: str
    needs: str | None
    judges: list

    def __str__(self):
        return f"{self.notebook} ({self._changed('=')})"

    @property
    def differs(self):
        """How its values differ from the profile's, e.g. ``datasets = mnist, seeds = 12``."""
        return self._changed(" = ")

    def _changed(self, sign):
        return ", ".join(f"{name}{sign}{_short(value)}" for name, value in self.changed.items())


def _short(value):
    """A value as a reader sees it, of a long list how many it has and from where to where."""
    if isinstance(value, list) and len(value) > LONG:
        return f"{len(value)} values from {value[0]} to {value[-1]}"
    return parameters.written(value)


def every():
    """All plans, file by file in their order. Raises AlignbookError, one line, for an entry that is none."""
    return [plan for path in sorted(_folder().glob("*.yaml")) for plan in _plans(path)]


def of(name):
    """The plans of the notebook called ``name``; those of other papers are not looked at."""
    path = _folder() / f"{name.split('/')[0]}.yaml"
    return [plan for plan in _plans(path) if plan.notebook == name] if path.exists() else []


def _folder():
    return paths.root() / "data" / "plans"


def _plans(path):
    where = paths.shown(path)
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError as error:  # no UTF-8
        raise AlignbookError(f"cannot read {where}: {on_one_line(error)}") from None
    found = [_plan(entry, f"{where}, entry {n}") for n, entry in enumerate(_entries(text, where), 1)]
    for plan in found:
        if plan.notebook.split("/")[0] != path.stem:
            raise AlignbookError(f"{where}: a plan of {plan.notebook} belongs in the file of its paper")
    return found


@cache  # of the text
def _entries(text, where):
    entries = parameters.loaded(text, where)
    if not isinstance(entries, list):
        raise AlignbookError(f"{where}: plans are a list")
    return entries


def _plan(entry, where):
    if not isinstance(entry, dict):
        raise AlignbookError(f"{where}: no plan")
    unknown = [field for field in entry if field not in FIELDS]
    if unknown:
        raise AlignbookError(f"{where}: a plan has no field {unknown[0]}; it has {', '.join(FIELDS)}")
    for field, kind in FIELDS.items():
        if field not in entry and field not in _OPTIONAL:
            raise AlignbookError(f"{where}: no {field}")
        if not isinstance(entry.get(field), kind) or isinstance(entry.get(field), bool):
            raise AlignbookError(f"{where}: {field} is {on_one_line(repr(entry.get(field)))}")
    hours, seeds = float(entry["expected_core_hours"]), entry.get("new_seeds")
    if not 0 <= hours < math.inf:
        raise AlignbookError(f"{where}: expected_core_hours is {hours}")
    try:
        book = notebooks.find(entry["notebook"])
        values = parameters.resolve(book, entry["profile"], entry["values"])
    except AlignbookError as error:
        raise AlignbookError(f"{where}: {error}") from None
    if book.name != entry["notebook"]:
        raise AlignbookError(f"{where}: the whole name of the notebook is {book.name}")
    if seeds is not None and not _among(seeds, _most(values.get("seeds"), *entry["values"].values())):
        raise AlignbookError(
            f"{where}: new_seeds are the first and the last new seed of those that are run, not "
            f"{on_one_line(seeds)}"
        )
    judges = entry.get("judges") or []
    return Plan(
        notebook=entry["notebook"], profile=entry["profile"], changed=entry["values"], values=values,
        new_seeds=None if seeds is None else tuple(seeds), decides=entry["decides"], matters=entry["matters"],
        spread=entry["spread"], rule=entry["rule"], why=entry["why"], needs=entry.get("needs"),
        judges=judges, expected_core_hours=hours,
    )  # fmt: skip


def _most(*values):
    """The largest whole number among ``values``: seeds, or networks or groups that are counted like them."""
    return max((v for v in values if isinstance(v, int) and not isinstance(v, bool)), default=None)


def _among(seeds, count):
    """Whether ``seeds`` are a first and a last seed of the ``count`` that are run from 0 on."""
    whole = len(seeds) == 2 and all(isinstance(s, int) and not isinstance(s, bool) for s in seeds)
    return whole and 0 <= seeds[0] <= seeds[1] and (count is None or seeds[1] < count)
