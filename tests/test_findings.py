"""Findings: shown while the verdicts are those that they stand on, filled from claims; a page's word."""

from dataclasses import replace

import pytest

from alignbook.errors import AlignbookError
from companion import findings
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_JUDGED, OPEN, Claim

FRONT = {
    "finding": "It rises by {rises:.1f} ({rises.low:.1f} to {rises.high:.1f}), paper {rises.paper:.0f}.",
    "caveat": "Only {rises.seeds} seeds.",
    "stands_on": {"rises": HOLDS},
}


def claims(*outcomes):
    given = ("It rises.", "Fig. 1", 3.0, None, 2.0, (1.5, 2.5))
    made = [Claim("rises", *given, outcome, 5, "rule") for outcome in outcomes]
    if len(made) > 1:
        made = [replace(claim, id=f"rises-{n}", group="It rises.") for n, claim in enumerate(made)]
    return [replace(made[0], headline=True), *made[1:]]


def test_a_finding_is_filled_from_its_claims():
    found = findings.of(FRONT, claims(HOLDS), [])
    assert found == findings.Finding("It rises by 2.0 (1.5 to 2.5), paper 3.", "Only 5 seeds.")


def test_an_id_may_have_a_dot():
    claim = replace(claims(HOLDS)[0], id="rises-0.8")
    front = FRONT | {"finding": "{rises-0.8:.1f}, {rises-0.8.low}", "caveat": "", "stands_on": {}}
    assert findings.of(front, [claim], []).text == "2.0, 1.5"


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        ([CONTRADICTED], "“It rises”: with these parameters the opposite holds."),
        ([NO_EFFECT], "“It rises”: with these parameters there is no effect that matters."),
        ([OPEN], "“It rises”: with these parameters it stays open."),
        ([HOLDS, OPEN, HOLDS],
         "“It rises”: with these parameters it holds in 2 of 3 cases, it stays open in 1 of 3 cases."),
        ([NOT_JUDGED], "These parameters are too far from the paper's to say anything about its claim."),
    ],
)  # fmt: skip
def test_under_another_verdict_the_statement_speaks(outcomes, sentence):
    assert findings.of(FRONT, claims(*outcomes), []) == findings.Finding(sentence, fits=False)


def test_a_finding_about_what_was_not_measured_is_not_told():
    number = replace(claims(HOLDS)[0], id="number", measured=None, interval=None)
    assert not findings.of(FRONT | {"caveat": "{number:.1f}"}, claims(HOLDS), [number]).fits


def test_what_is_not_among_a_readers_claims_is_not_told():
    assert not findings.of(FRONT | {"finding": "{falls:.1f}"}, claims(HOLDS), []).fits
    assert findings.key_numbers({"key_numbers": {"falls": "fall"}}, claims(HOLDS), []) == []
    with pytest.raises(AlignbookError, match="stands_on: rises: one of"):
        findings.of(FRONT | {"stands_on": {"rises": "yes"}}, claims(HOLDS), [])
    assert findings.differing({"falls": HOLDS}, claims(HOLDS)) == ["falls: not among the statements"]


def test_a_statement_stands_for_all_its_cases():
    assert findings.differing({"rises": HOLDS}, claims(HOLDS, HOLDS)) == []
    assert findings.differing({"rises": HOLDS}, claims(HOLDS, OPEN)) == ["rises-1: open, not holds"]
    assert findings.differing({"rises-0": HOLDS}, claims(HOLDS, OPEN)) == []


@pytest.mark.parametrize(
    ("label", "what", "here", "paper"),
    [("rise", "rise", 2.0, 3.0), (["rise", ".0%"], "rise", "200% (150% to 250%)", "300%")],
)
def test_a_key_number_is_a_claim_with_a_label(label, what, here, paper):
    (key,) = findings.key_numbers({"key_numbers": {"rises": label}}, claims(HOLDS), [])
    assert (key.what, key.here, key.paper) == (what, here, paper)


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ([HOLDS], "holds"),
        ([HOLDS, HOLDS], "holds"),
        ([HOLDS, NOT_JUDGED], "holds"),
        ([HOLDS, OPEN], "in part"),
        ([HOLDS, NO_EFFECT], "in part"),
        ([CONTRADICTED, OPEN], "fails"),
        ([OPEN, OPEN], "open"),
        ([NOT_JUDGED], "untested"),
    ],
)
def test_a_page_has_one_word(outcomes, word):
    assert findings.word(claims(*outcomes)) == word
