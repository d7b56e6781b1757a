"""A notebook's page: validated parameters, results, and the parts that every page shows."""

import html
import inspect
import types
from collections import Counter

from IPython.display import HTML, display

from alignbook.claims import OUTCOMES
from alignbook.errors import AlignbookError
from alignbook.pages import style
from alignbook.pages.tables import badge, folded, marked, number, table
from alignbook.runs import engine, notebooks, parameters

_KERNEL_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython", "Page", "page", "papermill"}
BANNERS = {
    "smoke": "Smoke run: embedded stand-in data and toy sizes. This page shows that the code runs. "
    "It reproduces nothing.",
    "quick": "Quick profile: real data where the paper uses real data, at sizes that two processor cores "
    "finish in about ten minutes. Not the paper's own sizes.",
    "paper": "Paper profile: the paper's own hyperparameters.",
}
IN_PART = (
    "Quick profile, and, where they are stored, runs with the paper's own hyperparameters in its place: "
    "the titles of the figures say which."
)


class Page:
    """What a notebook shows, from its name and its namespace.

    Raises AlignbookError for parameters that the notebook's cell does not allow, names that
    papermill injected and no parameter has included.
    """

    def __init__(self, name, namespace):
        self.notebook = notebooks.find(name)
        spec = parameters.read(self.notebook)
        given = {k: v for k, v in namespace.items() if _is_parameter(k, v)}
        self.parameters = parameters.resolve(self.notebook, overrides=given)
        missing = [known for known in spec if known not in given]
        if missing:
            raise AlignbookError(f"{self.notebook.name}: no value for {', '.join(missing)}")
        self.run = engine.run(self.notebook.name, progress=engine.to_stderr, **self.parameters)
        self.table = self.run.table
        style.apply()
        _vector_figures()
        display(HTML(banner(self.run)))

    def claims(self):
        """The paper's claims and their outcomes."""
        rows = [_claim_row(claim) for claim in self.run.claims()]
        return HTML(table(rows, "claims"))

    def provenance(self):
        """Where the results come from, one row per kind of origin, and the value of every parameter."""
        origins = {}
        for record in (item.provenance for item in self.run.shown):
            versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
            commit = record["commit"] or "not in git"
            origin = (_data_origin(record), record["device"], commit, record["date"][:10], versions)
            origins.setdefault(origin, []).append(record["wall_time_s"])
        rows = [
            dict(zip(("Data", "Device", "Commit", "Date", "Versions"), map(html.escape, origin), strict=True))
            | {"Runs": str(len(times)), "Computing time": duration(sum(times))}
            for origin, times in sorted(origins.items())
        ]
        return HTML(
            folded("Provenance", table(rows, "provenance"))
            + folded("Parameters", table(self._parameter_rows(), "parameters"))
        )

    def _parameter_rows(self):
        """One row per parameter; the values of profile paper have a column of their own on other pages."""
        paper = parameters.resolve(self.notebook, "paper")
        rows = []
        for name, known in parameters.read(self.notebook).items():
            row = {"Parameter": f"<code>{name}</code>", "Here": _value(self.parameters[name])}
            if self.run.profile != "paper":
                row["Profile paper"] = _value(paper[name])
            rows.append({**row, "Meaning": html.escape(known.meaning), "Allowed": html.escape(known.range)})
        return rows

    def source(self):
        """The experiment's code, folded, and links to each of its functions."""
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer

        module = self.notebook.experiment
        code = highlight(inspect.getsource(module), PythonLexer(), HtmlFormatter(nowrap=True))
        target = f"../code/{self.notebook.name}.html"
        functions = " · ".join(
            f'<a href="{target}#{anchor(name)}"><code>{name}</code></a>' for name in functions_of(module)
        )
        where = f"src/alignbook/experiments/{self.notebook.name}.py"
        return HTML(
            f"<p>Computed by <code>{where}</code>: {functions}</p>"
            + folded("The code of the experiment", f'<div class="highlight"><pre>{code}</pre></div>')
        )


def banner(run):
    """HTML that says in plain sight what a page shows."""
    records = [item.provenance for item in run.shown]
    datasets = sorted(
        {item.unit.arguments["dataset"] for item in run.stored if "dataset" in item.unit.arguments}
    )
    facts = {
        "Data": ", ".join(datasets) or "synthetic",
        "Seeds": run.parameters.get("seeds", "none (no randomness)"),
        "Device": ", ".join(sorted({record["device"] for record in records})),
        "Computing time": duration(sum(record["wall_time_s"] for record in records)),
        "Commit": ", ".join(sorted({record["commit"] or "not in git" for record in records})),
        "Computed": " to ".join(
            sorted({min(r["date"] for r in records)[:10], max(r["date"] for r in records)[:10]})
        ),
        "State": _state(run.stale, len(records)),
    }
    if run.joined:
        profile, total = run.joined_profile
        facts["Seeds"] = f"{facts['Seeds']} at {run.profile}; at {profile} as the titles say"
        facts["Also stored"] = f"{len(run.joined)} of the {total} runs of profile {profile}"
    if run.diverged:
        facts["Diverged"] = f"{len(run.diverged)} of {len(records)} runs: {', '.join(run.diverged)}"
    items = "".join(f"<div><dt>{k}</dt><dd>{html.escape(str(v))}</dd></div>" for k, v in facts.items())
    kind = run.profile or "custom"
    outcomes = Counter(claim.outcome for claim in run.claims())
    verdicts = ", ".join(f"{outcomes[o]} {badge(o)}" for o in OUTCOMES if outcomes[o])
    return (
        f'<div class="ab-banner ab-{kind}" role="note"><p><strong>{html.escape(run.shown_profile)}</strong> '
        f"{html.escape(_what(run))}</p>"
        f'<p class="ab-verdicts">Claims: {verdicts or "none"}</p><dl>{items}</dl></div>'
    )


def _what(run):
    """What a reader must know of the values behind the page."""
    if run.joined:
        return IN_PART
    if run.profile:
        return BANNERS[run.profile]
    toy = ", which reproduces nothing: no claim is judged" if run.near == "smoke" else ""
    return f"Custom parameters: values of your own, nearest to those of profile {run.near}{toy}."


def duration(seconds):
    """Seconds as a reader takes them in: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def functions_of(module):
    """Names of the functions that ``module`` itself defines, in their order."""
    own = [
        (first_line(value), name)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return [name for _, name in sorted(own)]


def first_line(function):
    """The line, from 1, on which the source of ``function`` starts, decorators included."""
    return inspect.unwrap(function).__code__.co_firstlineno


def anchor(function):
    """The HTML anchor of a function on its code page."""
    return function.strip("_").replace("_", "-")


def claim_cells(claim):
    """{column: HTML} of a claim: what it says, the paper's value, ours with its interval."""
    here = number(claim.measured)
    if claim.interval:
        here += f"<br><small>{number(claim.interval[0])} to {number(claim.interval[1])}</small>"
    paper = number(claim.paper)
    if claim.tolerance is not None:
        paper += f"<br><small>our margin {number(claim.tolerance)}</small>"
    statement = f"{marked(claim.statement)} <small>({marked(claim.source)})</small>"
    return {"Claim": statement, "Paper": paper, "Here": here}


def _claim_row(claim):
    outcome = f"{badge(claim.outcome)}<br><small>{html.escape(claim.test)}</small>"
    return {"id": f"claim-{claim.id}", **claim_cells(claim), "Outcome": outcome}


def _value(value):
    return f"<code>{html.escape(parameters.written(value))}</code>"


def _data_origin(record):
    return f"{record['data']['name']} {record['data']['sha256'][:12]}" if record["data"] else "generated"


def _state(stale, total):
    if not stale:
        return "fresh"
    reasons = sorted({reason for why in stale.values() for reason in why})
    return f"STALE: {len(stale)} of {total} results ({', '.join(reasons)} since)"


def _is_parameter(name, value):
    return not (
        name.startswith("_")
        or name in _KERNEL_NAMES
        or isinstance(value, types.ModuleType | types.FunctionType | type)
    )


def _vector_figures():
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    set_matplotlib_formats("svg")
