"""Plans of runs, written down and committed before the runs are made: ``data/plans/<paper>.yaml``.

A file is a list. An entry says of one notebook

``notebook``, ``profile``, ``values``
    the values of which parameters differ from the profile's
``decides``
    the claims that it was made for, among the notebook's at these values; none where its runs are kept and
    nothing asks for more of them
``matters``, ``spread``, ``rule``, ``why``, ``new_seeds``
    a record of what was fixed beforehand, which nothing here reads: the smallest effects that matter, the
    spread that chose the number of seeds, the verdict's rule, a reason, and the first and the last of the
    seeds on which verdicts rest alone (left out where every run is new)
``expected_core_hours``
    at the stored wall times
``needs``
    what only some machines have, e.g. ``bfloat16``; left out where any will do
``judges``
    the claims that these runs judge for the page: in all that the claims rest on, the runs differ
    from the page's in their number alone, or are nearer to the paper's. Of several entries, the first whose
    runs are stored counts

A plan is *adopted* when the page shows its values; verdicts rest on all seeds.
"""

from dataclasses import dataclass

from alignbook import paths
from alignbook.errors import AlignbookError, on_one_line
from companion.runs import notebooks, parameters

LONG = 6  # values of a list, from which on not all are named
REQUIRED = "notebook profile values decides matters spread rule why expected_core_hours".split()
OPTIONAL = "new_seeds needs judges".split()


@dataclass(frozen=True)
class Plan:
    """One entry, see the module; ``values`` are those of all parameters, ``changed`` the entry's own."""

    notebook: str
    profile: str
    changed: dict
    values: dict
    decides: list
    judges: list
    needs: str | None
    expected_core_hours: float

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
    where, entries = paths.shown(path), parameters.from_yaml(path)
    if not isinstance(entries, list):
        raise AlignbookError(f"{where}: plans are a list")
    return [_plan(entry, path.stem, f"{where}, entry {n}") for n, entry in enumerate(entries, 1)]


def _plan(entry, paper, where):
    fields = {*entry} if isinstance(entry, dict) else set()
    if {*REQUIRED} - fields or fields - {*REQUIRED, *OPTIONAL}:
        raise AlignbookError(f"{where}: a plan has {', '.join(REQUIRED)}, and may have {', '.join(OPTIONAL)}")
    decides, judges = entry["decides"], entry.get("judges", [])
    if not isinstance(decides, list) or not isinstance(judges, list):
        raise AlignbookError(f"{where}: decides and judges are lists of claims")
    try:
        notebook = notebooks.find(entry["notebook"])
        values = parameters.resolve(notebook, entry["profile"], entry["values"])
        hours = float(entry["expected_core_hours"])
    except (AlignbookError, ValueError, TypeError, AttributeError) as error:
        raise AlignbookError(f"{where}: {on_one_line(error)}") from None
    if entry["notebook"] != notebook.name or notebook.paper != paper:
        raise AlignbookError(f"{where}: {notebook.name} is to be named so, in the file of its paper")
    needs = entry.get("needs")
    return Plan(notebook.name, entry["profile"], entry["values"], values, decides, judges, needs, hours)
