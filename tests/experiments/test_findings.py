"""What every published page keeps to: its finding fits its verdicts, few statements, all of them tested."""

import re

import pytest

from companion import findings
from companion.claims import NOT_JUDGED, NOT_RUN
from companion.judging import judge
from companion.runs import notebooks, results
from companion.runs.run import most_faithful

BOOKS = notebooks.every()
MOST, OURS = 8, 2  # statements of a page, and those of them that are ours
WORDS = 60  # of a finding with its caveat
# What a page says of its data where they are not all of the paper's.
LACKING = {"ct_slices": "only slices of two patients"}


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_a_published_page(book):
    """One test a study: its stored results are loaded and judged once."""
    run = most_faithful(book) or pytest.skip("nothing is stored")
    judged, statements = judge(run), book.reading.STATEMENTS
    assert len(statements) <= MOST and sum(bool(statement.ours) for statement in statements) <= OURS
    assert findings.differing(book.front["stands_on"], judged.claims) == []
    assert judged.finding.fits and len(f"{judged.finding.text} {judged.finding.caveat}".split()) <= WORDS
    assert not re.match("We do not|Whether|It is open", judged.finding.text)
    assert {claim.id for claim in judged.claims if claim.outcome in (NOT_JUDGED, NOT_RUN)} == set()
    assert 1 <= len(judged.key_numbers) == len(book.front["key_numbers"]) <= 3
    stored = {name for item in run.stored for name in results.datasets(item.job).values()}
    assert all(lacks in book.front["data"] for name, lacks in LACKING.items() if name in stored)
