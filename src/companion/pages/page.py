"""A notebook's page: the parts that every page shows of a run."""

import base64
import html
import re
from dataclasses import replace
from functools import cache

import pandas as pd
from IPython.display import HTML, display

from alignbook import paths
from alignbook.errors import AlignbookError
from companion.claims import NOT_JUDGED
from companion.judging import claims_of, judge
from companion.pages import style
from companion.pages.claim_tables import claims_table, verdict
from companion.pages.names import spoken
from companion.pages.tables import folded, lettered_prose, marked, measured, number, table, typeset
from companion.runs import notebooks, parameters, plans, results
from companion.runs.run import FAITHFUL, Run, jobs_of, load_values

_CODE = re.compile(r"`([^`]+)`")
TOY = "embedded stand-in data, toy sizes: reproduces nothing"
LARGEST = 500_000  # bytes of a figure's data, which stand in the page itself


class Page:
    """What a notebook shows of ``run``; the page's first lines are displayed at once."""

    def __init__(self, run: Run):
        self.judged = judge(run)
        self.run, self.table, self.parameters = run, run.table, run.parameters
        self.notebook = notebooks.find(run.name)
        style.apply()
        _vector_figures()
        display(HTML(head(run, self.judged)))

    def key_numbers(self):
        """The numbers beside the figure, at most three; with the paper's where it prints any of them."""
        keys = self.judged.key_numbers
        stated = any(number(key.paper) for key in keys)
        rows = []
        for key in keys:
            paper = {"Paper": number(key.paper) or "not stated"} if stated else {}
            rows.append({"Number": marked(key.what), **paper, "Here": _here(key)})
        return HTML(table(rows, "key") * bool(rows))

    def data(self, frame, name="figure"):
        """A link to the numbers of a figure: the data frame ``frame`` as CSV, which stands in the page.

        name : of the file, without its end
        """
        text = frame.to_csv(index=not isinstance(frame.index, pd.RangeIndex), float_format="%.6g")
        if len(text) > LARGEST:
            raise AlignbookError(f"{self.notebook.name}: {len(text):,} bytes of data, at most {LARGEST:,}")
        file = f"{self.notebook.name.replace('/', '-')}-{name}.csv"
        address = f"data:text/csv;base64,{base64.b64encode(text.encode()).decode()}"
        size = f"{len(text) / 1000:.0f} kB" if len(text) >= 1000 else f"{len(text)} bytes"
        return HTML(f'<p><a download="{file}" href="{address}">The figure\'s data as CSV</a> ({size})</p>')

    def audit(self):
        """What proves the page: statements with their numbers, provenance, parameters and code."""
        parts = (self.claims(), self.planned(), self.provenance(), self.source())
        return HTML("".join(part.data for part in parts))

    def claims(self):
        """The paper's claims and their outcomes, the headline first; replicates of a statement unfold."""
        return HTML(claims_table(self.judged.claims))

    def runs_of_plans(self, wanted):
        """[(plan, its Run)] of the complete plans with ``wanted(plan)``; none at profile smoke."""
        asked = () if self.run.near == "smoke" else filter(wanted, plans.of(self.notebook.name))
        return [(plan, run) for plan in asked if (run := load_values(self.notebook, plan.values))]

    def planned(self):
        """What complete plans decide with runs that this page does not show; nothing where there are none."""

        def asked(plan):
            return set(plan.decides).difference(plan.judges)  # which stand with the page's claims

        parts, runs = [], self.runs_of_plans(asked)
        here = jobs_of(self.notebook, self.run.parameters) if runs else ()
        for plan, run in runs:
            if any(item.job not in here for item in run.stored):
                decided = asked(plan)
                values = ", ".join(f"{name} = {_value(value)}" for name, value in plan.changed.items())
                claims = [
                    replace(claim, headline=False, part="") for claim in claims_of(run) if claim.id in decided
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
        cells, parts = "\n\n\n".join(notebooks.cells(self.notebook)), []
        for does, name in {
            "Computed": "experiment.py",
            "Judged": "reading.py",
            "Drawn": notebooks.SOURCE,
        }.items():
            path = self.notebook.folder / name
            code = highlighted(cells if does == "Drawn" else path.read_text(encoding="utf-8"))
            place = path.relative_to(paths.root()).as_posix()
            parts.append(f"<p>{does} by <code>{place}</code>:</p>{code}")
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
    return "We ask" if chapter == notebooks.OWN else "The paper says"


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


def head(run, judged):
    """HTML of a page's first lines: what the paper claims, the verdict in a word, what was seen."""
    notebook = notebooks.find(run.name)
    target, word = f"#claim-{html.escape(judged.headline.id)}", says(notebook.paper)
    outcome = f'<a class="ab-verdict" href="{target}">{verdict(judged.claims)}</a>'
    if address := address_of(notebook.paper):
        word = word.replace("The paper", f'<a href="{html.escape(address)}">The paper</a>')
    return (
        f"{banner(run)}{changed(run)}"
        f'<p class="ab-claim"><span class="ab-word">{word}</span> {marked(notebook.claim)}</p>'
        f'<p class="ab-finding"><span class="ab-word">We saw</span> {outcome}<br>{parted(judged.finding)}</p>'
    )


def parted(finding):
    """HTML of a findings.Finding: what was seen, and below it, in smaller type, the caveat."""
    caveat = f' <span class="ab-caveat">{marked(finding.caveat)}</span>' if finding.caveat else ""
    return f"{marked(finding.text)}{caveat}"


def in_the_paper(notebook):
    """HTML of what a page reproduces, a link to its page of the paper's PDF where that is known."""
    label = html.escape(notebook.label)
    address = None if notebook.paper == notebooks.OWN else address_of(notebook.paper, "pdf")
    if not address:
        return f"<strong>{label}</strong>"
    page = notebook.front.get("paper_page")
    place, title = (f"#page={page}", f"page {page} of the PDF") if page else ("", "the PDF")
    return f'<strong><a href="{html.escape(address + place)}" title="{title}">{label}</a></strong>'


def banner(run):
    """HTML of one short line: which figure, profile, data and seeds; whether it is toy, stale or diverged."""
    notebook = notebooks.find(run.name)
    used = sorted({name for item in run.stored for name in results.datasets(item.job).values()})
    made_of = ", ".join(map(spoken, used)) or "synthetic data"
    facts = [
        f"{html.escape(run.shown_profile)} profile",
        # Values of one's own may name other data.
        html.escape(notebook.front.get("data", made_of) if run.profile in FAITHFUL else made_of),
    ]
    if (count := run.parameters.get("seeds")) is not None:
        facts.append(f"{count} seed{'s' * (count != 1)}")
    if run.joined:
        profile, total = run.joined_profile
        facts.append(f"{len(run.joined)} of {total} runs of profile {profile} done")
    if run.near == "smoke":
        facts.append(TOY)
    if stale := run.stale:
        reasons = sorted({reason for why in stale.values() for reason in why})
        facts.append(f"STALE: {len(stale)} of {len(run.shown)} results ({', '.join(reasons)} since)")
    if run.diverged:
        facts.append(f"{len(run.diverged)} of {len(run.shown)} runs diverged")
    shown = " ".join(f"<span>{fact}</span>" for fact in (in_the_paper(notebook), *facts))
    return f'<div class="ab-banner ab-{run.profile or "custom"}" role="note">{shown}</div>'


def changed(run):
    """HTML of one line that names the values of a reader's own, each after the profile's; else empty."""
    if run.profile:
        return ""
    before = parameters.resolve(notebooks.find(run.name), run.near)
    values = [
        f"<span><code>{name}</code> {_value(before[name])} → <strong>{_value(value)}</strong></span>"
        for name, value in run.parameters.items()
        if value != before[name]
    ]
    what = f"<span>You changed, from profile {run.near}</span>"
    return f'<div class="ab-banner ab-custom" role="note">{what} {" ".join(values)}</div>'


def _here(key):
    """HTML of a key number of ours, with its interval where it has one."""
    if not key.interval:
        return number(key.here) or "–"
    here, low, high = measured(key.here, key.interval)
    return f"{here} <small>({low} to {high})</small>"


def duration(seconds):
    """Seconds as a reader takes them in: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 0.5 else "under 1 s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _value(value):
    return f"<code>{html.escape(parameters.written(value))}</code>"


def _data_origin(record):
    made_from = [record[field] for field in results.DATASETS.values() if record.get(field)]
    return ", ".join(f"{data['name']} {data['sha256'][:12]}" for data in made_from) or "generated"


def _vector_figures():
    from IPython import get_ipython
    from matplotlib.figure import Figure
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    set_matplotlib_formats("svg")
    formatters = get_ipython().display_formatter.formatters
    formatters["image/svg+xml"].for_type(Figure, style.svg)
