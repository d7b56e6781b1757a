"""How long every study's finding gets on its stored results, under the verdicts that make it longest."""

from dataclasses import replace

import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.runs import engine, notebooks

STUDIES = [book for book in notebooks.every() if book.name.startswith(("transferability/", "synthesis/"))]
ALIKE = [(one,) for one in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)]
MIXED = [
    (HOLDS, CONTRADICTED, NOT_JUDGED), (CONTRADICTED, UNDECIDED, NOT_JUDGED), (ABSENT, UNDECIDED, NOT_JUDGED),
    (UNDECIDED, NOT_JUDGED), (NOT_JUDGED, HOLDS),
]  # fmt: skip


def longest(run):
    """The longest finding over verdicts on all replicates of a statement, one statement after the other."""
    reading, table = notebooks.find(run.name).reading, run.judged_table
    claims, groups = {claim.id: claim for claim in run.claims}, {}
    for claim in run.claims:
        if claim.measured is not None:
            groups.setdefault(claim.group or claim.id, []).append(claim.id)

    def said(turned):
        return reading.finding(table, run.parameters, turned)

    for ids in groups.values():
        turns = [
            claims | {id: replace(claims[id], outcome=mix[n % len(mix)]) for n, id in enumerate(ids)}
            for mix in ALIKE + MIXED * (len(ids) > 1)
        ]
        if len({said(turned) for turned in turns[: len(ALIKE)]}) > 1:
            claims = max(turns, key=lambda turned: len(said(turned)))
    return said(claims)


@pytest.mark.parametrize("study", STUDIES, ids=[book.name for book in STUDIES])
def test_a_finding_is_short_under_every_verdict(study):
    text = longest(engine.most_faithful(study))
    assert len(text) <= 300, f"{len(text)}: {text}"
