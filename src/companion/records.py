"""What stored results say of each study, as data: judged once, for other pages and for commands."""

import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from alignbook import system
from alignbook.errors import AlignbookError
from companion import findings
from companion.claims import Claim
from companion.findings import Finding
from companion.judging import judge
from companion.runs import notebooks
from companion.runs.pool import WORKER_ENVIRONMENT
from companion.runs.run import Run, load, most_faithful

A_WORKER = 8  # studies that are worth a process of their own


@dataclass(frozen=True)
class Record:
    """A study at a glance. Everything is JSON.

    Attributes
    ----------
    name, title, statement : str
        The notebook's name, its first heading, what the paper claims.
    label, subject : str
        Its number in the paper, ``Maennel Fig. 2``, and what it asks or shows.
    profile, shown_profile : str
        Of the results, the second in words.
    finding : Finding
    claims : list of Claim
    seeds : int or None
        None without randomness.
    runs, stale, diverged : int
    computing : float
        Seconds of the stored runs.
    devices : list of str
        Names of what computed them.
    figure : dict or None
        The page's first figure, once it is drawn: ``file``, its name in the built book, and ``alt``.
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
    seeds: int | None
    runs: int
    stale: int
    diverged: int
    computing: float
    devices: list
    figure: dict | None = None

    @property
    def paper(self) -> str:
        return self.name.split("/")[0]

    @property
    def slug(self) -> str:
        return self.name.split("/")[1]

    @property
    def headline(self) -> list[Claim]:
        """The claims of the headline's statement: one, or its replicates."""
        return findings.headline(self.claims)

    def of_statement(self, statement: str) -> list[Claim]:
        """The claims of the statement called ``statement``: one, its replicates, or none."""
        ids = {each.id for each in notebooks.find(self.name).reading.STATEMENTS}

        def owner(claim):
            fits = [id for id in ids if claim.id == id or claim.id.startswith(f"{id}-")]
            return max(fits, key=len, default=None)

        return [claim for claim in self.claims if owner(claim) == statement]


def of(run: Run) -> Record:
    """The :class:`Record` of ``run``."""
    notebook, judged = notebooks.find(run.name), judge(run)
    provenances = [item.provenance for item in run.shown]
    return Record(
        name=run.name,
        title=notebook.title,
        label=notebook.label,
        subject=notebook.subject,
        statement=notebook.claim,
        profile=run.profile,
        shown_profile=run.shown_profile,
        finding=judged.finding,
        claims=judged.claims,
        seeds=run.parameters.get("seeds"),
        runs=len(provenances),
        stale=len(run.stale),
        diverged=len(run.diverged),
        computing=sum(provenance["wall_time_s"] for provenance in provenances),
        devices=sorted({provenance["device"] for provenance in provenances}),
    )


def stored(names: Iterable[str], profile: str | None = None) -> dict[str, Record | AlignbookError | None]:
    """What the stored results of each study say, judged side by side.

    Parameters
    ----------
    names : iterable of str
        Of notebooks.
    profile : str, optional
        By default the most faithful that is stored whole.

    Returns
    -------
    dict
        By name: the :class:`Record`, None where a result is missing, or the error of a broken study.
    """
    names, judge = list(names), partial(_stored, profile=profile)
    workers = min(system.cores(), len(names) // A_WORKER)
    if workers < 2:
        return {name: judge(name) for name in names}
    with (
        system.environment(WORKER_ENVIRONMENT),
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        return dict(zip(names, pool.map(judge, names), strict=True))


def _stored(name, profile):
    notebook = notebooks.find(name)
    try:
        run = load(notebook, profile) if profile else most_faithful(notebook)
        return run and of(run)
    except AlignbookError as error:
        return error


def write(records: Iterable[Record], path: Path) -> None:
    """Write ``records`` as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    system.replace(path, json.dumps([asdict(record) for record in records], indent=1).encode())
