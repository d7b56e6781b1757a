"""What the readings of all studies keep to: of nothing, and on stored results whatever the verdicts are."""

import re

import pandas as pd
import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.runs import engine, notebooks, parameters
from tests import judging

ALIKE = [(one,) for one in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)]
SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z“])")
DIRECTED = ("above", "below")  # rules that have the outcome *absent*
MIXED = [
    (HOLDS, CONTRADICTED, NOT_JUDGED), (CONTRADICTED, UNDECIDED, NOT_JUDGED), (ABSENT, UNDECIDED, NOT_JUDGED),
    (HOLDS, UNDECIDED, CONTRADICTED), (UNDECIDED, NOT_JUDGED), (NOT_JUDGED, HOLDS),
]  # fmt: skip
SYMBOLS = re.compile(r"[σΣτλα_]|f\(")
# Their key numbers are shown without a number, or are computed without a run.
ROWS_STAY = {
    "random_labels/fig02_misalignment", "transferability/fig04_tsne", "transferability/fig06_loss_variation",
    "transferability/tab01_weight_deviation",
}  # fmt: skip
# How a finding says that its headline is open, or not judged.
SAID = {
    UNDECIDED: re.compile("undecided|is open|may or may not"),
    NOT_JUDGED: re.compile("judge|left to|cannot test|did not learn|learned only|No network was"),
}


@pytest.fixture(
    params=[book for book in notebooks.every() if "finding" not in book.front],
    ids=lambda book: book.name,
    scope="module",
)
def book(request):
    return request.param


@pytest.fixture(scope="module")
def run(book):
    """The stored run that the page of a study shows."""
    return engine.most_faithful(book) or pytest.skip("nothing is stored")


@pytest.fixture
def said(book, run, monkeypatch):
    """said(claims): the finding on the stored table, of which each of the reading's functions reads once."""
    judging.remember(book.reading, run.judged_table, monkeypatch)
    return lambda claims: judging.finding(book.reading, run.judged_table, run.parameters, claims)


@pytest.mark.parametrize("profile", parameters.PROFILES)
def test_of_nothing_nothing_is_said(book, profile):
    """Where every run has diverged, no statement is judged, and the finding says so."""
    nothing, values = pd.DataFrame({"unit": []}), parameters.resolve(book, profile)
    _, outcomes, finding = judging.of(book.reading, values)
    assert set(outcomes(nothing).values()) == {NOT_RUN}
    numbers = book.reading.key_numbers(nothing, values)
    assert not numbers or book.name in ROWS_STAY and len(numbers) <= 3
    assert re.search(r"\b([Nn]o|[Nn]ot|[Nn]othing|few)\b", finding(nothing))


def test_the_words_change_with_the_verdict_of_the_headline(book, run, said):
    claims = {claim.id: claim for claim in run.claims}
    group = run.headline.group
    heads = [claim.id for claim in run.claims if claim.headline or (group and claim.group == group)]
    (stated,) = (statement for statement in book.reading.STATEMENTS if statement.headline)
    outcomes = [one for (one,) in ALIKE if one != ABSENT or stated.rule in DIRECTED]
    found = {one: said(judging.turned(claims, dict.fromkeys(heads, one))) for one in outcomes}
    assert len(set(found.values())) == len(found), found
    assert not SYMBOLS.search("".join(found.values())), found
    # What was found, and one caveat.
    assert max(len(SENTENCE.split(words)) for words in found.values()) <= 2, found
    for outcome, words in SAID.items():
        assert words.search(found[outcome]), found[outcome]
    # Of smoke nothing is judged, though it may meet every requirement.
    assert said({id: claim.not_judged("profile smoke reproduces nothing") for id, claim in claims.items()})
    told = f"{run.finding.text} {run.finding.caveat}".strip()
    assert said(claims) == told and len(run.key_numbers) <= 3


def test_a_finding_is_short_under_every_verdict(book, run, said):
    """Also under those that make it longest: one statement after another, from each of the first's."""
    stored, groups = {claim.id: claim for claim in run.claims}, {}
    for claim in run.claims:
        if claim.measured is not None:
            groups.setdefault(claim.group or claim.statement, []).append(claim.id)
    directed = {stated.text for stated in book.reading.STATEMENTS if stated.rule in DIRECTED}

    def turns(claims, text, mixes):
        mixes = [mix for mix in mixes if text in directed or ABSENT not in mix]
        named = [{id: mix[n % len(mix)] for n, id in enumerate(groups[text])} for mix in mixes]
        return [judging.turned(claims, outcomes) for outcomes in named]

    told = [text for text in groups if len({said(claims) for claims in turns(stored, text, ALIKE)}) > 1]
    for claims in turns(stored, told[0], ALIKE + MIXED) if told else ():
        for text in told[1:]:
            mixes = ALIKE + MIXED * (len(groups[text]) > 1)
            claims = max(turns(claims, text, mixes), key=lambda one: len(said(one)))
