"""Judge a study's results: its table and parameters in; claims, numbers, finding and key numbers out.

Its page shows what is :class:`Judged`; other pages, and commands, take a :class:`Record` of it.
"""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

from alignbook import paths, system
from alignbook.errors import AlignbookError
from companion import findings
from companion.claims import Claim, KeyNumber, needed
from companion.over_seeds import SEED
from companion.runs import notebooks, plans, results
from companion.runs.pool import WORKER_ENVIRONMENT
from companion.runs.run import Run, in_one_line, load, load_values, most_faithful
from companion.statements import judged

A_WORKER = 8  # studies that are worth a process of their own


@dataclass(frozen=True)
class Judged:
    """What a study's results say."""

    claims: list[Claim]  # the paper's, with their outcomes
    numbers: list[Claim]  # what the page reports without a verdict
    finding: findings.Finding
    key_numbers: list[KeyNumber]  # at most three, ours beside the paper's

    @property
    def headline(self) -> Claim:
        """The claim that the study exists for."""
        return next(claim for claim in self.claims if claim.headline)


def judge(run: Run) -> Judged:
    """What the results of ``run`` say. AlignbookError, one line, where the study's reading fails on them."""
    notebook, claims = notebooks.find(run.name), claims_of(run)
    with _in_one_line(run, "numbers"):
        listed = getattr(notebook.reading, "NUMBERS", ())
        numbers = [number for one in listed for number in one.measured(run.table, run.parameters)]
    with _in_one_line(run, "finding"):
        finding = findings.of(notebook.front, claims, numbers)
    with _in_one_line(run, "key numbers"):
        key_numbers = findings.key_numbers(notebook.front, claims, numbers)
    return Judged(claims, numbers, finding, key_numbers)


def claims_of(run: Run) -> list[Claim]:
    """The paper's claims, decided on the results of ``run``; at profile smoke and near it, none is."""
    notebook = notebooks.find(run.name)
    with _in_one_line(run, "claims"):
        try:
            claims = judged(
                notebook.reading.STATEMENTS, run.table, run.parameters, notebook.front.get("parts", {})
            )
        except AlignbookError as error:
            raise AlignbookError(f"{run.name}: {error}") from error
    if run.near == "smoke":
        return [claim.not_judged("profile smoke reproduces nothing") for claim in claims]
    claims = [replace(claim, needed=_needed(run, claim)) for claim in claims]
    planned = _judged_by_plans(run, notebook)
    return [
        replace(planned.get(claim.id, claim), headline=claim.headline, part=claim.part) for claim in claims
    ]


def _judged_by_plans(run, notebook):
    """{id: claim} of those that runs of a plan judge in place of a page's own, see :mod:`plans`."""
    claims = {}
    for plan in plans.of(run.name):
        wanted = set(plan.judges) - claims.keys()
        # A plan's own runs have no profile, so that this asks no further.
        nearer = (plan.profile, run.profile) == ("paper", "quick")
        if not wanted or not (nearer or plan.profile == run.profile) or plan.values == run.parameters:
            continue
        planned = load_values(notebook, plan.values)
        for claim in claims_of(planned) if planned else ():
            if claim.id in wanted:
                runs = f"profile {plan.profile}, {plan.differs}" if nearer else plan.differs
                claims[claim.id] = replace(claim, runs=runs)
    return claims


def _needed(run, claim):
    """What would decide an open ``claim``: how many more values, core hours as stored, and why."""
    need = needed(claim)
    if need is None or need["seeds"] is None:
        return need and need | {"core_hours": None}
    # Of a part of the page there may be more seeds than of the others.
    seeds = max(run.parameters.get("seeds", 0), claim.seeds) if claim.what == SEED else claim.seeds
    spent = sum(item.cost for item in run.joined or run.stored)  # on which verdicts rest
    return need | {"core_hours": round(need["seeds"] * spent / seeds / 3600, 2)}


@contextmanager
def _in_one_line(run, what):
    """The table may come from elsewhere, with the right digest and with text where numbers belong."""
    try:
        yield
    except Exception:
        folders = {results.location(item.job).parent for item in run.shown}
        with in_one_line(f"{run.name}: no {what} from {', '.join(map(paths.shown, sorted(folders)))}"):
            raise


@dataclass(frozen=True)
class Record:
    """A study at a glance. Everything is JSON."""

    name: str
    title: str
    label: str  # its number in the paper, Maennel Fig. 2
    profile: str
    shown_profile: str  # the same in words
    finding: findings.Finding
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


def record(run: Run) -> Record:
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
    names, task = list(names), partial(_stored, profile=profile)
    workers = min(system.cores(), len(names) // A_WORKER)
    if workers < 2:
        return {name: task(name) for name in names}
    with (
        system.environment(WORKER_ENVIRONMENT),
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        return dict(zip(names, pool.map(task, names), strict=True))


def _stored(name, profile):
    notebook = notebooks.find(name)
    try:
        run = load(notebook, profile) if profile else most_faithful(notebook)
        return run and record(run)
    except AlignbookError as error:
        return error
