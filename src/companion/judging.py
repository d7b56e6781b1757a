"""Judge a study's results: its table and parameters in; claims, numbers, finding and key numbers out."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

from alignbook import paths
from alignbook.errors import AlignbookError
from companion import findings
from companion.claims import Claim, KeyNumber, needed
from companion.over_seeds import SEED
from companion.runs import notebooks, plans, results
from companion.runs.run import Run, in_one_line, load_values
from companion.statements import judged


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
