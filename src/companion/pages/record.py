"""What other pages say of a notebook's page; kept beside the executed notebook."""

import hashlib
import json
from dataclasses import asdict, dataclass

from companion import findings
from companion.claims import Claim
from companion.findings import Finding
from companion.pages.page import SAID
from companion.runs import notebooks

_SVG = "image/svg+xml"


@dataclass(frozen=True)
class Record:
    """A page at a glance. Everything is JSON.

    name, title, statement : the notebook's name, its first heading, what the paper claims
    label, subject : its number in the paper, ``Maennel Fig. 2``, and what it asks or shows
    profile, shown_profile : of the results, the second in words
    finding : findings.Finding; claims : list of Claim
    figure : the first figure, {"file": its name in the built book, "alt": str}, or None
    seeds, runs, stale, diverged : counts (``seeds`` None without randomness)
    computing, rendering : seconds of the stored runs and of executing the notebook
    devices : names of what computed the runs
    """

    name: str
    title: str
    label: str
    subject: str
    statement: str
    profile: str
    shown_profile: str
    finding: Finding
    claims: list
    figure: dict | None
    seeds: int | None
    runs: int
    stale: int
    diverged: int
    computing: float
    rendering: float
    devices: list

    @property
    def paper(self):
        return self.name.split("/")[0]

    @property
    def slug(self):
        return self.name.split("/")[1]

    @property
    def headline(self):
        """The claims of the headline's statement: one, or its replicates."""
        return findings.headline(self.claims)

    def of_statement(self, statement):
        """The claims of the statement called ``statement``: one, its replicates, or none."""
        known = {each.id for each in notebooks.find(self.name).reading.STATEMENTS}

        def owner(claim):
            fits = [name for name in known if claim.id == name or claim.id.startswith(f"{name}-")]
            return max(fits, key=len, default=None)

        return [claim for claim in self.claims if owner(claim) == statement]

    def written(self):
        """The record as JSON text, of which :func:`read` makes it again."""
        return json.dumps(asdict(self), indent=1)


def of(run, executed, rendering):
    """The :class:`Record` of a run and the notebook (a Path) that shows it."""
    notebook = notebooks.find(run.name)
    page = json.loads(executed.read_text(encoding="utf-8"))
    said = _said(page)  # judged by the page itself: judging takes longer than reading
    provenances = [item.provenance for item in run.shown]
    return Record(
        name=run.name,
        title=notebook.title,
        label=notebook.label,
        subject=notebook.subject,
        statement=notebook.claim,
        profile=run.profile,
        shown_profile=run.shown_profile,
        finding=Finding(**said["finding"]),
        claims=[_claim(**claim) for claim in said["claims"]],
        figure=_first_figure(page),
        seeds=run.parameters.get("seeds"),
        runs=len(provenances),
        stale=len(run.stale),
        diverged=len(run.diverged),
        computing=sum(provenance["wall_time_s"] for provenance in provenances),
        rendering=round(rendering, 1),
        devices=sorted({provenance["device"] for provenance in provenances}),
    )


def read(text):
    """The :class:`Record` of JSON ``text``; ValueError, KeyError or TypeError where it is none."""
    values = json.loads(text)
    claims = [_claim(**claim) for claim in values.pop("claims")]
    finding = Finding(**values.pop("finding"))
    return Record(**values, finding=finding, claims=claims)


def _claim(*, interval, **fields):
    interval = None if interval is None else tuple(interval)
    return Claim(**fields, interval=interval)


def _outputs(notebook):
    return ((cell, output) for cell in notebook["cells"] for output in cell.get("outputs", ()))


def _said(notebook):
    """What :class:`companion.pages.page.Page` says of itself beside its first output."""
    said = (output.get("metadata", {}).get(SAID) for _, output in _outputs(notebook))
    return json.loads(next(filter(None, said)))


def _first_figure(notebook):
    for cell, output in _outputs(notebook):
        svg = output.get("data", {}).get(_SVG)
        if svg:
            svg = "\n".join("".join(svg).splitlines())  # MyST-NB names the file of an output by this
            image = cell["metadata"].get("mystnb", {}).get("image", {})
            digest = hashlib.sha256(svg.encode()).hexdigest()
            return {"file": f"{digest}.svg", "alt": image.get("alt", "")}
    return None
