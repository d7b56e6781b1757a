"""What every published page keeps to: its finding fits its verdicts, few statements, all of them tested."""

import re
from functools import cache

import pytest

from companion import findings
from companion.claims import NOT_JUDGED, NOT_RUN
from companion.judging import judge
from companion.runs import notebooks
from companion.runs.run import most_faithful
from companion.statements import judged

BOOKS = notebooks.every()
MOST, OURS = 8, 2  # statements of a page, and those of them that are ours
WORDS = 60  # of a finding with its caveat


@cache
def stored(name):
    return most_faithful(notebooks.find(name)) or pytest.skip("nothing is stored")


@pytest.fixture(params=BOOKS, ids=lambda book: book.name)
def book(request):
    return request.param


def test_the_finding_fits_and_nothing_is_untested(book):
    judged = judge(stored(book.name))
    assert findings.differing(book.front["stands_on"], judged.claims) == []
    assert judged.finding.fits and len(f"{judged.finding.text} {judged.finding.caveat}".split()) <= WORDS
    assert not re.match("We do not|Whether|It is open", judged.finding.text)
    assert {claim.id for claim in judged.claims if claim.outcome in (NOT_JUDGED, NOT_RUN)} == set()
    assert 1 <= len(judged.key_numbers) == len(book.front["key_numbers"]) <= 3


def test_there_are_few_statements(book):
    statements = book.reading.STATEMENTS
    assert len(statements) <= MOST
    assert sum(bool(statement.ours) for statement in statements) <= OURS


def test_of_no_rows_nothing_is_said(book):
    run = stored(book.name)
    nothing = run.table.iloc[:0][["unit"]]
    claims = judged(book.reading.STATEMENTS, nothing, run.parameters, book.parts)
    assert {claim.outcome for claim in claims} == {NOT_RUN}
    numbers = [
        n for one in getattr(book.reading, "NUMBERS", ()) for n in one.measured(nothing, run.parameters)
    ]
    assert all(number.measured is None for number in numbers)
    assert not findings.of(book.front, claims, numbers).fits
