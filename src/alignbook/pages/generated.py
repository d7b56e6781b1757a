"""Generated pages: scorecard, execution status, benchmarks, and each experiment's code."""

import html
import inspect
import json
import re
from collections import Counter

from alignbook import claims, paths
from alignbook.pages import bench_page, page, tables

PAPERS = {
    "random_labels": "What do neural networks learn when trained with random labels?",
    "representation_alignment": "Representation alignment in neural networks",
    "signal_propagation": "Feature learning and signal propagation in deep neural networks",
    "transferability": "Towards understanding the transferability of deep representations",
}


def write(books, runs, seconds, pages):
    """Write the scorecard, the execution status, the benchmarks and the code pages into the folder ``pages``.

    books : list of Notebook; runs : {name: engine.Run}; seconds : {name: rendering time}
    """
    decided = {book.name: runs[book.name].claims for book in books}
    (pages / "outcomes.txt").write_text(_outcomes(books, decided), encoding="utf-8")
    (pages / "scorecard.md").write_text(_scorecard(books, runs, decided), encoding="utf-8")
    (pages / "status.md").write_text(_status(books, runs, seconds), encoding="utf-8")
    bench_page.write(pages)
    if all(run.profile != "smoke" for run in runs.values()):  # where nothing is judged
        with (pages / "benchmarks.md").open("a", encoding="utf-8") as benchmarks:
            benchmarks.write(_before(books, runs, decided))
    code = pages / "code"
    links = "".join(f"- [{book.name}](/code/{book.name})\n" for book in books)
    (code / "pages.txt").write_text(links, encoding="utf-8")
    for book in books:
        path = code / f"{book.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_code_page(book), encoding="utf-8")


def _papers(books):
    """(title, its notebooks) of each paper that has any."""
    grouped = [(title, [book for book in books if book.paper == paper]) for paper, title in PAPERS.items()]
    return [(title, group) for title, group in grouped if group]


def _counts(group, decided):
    return Counter(claim.outcome for book in group for claim in decided[book.name])


def _listed(counts):
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in claims.OUTCOMES if counts[outcome])


def _outcomes(books, decided):
    """The introduction's table: how many claims of each paper came out how."""
    rows = []
    for title, group in _papers(books):
        counts = _counts(group, decided)
        rows.append({"Paper": html.escape(title)} | {tables.badge(o): counts[o] for o in claims.OUTCOMES})
    return tables.table(rows, "outcomes") + "\n"


def _scorecard(books, runs, decided):
    total = _counts(books, decided)
    parts = [
        "# Scorecard",
        "",
        f"{sum(total.values())} claims: {_listed(total)}. A test on the seeds decides each outcome, or a",
        "margin where nothing is random, by a rule that the page of the claim shows; where one was changed",
        "after a first look at results, the page says so. A claim that disagrees is a finding; what it means",
        "stands on its page. Where a claim says that one thing exceeds another, *here* is the difference,",
        "positive where the claim is right; where it says that two are the same, the difference, near 0",
        "where it is right; where it says “over half” or “most”, the share, to be above 0.5; with its 95 %",
        "interval. *Not run* is also what was measured where it cannot decide.",
        "",
    ]
    for title, group in _papers(books):
        line = _listed(_counts(group, decided))
        rows = [_score_row(book, runs[book.name], c) for book in group for c in decided[book.name]]
        parts += [f"## {title}", "", line + ".", "", tables.table(rows, "score"), ""]
    return "\n".join(parts)


def _short(book):
    return html.escape(re.sub(r":.*", "", book.title))


def _score_row(book, run, claim):
    return {
        **page.claim_cells(claim),
        "Outcome": tables.badge(claim.outcome),
        "Page": f'<a href="{book.name}.html#claim-{html.escape(claim.id)}">{_short(book)}</a>',
        "Profile": run.shown_profile,
    }


def _before(books, runs, decided):
    """Outcomes by ``alignbook claims --json`` at the last commit before the kernels, and now."""
    path = paths.root() / "benchmarks" / "claims-before.json"
    if not path.is_file():
        return ""
    before = json.loads(path.read_text(encoding="utf-8"))
    pairs = [
        (before["outcomes"][f"{book.name}#{claim.id}"], book, claim)
        for book in books
        for claim in decided[book.name]
        if f"{book.name}#{claim.id}" in before["outcomes"]
    ]
    rows = [
        {
            "Claim": f"{tables.marked(claim.statement)} <small>({_short(book)})</small>",
            "Before": f"{tables.badge(outcome)}<br><small>{before['profiles'][book.name]}</small>",
            "Now": f"{tables.badge(claim.outcome)}<br><small>{runs[book.name].shown_profile}</small>",
            "How it is judged now": html.escape(claim.test),
        }
        for outcome, book, claim in pairs
        if outcome != claim.outcome
    ]
    parts = [
        "",
        "## The claims, before and after",
        "",
        f"Commit {before['commit']} is the last one before the kernels. Its own rules judged its results:",
        f"{len(before['outcomes'])} claims, of which {len(pairs)} are still asked. Of these,",
        f"{len(pairs) - len(rows)} have the same outcome on the results that are stored now, which the",
        "kernels computed. For the others networks have been added, or the rule has changed, which the page",
        "of the claim says:",
        "",
        tables.table(rows, "before"),
        "",
    ]
    return "\n".join(parts)


def _status(books, runs, seconds):
    rows = [_status_row(book, runs[book.name], seconds[book.name]) for book in books]
    return "\n".join(
        [
            "# Execution status",
            "",
            "What each page shows, what computed it and how long that took. *Computing* adds up the stored",
            "runs, each on one thread; *rendering* is the execution of the notebook from the stored results.",
            "",
            tables.table(rows, "status"),
            "",
        ]
    )


def _status_row(book, run, seconds):
    records = [item.provenance for item in run.shown]
    stale = run.stale
    return {
        "Notebook": f'<a href="{book.name}.html">{html.escape(book.title)}</a>',
        "Profile": run.shown_profile,
        "State": f"{len(stale)} of {len(records)} stale" if stale else "fresh",
        "Seeds": run.parameters.get("seeds", ""),
        "Runs": len(records),
        "Diverged": len(run.diverged),
        "Computing": page.duration(sum(record["wall_time_s"] for record in records)),
        "Rendering": f"{seconds:.1f} s",
        "Device": html.escape(", ".join(sorted({record["device"] for record in records}))),
    }


def _code_page(book):
    """The experiment's module as a page with a heading per function."""
    module = book.experiment
    source = inspect.getsource(module).splitlines()
    names = page.functions_of(module)
    starts = [page.first_line(getattr(module, name)) - 1 for name in names]
    parts = [
        f"# Code: {book.name}",
        "",
        f"`src/alignbook/experiments/{book.name}.py`, which computes the page [{book.title}](/{book.name}).",
        "",
        "```python",
        *source[: starts[0]],
        "```",
    ]
    for number, (name, start) in enumerate(zip(names, starts, strict=True)):
        end = starts[number + 1] if number + 1 < len(starts) else len(source)
        body = "\n".join(source[start:end]).rstrip().splitlines()
        parts += ["", f"## `{name}`", "", "```python", *body, "```"]
    return "\n".join(parts) + "\n"
