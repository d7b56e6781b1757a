"""Generated pages: chapters, findings, scorecard, execution status, reference, and prose pages' own."""

import html
import importlib
import json
import re

from alignbook import paths
from companion.pages import chapter, glance, page, reference, scorecard, tables
from companion.pages.names import spoken
from companion.runs import notebooks

PAPERS = {  # chapters, by their folder
    "random_labels": "What do neural networks learn when trained with random labels?",
    "representation_alignment": "Representation alignment in neural networks",
    "signal_propagation": "Feature learning and signal propagation in deep neural networks",
    "transferability": "Towards understanding the transferability of deep representations",
    notebooks.OWN: "Synthesis: the four papers' instruments together",
}


def write(books, records, pages):
    """Write the pages that no one types, and that show what the studies found, into the folder ``pages``.

    books : list of Notebook, in the order of the book; records : {name: Record}
    """
    ordered = [records[book.name] for book in books]
    (pages / "home.txt").write_text(chapter.home(PAPERS, ordered), encoding="utf-8")
    (pages / "findings.md").write_text(glance.all_findings(PAPERS, ordered), encoding="utf-8")
    (pages / "scorecard.md").write_text(scorecard.write(PAPERS, ordered), encoding="utf-8")
    (pages / "status.md").write_text(_status(ordered), encoding="utf-8")
    for paper in PAPERS:
        group = [record for record in ordered if record.paper == paper]
        if group:
            text = (pages / "chapters" / f"{paper}.md").read_text(encoding="utf-8")
            text = chapter.write(paper, text, group)
            (pages / paper / "index.md").write_text(text, encoding="utf-8")
    findings = {record.name: spoken(record.finding.text) for record in ordered}
    (pages / "shown.json").write_text(json.dumps(findings), encoding="utf-8")

    for prose in sorted((paths.root() / "book").glob("*.md")):
        if prose.with_suffix(".py").is_file():
            importlib.import_module(f"companion.prose.{prose.stem}").write(pages)
    reference.write(pages)


def _status(records):
    return "\n".join(
        [
            "# Execution status",
            "",
            "What each page shows, the processors that computed it and how long that took. *Computing* adds",
            "up the stored runs, each on one thread unless more are named; one run can hold several seeds,",
            "and one seed can take several runs. *Seeds* is the parameter of that name, and a dash stands",
            "for a study that has none. *Diverged* counts runs whose training loss stopped being finite;",
            "they are left out of all numbers. A processor without family and model is one whose runs were",
            "stored without them. [](reading) explains profile and state.",
            "",
            tables.table([_status_row(record) for record in records], "status"),
            "",
        ]
    )


def _status_row(record):
    return {
        "Notebook": f'<a href="{record.name}.html">{html.escape(record.title)}</a>'
        f"<br><small>{html.escape(_devices(record.devices))}</small>",
        "Profile": record.shown_profile,
        "State": f"{record.stale} of {record.runs} stale" if record.stale else "up to date",
        "Seeds": "–" if record.seeds is None else record.seeds,
        "Runs": record.runs,
        "Diverged": record.diverged,
        "Computing": page.duration(record.computing),
    }


def _devices(names):
    """The ``names`` of processors without what is the same for nearly all."""
    return "; ".join(re.sub(r"\(R\)| Processor\b|, 1 thread$", "", name) for name in names)
