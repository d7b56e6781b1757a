"""How findings follow verdicts, and how verdicts of several cases are said."""

import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, Claim
from alignbook.wording import (
    by_verdict,
    clauses,
    first_unmet,
    grouped,
    held,
    listed,
    named,
    opening,
    others,
    over_cases,
    replicates,
    sentences,
    together,
    weaker,
)  # fmt: skip

SAYS = {HOLDS: "it grows{}", CONTRADICTED: "it shrinks{}", UNDECIDED: "who knows{}"}


def made_up(**outcomes):
    made = {}
    for name, outcome in outcomes.items():
        claim = Claim.missing(f"grows-{name}", f"It grows (set {name}).", "", "").tagged(group="It grows.")
        made[claim.id] = Claim(**claim.as_dict() | {"outcome": outcome})
    return made


def test_clauses_say_each_verdict_and_where():
    one, both = made_up(a=HOLDS, x=NOT_RUN), made_up(a=UNDECIDED, b=HOLDS, c=HOLDS)
    assert clauses(one, "grows", SAYS) == "it grows"
    assert clauses(made_up(a=HOLDS, b=HOLDS), "grows", SAYS) == "it grows in all 2 settings"
    assert clauses(both, "grows", SAYS) == "it grows in 2 of 3 settings; who knows in 1 of 3 settings"
    assert clauses(both, "grows", SAYS, named) == "it grows on set b and set c; who knows on set a"
    assert clauses({}, "grows", SAYS) == clauses(made_up(x=NOT_RUN), "grows", SAYS) == ""


def test_replicates_are_those_of_one_statement():
    claims = made_up(a=HOLDS, b=NOT_JUDGED) | {"growsome": made_up(a=HOLDS)["grows-a"]}
    found = replicates(claims, "grows")
    assert {outcome: len(kept) for outcome, kept in found.items()} == {HOLDS: 1, NOT_JUDGED: 1}


def test_lists():
    assert [listed(words) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_an_opening_follows_its_verdict():
    claim = Claim.greater("id", "", "", [1.0, 2.0, 3.0])
    said = {
        outcome: opening(
            Claim(**claim.as_dict() | {"outcome": outcome}), "Later layers gain", contradicted="They lose",
            absent="They gain too little to matter",
        )
        for outcome in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED, NOT_RUN)
    }  # fmt: skip
    assert said.pop(NOT_RUN) is None and len(set(said.values())) == 5
    assert said[HOLDS] == "Later layers gain"
    assert said[UNDECIDED] == "It is undecided whether later layers gain"


def test_names_are_grouped_by_outcome():
    words = {HOLDS: "on {}", CONTRADICTED: "not on {}"}
    assert grouped({"a": HOLDS, "b": CONTRADICTED, "c": HOLDS}, words) == "on a and c, not on b"
    assert grouped(dict.fromkeys("abcd", HOLDS), words) == "on a, b and 2 more"
    assert grouped({}, words) == ""


def test_in_how_many_a_statement_holds():
    assert held(dict.fromkeys("abc", HOLDS), "tasks") == "all 3 tasks"
    mixed = {"a": HOLDS, "b": UNDECIDED, "c": ABSENT, "d": UNDECIDED}
    assert held(mixed, "tasks") == "1 of 4 tasks (undecided: b and 1 more, too little to matter: c)"
    assert held({"a": CONTRADICTED, "b": ABSENT}, "tasks").startswith("none of 2 tasks (the opposite")
    for outcome in (CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED, NOT_RUN):
        assert held({"a": outcome, "b": outcome}, "tasks").endswith(" in all)")


SAID = by_verdict("It does", "It does not", "It is the same", "it does")


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([HOLDS, HOLDS], "It does"),
        (
            [UNDECIDED, HOLDS, CONTRADICTED],
            "It does on 1 of 3 targets (the others contradicted or undecided)",
        ),
        ([UNDECIDED, CONTRADICTED], "It does not on 1 of 2 targets (the other undecided)"),
        ([ABSENT, NOT_JUDGED], "It is the same on 1 of 2 targets (the other not judged)"),
        ([UNDECIDED], "It is undecided whether it does"),
        ([NOT_JUDGED], "We do not judge whether it does"),
        ([NOT_RUN], None),
    ],
)
def test_no_case_hides_the_others(outcomes, said):
    claims = {
        str(place): Claim("", "", "", None, None, None, None, outcome, 3, "")
        for place, outcome in enumerate(outcomes)
    }
    assert over_cases(claims | {"another": None}, list(claims), SAID) == said


def test_words_joined_by_and_show_what_the_weaker_claim_shows():
    claim = Claim.greater("id", "", "", [1.0, 2.0, 3.0])

    def of(*outcomes):
        return weaker(*(Claim(**claim.as_dict() | {"outcome": outcome}) for outcome in outcomes))

    assert of(HOLDS, HOLDS) == HOLDS and of(UNDECIDED, HOLDS) == UNDECIDED
    assert of(HOLDS, CONTRADICTED, UNDECIDED) == CONTRADICTED and of(NOT_RUN, CONTRADICTED) == NOT_RUN


def test_replicates_that_came_out_otherwise_are_named():
    assert others(HOLDS, {"real labels": HOLDS, "random labels": CONTRADICTED, "none": NOT_RUN}) == (
        "; with random labels the opposite holds"
    )


def test_of_several_conditions_that_are_not_met_the_first_that_counts_is_told():
    needs = [{"text": text, "met": text == "long"} for text in ("accurate", "learned", "long")]
    claim = Claim(**Claim.greater("id", "", "", [1.0, 2.0, 3.0]).as_dict() | {"requires": tuple(needs)})
    words = {"long": "it was cut short", "learned": "it learned nothing", "accurate": "it is wrong"}
    assert first_unmet(claim, words) == "it learned nothing"
    smoke = Claim.greater("id", "", "", [1.0, 2.0, 3.0]).not_judged("smoke reproduces nothing")
    assert first_unmet(smoke, words) == "smoke reproduces nothing"  # though all is met


def test_names_that_have_the_same_kinds_stand_together():
    pairs = [("a", "10"), ("b", "10"), ("c", "10"), ("a", "20"), ("d", "20"), ("c", "20")]
    assert together(pairs) == {("10", "20"): ["a", "c"], ("10",): ["b"], ("20",): ["d"]}
    assert together([]) == {}


def test_a_finding_is_one_sentence_or_two():
    assert sentences("it holds") == sentences("it holds", "", None) == "it holds."
    assert sentences("it holds", "", "on ten images") == "it holds. On ten images."
    assert sentences("it holds", "here", "Not there") == "it holds. Here; not there."
