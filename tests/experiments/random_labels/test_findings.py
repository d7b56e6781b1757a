"""What every study's finding says of its stored results, for each verdict that these could have had."""

import re
from dataclasses import replace

import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.runs import engine, notebooks

STUDIES = [book for book in notebooks.every() if book.name.startswith("random_labels/")]
SYMBOLS = re.compile(r"[σΣτλα_]|f\(")


@pytest.mark.parametrize("study", STUDIES, ids=[book.name for book in STUDIES])
def test_a_finding_has_words_for_every_verdict(study):
    run = engine.most_faithful(study)
    group = run.headline.group
    heads = [claim.id for claim in run.claims if claim.headline or (group and claim.group == group)]
    said = {}
    for outcome in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED):
        turned = {c.id: replace(c, outcome=outcome if c.id in heads else c.outcome) for c in run.claims}
        said[outcome] = study.reading.finding(run.judged_table, run.parameters, turned)
    assert len(set(said.values())) == len(said)
    assert "undecided" in said[UNDECIDED] and re.search("not judge|left to", said[NOT_JUDGED])
    for text in said.values():
        assert len(text) <= 300 and text.endswith(".") and not SYMBOLS.search(text), text
