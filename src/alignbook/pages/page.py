"""A notebook's page: validated parameters, results, and the parts that every page shows."""

import html
import inspect
import json
import re
import types
from collections import Counter
from dataclasses import asdict, replace
from functools import cache

from IPython.display import HTML, display

from alignbook import paths
from alignbook.claims import NOT_JUDGED, OUTCOMES
from alignbook.errors import AlignbookError
from alignbook.pages import share, style
from alignbook.pages.names import spoken
from alignbook.pages.tables import badge, folded, lettered_prose, marked, measured, number, table, typeset
from alignbook.runs import engine, notebooks, parameters, plans, results
from alignbook.statements import condition
from alignbook.wording import listed

SAID = "alignbook"  # of a page's first output: the metadata that other pages are made from
FEW = 4  # replicates, up to which a verdict's first line names the one that differs
SHORT = 36  # letters of that name, at most
UNFOLDED = 12  # replicates of the headline's statement that stand open, at most
# Where a claim's sources part: not within brackets, nor between the numbers of figures.
_SOURCES = re.compile(r", (?![^()]*\)|\d)")
_CODE = re.compile(r"`([^`]+)`")
OURS = ' <small class="ab-ours">by our own criterion</small>'
_KERNEL_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython", "Page", "page", "papermill"}
NEW_SEEDS = (
    '<p class="ab-note">These numbers rest on the new seeds alone, as the verdicts do; figures and tables '
    "show all runs.</p>"
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

    def key_numbers(self):
        """The numbers beside the figure, at most three, with the paper's, if any, where it prints them."""
        rows = []
        for key in self.run.key_numbers:
            row = {"Number": marked(key.what), "Paper": number(key.paper) or "not stated"}
            if self.notebook.paper == notebooks.OWN:
                del row["Paper"]
            rows.append({**row, "Here": number(key.here) or "–"})
        judged = len(self.run.judged_table) < len(self.table)
        return HTML(table(rows, "key") + NEW_SEEDS * judged)

    def claims(self):
        """The paper's claims and their outcomes, the headline first; replicates of a statement unfold."""
        return HTML(claims_table(self.run.claims))

    def planned(self):
        """What complete plans decide whose values this page does not show; nothing where there are none."""
        parts = []
        for plan in plans.of(self.notebook.name) if self.run.near != "smoke" else ():
            run = plan.values != self.run.parameters and engine.load_values(self.notebook, plan.values)
            if run:
                values = ", ".join(f"{name} = {_value(value)}" for name, value in plan.changed.items())
                claims = [replace(claim, headline=False) for claim in run.claims if claim.id in plan.decides]
                rows = list(map(_claim_row, sorted(claims, key=lambda claim: claim.outcome == NOT_JUDGED)))
                for row in rows:
                    del row["id"]  # the page's own claim has it
                parts.append(f"<p>With {values}:</p>{table(_filled(rows), 'claims')}")
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
def address_of(chapter):
    """Where the paper that a chapter cites first can be read, by the bibliography; None where nothing is."""
    from pybtex.database import parse_file  # here: only a page's first lines ask

    landing = paths.root() / "book" / "chapters" / f"{chapter}.md"
    if not landing.exists():
        return None
    cited = re.search(r"\{cite:t\}`(\w+)`", landing.read_text(encoding="utf-8"))
    entries = parse_file(str(paths.root() / "book" / "bibliography.bib")).entries
    return entries[cited[1]].fields.get("url") if cited else None


def head(run):
    """HTML of a page's first lines: what it shows, what the paper claims, what was found, the verdict."""
    notebook = notebooks.find(run.name)
    target = f"#claim-{html.escape(run.headline.id)}"
    verdict, word = f'<a class="ab-verdict" href="{target}">{verdicts(run)}</a>', says(notebook.paper)
    if address := address_of(notebook.paper):
        word = word.replace("The paper", f'<a href="{html.escape(address)}">The paper</a>')
    return (
        f"{banner(run)}"
        f'<p class="ab-claim"><span class="ab-word">{word}</span> {marked(notebook.claim)}</p>'
        f'<p class="ab-finding"><span class="ab-word">We find</span> {marked(run.finding)} {verdict}</p>'
    )


def verdicts(run):
    """HTML of the outcome of the headline, or of all replicates of its statement."""
    _, group = grouped(run.claims)[0]
    return spread(group)


def spread(group):
    """HTML of the outcome of ``group``, claims of one statement, and of which where they differ."""
    parts = []
    for outcome in OUTCOMES:
        those = [claim for claim in group if claim.outcome == outcome]
        if those:
            parts.append(badge(outcome) + _of_which(those, group) * (len(those) < len(group)))
    return ", ".join(parts) + OURS * all(claim.ours for claim in group)


def _of_which(those, group):
    """HTML that tells ``those`` from the others of ``group``: the label of a single one, else how many."""
    case = those[0].case
    if len(those) == 1 and case and len(group) <= FEW and len(case) <= SHORT:
        return f" <small>({marked(case)})</small>"
    return f"&nbsp;on&nbsp;{len(those)}"


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
        others = {n: v for n, v in run.parameters.items() if n.endswith("_seeds") and v > count}
        more = "".join(f" ({name.removesuffix('_seeds')}: {value})" for name, value in others.items())
        facts.insert(1, f"{count} seed{'s' * (count != 1)}{more}")
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


def claim_cells(claim):
    """{column: HTML} of a claim: what it says, the paper's value, ours with its interval."""
    here = number(claim.measured)
    if claim.interval and claim.measured is not None:
        here, low, high = measured(claim.measured, claim.interval, [claim.against])
        here += f"<br><small>{low} to {high}</small>"
    paper = number(claim.paper)
    here += f" <small>{marked(claim.unit)}</small>" * bool(here and claim.unit)
    if claim.tolerance is not None:
        paper += f"<br><small>our margin {number(claim.tolerance)}</small>"
    statement = f"{marked(claim.statement)} <small>({marked(claim.source)})</small>"
    return {"Claim": statement + "".join(_notes(claim)), "Paper": paper, "Here": here}


def by_which_rule(claim):
    """HTML: how the verdict was reached, unless it is a condition, which stands below the claim."""
    if claim.test in map(condition, claim.requires):
        return ""
    return f"<br><small>{marked(claim.test)}</small>"


def _notes(claim):
    """HTML of what a reader must know before trusting a verdict, a line each."""
    for need in claim.requires:
        yield f"<br><small>Condition: {marked(condition(need))}</small>"
    if claim.opposed_by:
        yield f"<br><small>The paper also says the opposite: {marked(claim.opposed_by)}</small>"
    if claim.post_hoc:
        yield f"<br><small>Post hoc: {marked(claim.post_hoc)}</small>"
    if claim.needed:
        yield f"<br><small>{marked(decides(claim))}</small>"


def decides(claim):
    """What would decide an undecided ``claim``, one sentence."""
    need = claim.needed
    if need["seeds"] is None:
        return f"No number of {claim.what}s is planned: {need['why']}."
    hours = need.get("core_hours")
    cost = f", {hours:{'.1f' if hours >= 1 else '.2g'}} core hours" if hours else ""
    return f"{need['seeds']} new {claim.what}s would decide it{cost} ({need['why']})."


def claims_table(claims):
    """HTML of a table of ``claims``: the headline first, claims of one group in a row that unfolds."""
    rows = []
    for statement, group in grouped(claims):
        if len(group) == 1:
            rows.append(_claim_row(group[0]))
            continue
        inner = table(_filled([_claim_row(claim) for claim in group]), "claims")
        source = ", ".join(sources(group))
        unfolded = len(group) <= UNFOLDED and any(claim.headline for claim in group)
        rows.append(
            {
                "Claim": f"{marked(statement)} <small>({marked(source)})</small>",
                "Paper": "",
                "Here": "",
                "Outcome": tally(group),
                "below": folded(f"{len(group)} replicates", inner, open=unfolded),
            }
        )
    return table(_filled(rows), "claims")


def _filled(rows):
    """``rows`` of claims without the columns of numbers that are empty in all of them."""
    empty = [name for name in ("Paper", "Here") if not any(row[name] for row in rows)]
    return [{name: cell for name, cell in row.items() if name not in empty} for row in rows]


def sources(claims):
    """Where in the paper ``claims`` stand, each place once, in their order."""
    return list(dict.fromkeys(place for claim in claims for place in _SOURCES.split(claim.source)))


def grouped(claims):
    """(statement, its claims) of each statement, the headline's first, otherwise in their order."""
    groups = {}
    for claim in claims:
        groups.setdefault(claim.group or claim.id, []).append(claim)
    ordered = sorted(groups.values(), key=lambda group: not any(claim.headline for claim in group))
    return [(group[0].group or group[0].statement, group) for group in ordered]


def tally(group):
    """HTML of the outcomes of claims of one statement, each with how many have it where there are several."""
    counts = Counter(claim.outcome for claim in group)
    several = len(group) > 1
    # A span each, so that on phones, where cells are flex boxes, a count stays with its outcome.
    signs = {outcome: badge(outcome) for outcome in OUTCOMES if counts[outcome]}
    parts = [f"<span>{counts[o]}&nbsp;{sign}</span>" if several else sign for o, sign in signs.items()]
    return "<br>".join(parts) + OURS * all(claim.ours for claim in group)


def _claim_row(claim):
    outcome = f"{badge(claim.outcome)}{OURS * claim.ours}{by_which_rule(claim)}"
    cells = claim_cells(claim)
    if claim.headline:
        cells["Claim"] = f'<span class="ab-headline">Headline</span> {cells["Claim"]}'
    return {"id": f"claim-{claim.id}", **cells, "Outcome": outcome}


def _value(value):
    return f"<code>{html.escape(parameters.written(value))}</code>"


def _data_origin(record):
    made_from = [record[field] for field in results.DATASETS.values() if record.get(field)]
    return ", ".join(f"{data['name']} {data['sha256'][:12]}" for data in made_from) or "generated"


def _state(run, total):
    if not run.stale:
        borrowed = sum(item.borrowed() for item in run.shown)
        part = "all" if borrowed == total else "some"
        smaller = f" ({part} runs by earlier code, checked on smaller runs)"
        return "up to date" + smaller * (borrowed > 0)
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
