"""What every study keeps to: its jobs, the bits of its smoke run, what its statements say of odd tables."""

import ast
import inspect
import json
import re
from collections.abc import Mapping

import pytest

from companion import findings
from companion.claims import NOT_RUN, OPEN
from companion.runs import notebooks, parameters, results
from companion.statements import judged
from tests import judging

BOOKS = notebooks.every()[::-1]  # the book, built meanwhile, computes the same from the other end
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # toy networks may have learned nothing


@pytest.fixture(params=BOOKS, ids=lambda book: book.name)
def book(request):
    return request.param


@pytest.fixture
def claims(book, smoke):
    """claims(table): of the statements, on the parameters of the smoke run."""
    values = smoke(book.name).parameters
    return lambda table: judged(book.reading.STATEMENTS, table, values)


def numbers(book, table, values):
    return [n for one in getattr(book.reading, "NUMBERS", ()) for n in one.measured(table, values)]


@pytest.mark.parametrize("profile", parameters.PROFILES)
def test_jobs_have_names_of_their_own_and_arguments_that_are_json(book, profile):
    jobs = book.experiment.jobs(parameters.resolve(book, profile))
    names = [job.name for job in jobs]
    assert jobs and len({*names}) == len(names) and all(re.fullmatch(r"[\w.-]+", name) for name in names)
    for job in jobs:
        assert json.loads(json.dumps(job.arguments, allow_nan=False)) == job.arguments
        inspect.signature(job.compute).bind(**job.arguments, device="cpu", report=None)


class Watched(Mapping):
    """Parameters that note which of them are asked for."""

    def __init__(self, values, asked):
        self.parameters, self.asked = values, asked

    def __getitem__(self, name):
        self.asked.add(name)
        return self.parameters[name]

    def __iter__(self):
        return iter(self.parameters)

    def __len__(self):
        return len(self.parameters)

    def __or__(self, other):
        return Watched(self.parameters | other, self.asked)

    def __ror__(self, other):
        return Watched(other | self.parameters, self.asked)


def test_every_parameter_is_used(book, smoke):
    """By the jobs at some profile, a statement, a number, or a cell of the page."""
    asked, run = set(), smoke(book.name)
    for profile in parameters.PROFILES:
        book.experiment.jobs(Watched(parameters.resolve(book, profile), asked))
    watched = Watched(run.parameters, asked)
    judged(book.reading.STATEMENTS, run.table, watched)
    numbers(book, run.table, watched)
    for cell in notebooks.cells(book):
        nodes = list(ast.walk(ast.parse(cell)))
        asked |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        asked |= {
            node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    assert set(run.parameters) <= asked


def test_a_smoke_run_has_the_columns_that_the_headline_asks_for(book, smoke):
    run = smoke(book.name)
    assert all(len(item.table) for item in run.stored)
    (headline,) = (statement for statement in book.reading.STATEMENTS if statement.headline)
    case = headline.each(run.parameters)[0].given if headline.each else {}
    headline.of(run.table, run.parameters, **case)  # a column that is missing is a KeyError


def test_the_same_job_gives_the_same_bits(book, smoke, monkeypatch, tmp_path):
    """Those of the smoke run, without any network that it kept."""
    cheapest = min(smoke(book.name).stored, key=lambda item: item.cost)
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path))
    shares = []
    table = judging.compute(cheapest.job, report=lambda share, text="": shares.append(share))
    assert results.written(table) == results.written(cheapest.table)
    assert all(0 <= share <= 1 + 1e-9 for share in shares)


def test_where_everything_diverged_nothing_is_said(book, smoke, claims):
    found = claims(judging.NOTHING)
    assert {claim.outcome for claim in found} == {NOT_RUN}
    measured = numbers(book, judging.NOTHING, smoke(book.name).parameters)
    assert all(number.measured is None for number in measured)
    assert not findings.of(book.front, found, measured).fits


TOGETHER = {
    "random_labels/fig03_filters",  # its eigenvectors are those of the filters of many runs
    "transferability/tab01_weight_deviation",  # some statements are judged by what another study has stored
}


def test_one_seed_decides_nothing(book, smoke, claims):
    if book.name in TOGETHER:
        pytest.skip("its statements are not about the seeds of its smoke run")
    table = smoke(book.name).table
    exactly = {statement.id for statement in book.reading.STATEMENTS if statement.exactly is not None}
    for claim in claims(table[table["seed"] == table["seed"].min()]):
        by_seed = claim.what == "seed" and not any(claim.id.startswith(id) for id in exactly)
        assert not by_seed or claim.outcome in (OPEN, NOT_RUN), claim.id


@pytest.mark.slow
def test_a_table_without_a_column_or_some_jobs_is_judged(book, smoke, claims):
    table = smoke(book.name).table
    for column in table.columns:
        claims(table.drop(columns=column))
    units = table["unit"].unique()
    for some in (units[::2], units[1::2], units[:1], units[-1:]):
        claims(table[table["unit"].isin(some)])
