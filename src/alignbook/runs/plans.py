"""Plans of runs, written down and committed before the runs are made: ``data/plans/<paper>.yaml``.

A file is a list. An entry says of one notebook

``notebook``, ``profile``, ``values``
    the values of which parameters differ from the profile's
``new_seeds``
    first and last seed on which verdicts rest alone; left out where every run is new
``decides``, ``matters``, ``spread``, ``rule``, ``why``
    the claims, the smallest effects that matter, the spread that chose the number of seeds, the verdict's
    rule and a reason
``expected_core_hours``
    at the stored wall times
``needs``
    what only some machines have, e.g. ``bfloat16``; left out where any will do

A plan is *adopted* when the page shows its values: then its verdicts rest on ``new_seeds``.
"""

from dataclasses import dataclass
from functools import cache

from alignbook import paths
from alignbook.errors import AlignbookError, on_one_line
from alignbook.runs import notebooks, parameters

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
}
_OPTIONAL = ("new_seeds", "needs")


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

    def __str__(self):
        changed = ", ".join(f"{name}={parameters.written(value)}" for name, value in self.changed.items())
        return f"{self.notebook} ({changed})"


def every():
    """All plans, file by file in their order. Raises AlignbookError, one line, for an entry that is none."""
    return [_plan(entry, where) for entry, where in _all_entries()]


def of(name):
    """The plans of the notebook called ``name``."""
    return [_plan(entry, where) for entry, where in _all_entries() if _notebook(entry) in (name, None)]


def _all_entries():
    """(entry, where it stands) of all files."""
    for path in sorted((paths.root() / "data" / "plans").glob("*.yaml")):
        where = paths.shown(path)
        for number, entry in enumerate(_entries(path.read_text(encoding="utf-8"), where), 1):
            yield entry, f"{where}, entry {number}"


def _notebook(entry):
    return entry.get("notebook") if isinstance(entry, dict) else None


def of_run(run):
    """The plan whose values the results ``run`` (an engine.Run) have, or None."""
    return next((plan for plan in of(run.name) if plan.values == run.parameters), None)


@cache  # of the text
def _entries(text, where):
    entries = parameters.loaded(text, where)
    if not isinstance(entries, list):
        raise AlignbookError(f"{where}: plans are a list")
    return entries


def _plan(entry, where):
    if not isinstance(entry, dict):
        raise AlignbookError(f"{where}: no plan")
    unknown = sorted(set(entry) - set(FIELDS))
    if unknown:
        raise AlignbookError(f"{where}: a plan has no field {unknown[0]}; it has {', '.join(FIELDS)}")
    for field, kind in FIELDS.items():
        if field not in entry and field not in _OPTIONAL:
            raise AlignbookError(f"{where}: no {field}")
        if not isinstance(entry.get(field), kind):
            raise AlignbookError(f"{where}: {field} is {on_one_line(repr(entry.get(field)))}")
    seeds = entry.get("new_seeds")
    if seeds is not None and not (len(seeds) == 2 and all(isinstance(s, int) for s in seeds)):
        raise AlignbookError(f"{where}: new_seeds are the first and the last seed, not {seeds}")
    try:
        values = parameters.resolve(notebooks.find(entry["notebook"]), entry["profile"], entry["values"])
    except AlignbookError as error:
        raise AlignbookError(f"{where}: {error}") from None
    return Plan(
        notebook=entry["notebook"], profile=entry["profile"], changed=entry["values"], values=values,
        new_seeds=None if seeds is None else tuple(seeds), decides=entry["decides"], matters=entry["matters"],
        spread=entry["spread"], rule=entry["rule"], why=entry["why"], needs=entry.get("needs"),
        expected_core_hours=float(entry["expected_core_hours"]),
    )  # fmt: skip
