"""A notebook's page: validated parameters, results, and the parts that every page shows."""

import html
import inspect
import json
import re
import types
from dataclasses import asdict, replace
from functools import cache

from IPython.display import HTML, display

from alignbook import paths
from alignbook.claims import NOT_JUDGED
from alignbook.errors import AlignbookError
from alignbook.over_seeds import SEED
from alignbook.pages import share, style
from alignbook.pages.claim_tables import claims_table, verdict
from alignbook.pages.names import spoken
from alignbook.pages.tables import folded, lettered_prose, marked, number, table, typeset
from alignbook.runs import engine, notebooks, parameters, plans, results
from alignbook.wording import listed

SAID = "alignbook"  # of a page's first output: the metadata that other pages are made from
SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z“])")
_CODE = re.compile(r"`([^`]+)`")
_AUTHORS = re.compile(r"^.* (?=\w+\. )")  # of a title's first part: "Maennel Fig. 2"
_KERNEL_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython", "Page", "page", "papermill"}
NEW_SEEDS = (
    '<p class="ab-note">These numbers rest, as the verdicts do, on seeds planned before they were run; '
    "figures and tables show all runs unless they say otherwise.</p>"
)
BANNERS = {
    "smoke": "Embedded stand-in data and toy sizes: this shows that the code runs. It reproduces nothing.",
    "quick": "settings: smaller than the paper's",
    "paper": "settings: the paper's own values, where it states them",
}
IN_PART = "settings: the paper's own values as far as they are run, smaller elsewhere"


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
        said = {"finding": self.run.finding, "claims": [asdict(claim) for claim in self.run.claims]}
        # As text, since messages between processes know no infinite numbers.
        display(HTML(head(self.run)), metadata={SAID: json.dumps(said)})

    def key_numbers(self, run=None):
        """The numbers beside the figure, at most three; with the paper's where it prints any of them.

        run : an engine.Run of the page's study whose numbers they are, where a plan's judge its main claim
        """
        run = run or self.run
        stated = any(number(key.paper) for key in run.key_numbers)
        rows = []
        for key in run.key_numbers:
            paper = {"Paper": number(key.paper) or "not stated"} if stated else {}
            rows.append({"Number": marked(key.what), **paper, "Here": number(key.here) or "–"})
        judged = len(run.judged_table) < len(run.table)
        return HTML(table(rows, "key") + NEW_SEEDS * judged)

    def claims(self):
        """The paper's claims and their outcomes, the headline first; replicates of a statement unfold."""
        return HTML(claims_table(self.run.claims))

    def runs_of_plans(self, wanted):
        """[(plan, its engine.Run)] of the complete plans with ``wanted(plan)``; none at profile smoke."""
        asked = () if self.run.near == "smoke" else filter(wanted, plans.of(self.notebook.name))
        return [(plan, run) for plan in asked if (run := engine.load_values(self.notebook, plan.values))]

    def planned(self):
        """What complete plans decide with runs that this page does not show; nothing where there are none."""

        def asked(plan):
            return set(plan.decides).difference(plan.judges)  # which stand with the page's claims

        parts, runs = [], self.runs_of_plans(asked)
        here = engine.jobs_of(self.notebook, self.run.parameters) if runs else ()
        for plan, run in runs:
            if any(item.job not in here for item in run.stored):
                decided = asked(plan)
                values = ", ".join(f"{name} = {_value(value)}" for name, value in plan.changed.items())
                claims = [
                    replace(claim, headline=False, part="") for claim in run.claims if claim.id in decided
                ]
                claims.sort(key=lambda claim: claim.outcome == NOT_JUDGED)
                parts.append(f"<p>With {values}:</p>{claims_table(claims, anchored=False)}")
        return HTML("".join(parts))

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
            | {"Commit": html.escape(origin[2]).replace("+", "<wbr>+")}
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
            meaning = lettered_prose(_CODE.sub(r"<code>\1</code>", html.escape(known.meaning)))
            rows.append(
                {**row, "Meaning": meaning, "Allowed": typeset(html.escape(known.range).replace("inf", "∞"))}
            )
        return rows

    def source(self):
        """All code of the page in one fold: the study's modules, and the notebook's cells."""
        parts = []
        for module in self.notebook.modules:
            does = "Judged" if module.__name__.endswith(".reading") else "Computed"
            code = highlighted(inspect.getsource(module))
            parts.append(f"<p>{does} by <code>{place_of(module)}</code>:</p>{code}")
        cells = "\n\n\n".join(notebooks.cells(self.notebook))
        drawn = self.notebook.source.relative_to(paths.root()).as_posix()
        parts.append(f"<p>Drawn by <code>{drawn}</code>:</p>{highlighted(cells)}")
        return HTML(folded("The code of this page", "".join(parts)))


def highlighted(code):
    """HTML of Python ``code``."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    lines = highlight(code, PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<div class="highlight"><pre>{lines}</pre></div>'


def says(chapter):
    """What stands before a notebook's claim: whose it is."""
    return "We ask" if chapter == notebooks.OWN else "The paper claims"


@cache
def address_of(chapter, field="url"):
    """Where the paper that a chapter cites first can be read, by the bibliography; None where nothing is.

    field : ``pdf`` for the address of its PDF
    """
    from pybtex.database import parse_file  # here: only a page's first lines ask

    landing = paths.root() / "book" / "chapters" / f"{chapter}.md"
    if not landing.exists():
        return None
    cited = re.search(r"\{cite:t\}`(\w+)`", landing.read_text(encoding="utf-8"))
    entries = parse_file(str(paths.root() / "book" / "bibliography.bib")).entries
    return entries[cited[1]].fields.get(field) if cited else None


def head(run):
    """HTML of a page's first lines: what it shows, what the paper claims, the verdict, what was found."""
    notebook = notebooks.find(run.name)
    target = f"#claim-{html.escape(run.headline.id)}"
    judged, word = f'<a class="ab-verdict" href="{target}">{verdict(run.claims)}</a>', says(notebook.paper)
    if address := address_of(notebook.paper):
        word = word.replace("The paper", f'<a href="{html.escape(address)}">The paper</a>')
    return (
        f"{banner(run)}"
        f'<p class="ab-claim"><span class="ab-word">{word}</span> {marked(notebook.claim)}'
        f"{in_the_paper(notebook)}</p>"
        f'<p class="ab-finding"><span class="ab-word">We find</span> {judged}<br>{parted(run.finding)}</p>'
    )


def parted(finding):
    """HTML of a finding: what was found, and below it, in smaller type, the caveat."""
    first, *rest = SENTENCE.split(finding)
    caveat = f' <span class="ab-caveat">{marked(" ".join(rest))}</span>' if rest else ""
    return f"{marked(first)}{caveat}"


def in_the_paper(notebook):
    """HTML of a link to what a page reproduces, in the paper's PDF and at its page; empty without a PDF."""
    address = None if notebook.paper == notebooks.OWN else address_of(notebook.paper, "pdf")
    if not address:
        return ""
    what = _AUTHORS.sub("", notebook.title.split(" · ")[0])
    page = notebook.paper_page
    place, said = (f"#page={page}", f", page {page}") if page else ("", "")
    link = f'<a href="{html.escape(address + place)}">{html.escape(what)} in the PDF{said}</a>'
    return f' <small class="ab-place">({link})</small>'


def banner(run):
    """HTML of one line that says in plain sight what a page shows."""
    used = sorted({name for item in run.stored for name in results.datasets(item.job).values()})
    count = run.parameters.get("seeds")
    data = notebooks.find(run.name).data
    made_of = ", ".join(map(spoken, used)) or "synthetic data"
    facts = [
        # Values of one's own may name other data.
        f"data: {data}" if data and run.profile in engine.FAITHFUL else made_of,
        _state(run, len(run.shown)),
    ]
    if count is not None:
        seeds = [value for name, value in run.parameters.items() if name.endswith("seeds")]
        seeds += [claim.seeds for claim in run.claims if claim.runs and claim.what == SEED]
        most = max(seeds)
        facts.insert(1, f"{count} to {most} seeds" if most > count else f"{count} seed{'s' * (count != 1)}")
    if run.joined:
        profile, total = run.joined_profile
        facts[-2] += f", {len(run.joined)} of {total} runs of profile {profile} done"
    if run.diverged:
        facts.append(f"{len(run.diverged)} of {len(run.shown)} runs diverged")
    kind = run.profile or "custom"
    return (
        f'<div class="ab-banner ab-{kind}" role="note"><strong>{html.escape(run.shown_profile)}</strong> '
        f"<span>{html.escape(_what(run))}</span> "
        + " ".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
        + "</div>"
    )


def _what(run):
    """What a reader must know of the values behind the page."""
    if run.joined:
        return IN_PART
    if run.profile in engine.FAITHFUL and notebooks.find(run.name).paper == notebooks.OWN:
        return "settings: ours, since there is no paper"
    if told := notebooks.find(run.name).settings.get(run.profile):
        return f"settings: {told}"
    if run.profile == "quick" and (fewer := _fewer(run)):
        return f"{BANNERS['paper']}, but fewer {listed(fewer)}"
    if run.profile:
        return BANNERS[run.profile]
    toy = ", which reproduces nothing: no claim is judged" if run.near == "smoke" else ""
    return f"values of your own, nearest to those of profile {run.near}{toy}"


def _fewer(run):
    """The lists that are shorter than profile paper's, where nothing but the seeds differs from it else."""
    paper = parameters.resolve(notebooks.find(run.name), "paper")
    differing = [name for name, value in run.parameters.items() if value != paper[name] and name != "seeds"]
    pairs = [(run.parameters[name], paper[name]) for name in differing]
    lists = all(isinstance(whole, list) and {*part} < {*whole} for part, whole in pairs)
    return [name.replace("datasets", "data sets") for name in differing] if lists else []


def duration(seconds):
    """Seconds as a reader takes them in: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 0.5 else "under 1 s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def place_of(module):
    """Where the source of ``module`` stands in the checkout."""
    place = f"src/{module.__name__.replace('.', '/')}.py"
    return place.replace("src/alignbook/studies/", "notebooks/")


def _value(value):
    return f"<code>{html.escape(parameters.written(value))}</code>"


def _data_origin(record):
    made_from = [record[field] for field in results.DATASETS.values() if record.get(field)]
    return ", ".join(f"{data['name']} {data['sha256'][:12]}" for data in made_from) or "generated"


def _state(run, total):
    if not run.stale:
        untried = sum(item.untried() for item in run.shown)
        part = "all" if untried == total else f"{untried} of {total}"
        elsewhere = f" ({part} runs by earlier code, checked on other runs alone)"
        return "up to date" + elsewhere * (untried > 0)
    reasons = sorted({reason for why in run.stale.values() for reason in why})
    return f"STALE: {len(run.stale)} of {total} results ({', '.join(reasons)} since)"


def _is_parameter(name, value):
    return not (
        name.startswith("_")
        or name in _KERNEL_NAMES
        or isinstance(value, types.ModuleType | types.FunctionType | type)
    )


def _vector_figures():
    from IPython import get_ipython
    from matplotlib.figure import Figure
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    set_matplotlib_formats("svg")
    formatters = get_ipython().display_formatter.formatters
    formatters["image/svg+xml"].for_type(Figure, style.svg)
    formatters[share.PNG].for_type(Figure, share.of_first())
    formatters[share.PNG].enabled = True
