"""What stored results say of each study, as data: judged once, for other pages and for commands."""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from alignbook import system
from alignbook.errors import AlignbookError
from companion.claims import Claim
from companion.findings import Finding
from companion.judging import judge
from companion.runs import notebooks
from companion.runs.pool import WORKER_ENVIRONMENT
from companion.runs.run import Run, load, most_faithful

A_WORKER = 8  # studies that are worth a process of their own


@dataclass(frozen=True)
class Record:
    """A study at a glance. Everything is JSON."""

    name: str
    title: str
    label: str  # its number in the paper, Maennel Fig. 2
    profile: str
    shown_profile: str  # the same in words
    finding: Finding
    claims: list
    seeds: int | None  # None without randomness
    runs: int
    stale: int
    diverged: int
    computing: float  # seconds of the stored runs
    devices: list  # names of what computed them
    figure: dict | None = None  # the page's first, once it is drawn: its file in the built book, and its alt

    @property
    def paper(self) -> str:
        return self.name.split("/")[0]

    @property
    def slug(self) -> str:
        return self.name.split("/")[1]

    def of_statement(self, statement: str) -> list[Claim]:
        """The claims of the statement called ``statement``: one, its replicates, or none."""
        known = notebooks.find(self.name).reading.STATEMENTS
        texts = {each.text for each in known if each.id == statement}
        return [claim for claim in self.claims if claim.id == statement or claim.group in texts]


def of(run: Run) -> Record:
    """The :class:`Record` of ``run``."""
    notebook, judged = notebooks.find(run.name), judge(run)
    provenances = [item.provenance for item in run.shown]
    return Record(
        name=run.name,
        title=notebook.title,
        label=notebook.label,
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
    """By its name the :class:`Record` of each study, None where a result is missing, or its error.

    Of ``profile``, by default the most faithful that is stored whole. Studies are judged side by side.
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
