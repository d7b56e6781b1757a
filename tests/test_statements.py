"""Statements are judged in one place: each rule with each of its outcomes, and what stands beside it."""

import json
import math

import pandas as pd
import pytest

from alignbook.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_JUDGED, NOT_RUN, OPEN, needed
from alignbook.errors import AlignbookError
from alignbook.over_seeds import at, sample
from alignbook.statements import Case, Requirement, Statement, came_out, condition, judged, over

UP, DOWN, WIDE, SMALL = [2.0, 2.1, 1.9], [-2.0, -2.1, -1.9], [5.0, -5.0, 0.3], [0.1, -0.1, 0.05]
DIRECTED = {"matters": 0.5, "because": "a drawn line is as wide"}


def table_of(values, **columns):
    return pd.DataFrame({"seed": range(len(values)), "value": values, "unit": "u"} | columns)


def statement(id="s", of=lambda t, p: sample(t, "value"), **fields):
    if {"above", "below"} & set(fields):
        fields = DIRECTED | fields
    return Statement(id, "It is so.", source="Figure 1", of=of, **fields)


def only(stated, values, parameters=None):
    table = values if isinstance(values, pd.DataFrame) else table_of(values)
    (claim,) = stated.claims(table, parameters or {})
    return claim


OUTCOMES = [
    ({"above": 0}, UP, HOLDS),
    ({"above": 0}, DOWN, CONTRADICTED),
    ({"above": 0}, WIDE, OPEN),
    ({"above": 0}, SMALL, NO_EFFECT),
    ({"above": 0}, [2.0, 2.1], OPEN),
    ({"above": 5.0}, UP, CONTRADICTED),
    ({"below": 0}, DOWN, HOLDS),
    ({"below": 0}, UP, CONTRADICTED),
    ({"below": 0}, WIDE, OPEN),
    ({"below": 0}, SMALL, NO_EFFECT),
    ({"near": 2.0, "within": 0.5}, UP, HOLDS),
    ({"near": 3.0, "within": 0.5}, UP, CONTRADICTED),
    ({"near": 2.5, "within": 0.5}, UP, OPEN),
    ({"one_run": 2.3}, UP, HOLDS),
    ({"one_run": 3.0}, UP, CONTRADICTED),
    ({"one_run": 2.3}, UP[:2], OPEN),
    ({"one_run": 2.3, "within": 0.3}, UP, OPEN),
]


@pytest.mark.parametrize(("rule", "values", "outcome"), OUTCOMES)
def test_each_rule_has_each_of_its_outcomes(rule, values, outcome):
    claim = only(statement(**rule), values)
    assert claim.outcome == outcome
    assert claim.seeds == len(values) and claim.measured == pytest.approx(sum(values) / len(values))
    turned = dict(rule)
    (name, target), *_ = rule.items()
    turned[name] = lambda parameters: parameters["target"]
    assert only(statement(**turned), values, {"target": target}) == claim


def test_what_has_no_randomness_is_one_number():
    exact = {"exactly": 1.0, "within": 0.1}
    assert only(statement(of=lambda t, p: 1.05, **exact), UP).outcome == HOLDS
    assert only(statement(of=lambda t, p: 1.2, **exact), UP).outcome == CONTRADICTED
    assert only(statement(of=lambda t, p: None, **exact), UP).outcome == NOT_RUN


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"above": 0, "matters": None}, "matters"),
        ({"below": 0, "matters": None}, "matters"),
        ({"above": 0, "matters": 0.0}, "matters"),
        ({"above": 0, "matters": -1.0}, "matters"),
        ({"above": 0, "matters": math.nan}, "matters"),
        ({"above": 0, "because": ""}, "because"),
        ({"near": 1.0}, "within"),
        ({"exactly": 1.0}, "within"),
        ({"above": 0, "seen": 3}, "post_hoc"),
        ({}, "one rule"),
        ({"above": 0, "below": 1}, "one rule of above, below, near, one_run, exactly, not 2"),
    ],
)
def test_a_statement_that_could_not_be_judged_is_refused(fields, message):
    with pytest.raises(ValueError, match=f"^s: .*{message}"):
        statement(**fields)


def test_seeds_that_lack_a_value_are_left_out():
    claim = only(statement(above=0), [2.0, math.nan, 2.1, 1.9])
    assert (claim.outcome, claim.seeds) == (HOLDS, 3)
    assert only(statement(above=0), [math.nan] * 3).outcome == NOT_RUN
    assert only(statement(above=0, of=lambda t, p: list(t["value"])), UP).outcome == HOLDS


# ---- cases, headline, names ----

WIDTHS = {"widths": [16, 64]}


def of_width(table, parameters, width):
    return sample(at(table, width=width), "value")


def by_width():
    return pd.concat([table_of(UP, width=16), table_of(DOWN, width=64)], ignore_index=True)


def test_a_statement_has_a_claim_per_case():
    cases = [Case("16", "narrow", {"width": 16}), Case("64", "wide", {"width": 64})]
    narrow, wide = statement(of=of_width, above=0, each=lambda p: cases).claims(by_width(), {})
    assert (narrow.id, narrow.outcome, narrow.statement) == ("s-16", HOLDS, "It is so (narrow).")
    assert (wide.id, wide.outcome, wide.statement) == ("s-64", CONTRADICTED, "It is so (wide).")
    assert narrow.group == wide.group == "It is so."
    assert only(statement(above=0), UP).group is None


def test_a_case_chooses_what_is_printed_and_required_for_it():
    cases = [Case(str(width), f"width {width}", {"width": width}) for width in (16, 64)]
    need = Requirement("mean", lambda t, p, width: at(t, width=width)["value"].mean(), at_least=0)
    printed = statement(
        of=of_width, each=lambda p: cases, requires=[need], within=0.5,
        paper=lambda p, width: f"about {width}", near=lambda p, width: {16: 2.0, 64: None}[width],
    )  # fmt: skip
    narrow, wide = printed.claims(by_width(), {})
    assert (narrow.outcome, narrow.paper, narrow.tolerance) == (HOLDS, "about 16", 0.5)
    assert narrow.requires[0]["met"] and not wide.requires[0]["met"]
    assert (wide.outcome, wide.test, wide.paper) == (NOT_RUN, "nothing printed", "about 64")


def test_parts_of_the_claim_are_named_and_must_be_there():
    stated = [statement("a", above=0, headline=True), statement("b", above=0), statement("c", above=0)]
    made = judged(stated, by_width().drop_duplicates("seed"), {}, parts={"a": "first", "c": "later"})
    assert [(claim.id, claim.part) for claim in made] == [("a", "first"), ("b", ""), ("c", "later")]
    with pytest.raises(AlignbookError, match="parts of the claim are no statements: d"):
        judged(stated, by_width(), {}, parts={"d": "later"})


def test_cases_over_a_parameter():
    cases = over("widths", {16: "narrow"})({"widths": [16, 64]})
    assert cases == [Case("16", "narrow", {"widths": 16}), Case("64", "64", {"widths": 64})]


def test_one_claim_of_the_headline_is_marked():
    cases = [Case(str(width), "", {"width": width}) for width in (16, 64)]
    stated = [
        statement("a", above=0),
        statement("b", of=of_width, above=0, each=lambda p: cases, headline=True),
    ]
    claims = judged(stated, by_width().drop_duplicates("seed"), {})
    assert [(c.id, c.headline) for c in claims] == [("a", False), ("b-16", True), ("b-64", False)]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ([statement(above=0)], "one statement must be the headline, not 0"),
        ([statement(above=0, headline=True), statement("t", above=0, headline=True)], "the headline, not 2"),
        ([statement(above=0, headline=True), statement(below=0)], "two claims are called s$"),
        (
            [statement("s-16", above=0, headline=True),
             statement(above=0, of=of_width, each=lambda p: [Case("16", "", {"width": 16})])],
            "two claims are called s-16$",
        ),
        ([statement(above=0, headline=True, each=lambda p: [])], "s is the headline and has no case"),
    ],
)  # fmt: skip
def test_a_list_of_statements_without_one_headline_or_with_a_name_twice_is_refused(stated, message):
    with pytest.raises(AlignbookError, match=message):
        judged(stated, table_of(UP, width=16), {})


# ---- what was not measured ----

RULES = [
    {"above": 0},
    {"below": 0},
    {"near": 2.0, "within": 1.0},
    {"one_run": 2.0},
    {"exactly": 1, "within": 1},
]
READINGS = {
    "words": lambda t, p: sample(t, "value"),
    "a column": lambda t, p: t["value"],
    "groups": lambda t, p: t.groupby("seed")["value"].mean(),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: next(iter(rule)))
@pytest.mark.parametrize("reading", READINGS)
def test_without_its_rows_or_its_columns_a_statement_is_not_run(rule, reading):
    stated = statement(of=READINGS[reading], **rule)
    for table in (pd.DataFrame({"unit": []}), pd.DataFrame(), table_of(UP).iloc[:0], table_of(UP)[["unit"]]):
        claim = only(stated, table)
        assert (claim.outcome, claim.measured, claim.seeds) == (NOT_RUN, None, 0)
        assert claim.test == "not among the results"


def test_a_key_that_is_a_column_is_no_missing_column():
    for wrong in (
        lambda t, p: p["value"],
        lambda t, p: {"a": 1}["seed"],
        lambda t, p: t["value"].loc["value"],
    ):
        with pytest.raises(KeyError):
            only(statement(of=wrong, above=0), UP)
        need = Requirement("it", wrong, at_least=0)
        with pytest.raises(KeyError):
            only(statement(above=0, requires=[need]), UP)


def test_other_faults_of_a_reading_surface():
    with pytest.raises(ZeroDivisionError):
        only(statement(of=lambda t, p: 1 / 0, above=0), UP)
    with pytest.raises(TypeError):
        only(statement(of=lambda t: [1.0], above=0), UP)


# ---- what is required ----


def needs(value, **bound):
    return Requirement("share of labels learned", lambda t, p: value, **bound)


@pytest.mark.parametrize(
    ("value", "bound", "asked", "met"),
    [
        (0.99, {"at_least": 0.99}, "at least 0.99", True),
        (0.98, {"at_least": 0.99}, "at least 0.99", False),
        (0.1, {"at_most": 0.2}, "at most 0.2", True),
        (0.3, {"at_most": 0.2}, "at most 0.2", False),
        (math.nan, {"at_most": 0.2}, "at most 0.2", False),
        (None, {"at_least": 0.0}, "at least 0", False),
        (True, {}, "", True),
        (0.0, {}, "", False),
        (None, {}, "", False),
    ],
)
def test_a_statement_is_judged_where_what_it_requires_is_met(value, bound, asked, met):
    claim = only(statement(above=0, requires=[needs(value, **bound)]), UP)
    measured = None if value is None or math.isnan(value) else value
    (found,) = claim.requires
    assert (found["measured"], found["asked"], found["met"]) == (measured, asked, met)
    assert found["text"] == "share of labels learned" and found["bound"] == next(iter(bound.values()), None)
    assert claim.outcome == (HOLDS if met else NOT_JUDGED)
    assert claim.measured == pytest.approx(2.0) and claim.interval  # shown all the same
    if not met:
        seen = "not met" if measured is not None else "not measured"
        seen = f"here {measured:g}, not met" if asked and measured is not None else seen
        assert claim.test == f"share of labels learned{', ' * bool(asked)}{asked}; {seen}"


@pytest.mark.parametrize(
    ("measured", "told"), [(0.0023474, "0.0023"), (-0.04961, "-0.05"), (0.1234, "0.123"), (27.58, "27.6")]
)
def test_small_numbers_of_a_condition_have_two_digits(measured, told):
    need = Requirement("loss", lambda table, parameters: measured, at_least=60.0).check(None, {}, {})
    assert came_out(need) == f"here {told}, not met"


def test_rounding_takes_no_condition_over_its_bound():
    for measured, told in ((0.0496, "0.0496, not met"), (0.0504, "0.0504"), (0.0561, "0.056")):
        need = Requirement("loss", lambda table, parameters, m=measured: m, at_least=0.05).check(None, {}, {})
        assert came_out(need) == f"here {told}"


def test_a_condition_says_why_it_is_asked():
    because = "without one there is none to close"
    need = Requirement("a gap", lambda t, p: 0.2, at_least=0.1, because=because)
    assert condition(need.check(table_of(UP), {}, {})) == f"a gap, at least 0.1; here 0.2. {because}"


def test_all_that_is_required_is_checked_and_the_first_unmet_told():
    needed = [needs(1.0, at_least=0.5), needs(0.4, at_least=0.5), needs(None, at_most=3)]
    claim = only(statement(above=0, requires=needed), UP)
    assert [need["met"] for need in claim.requires] == [True, False, False]
    assert claim.outcome == NOT_JUDGED and "at least 0.5; here 0.4, not met" in claim.test


def test_what_is_required_of_a_column_that_is_not_stored_was_not_measured():
    need = Requirement("accuracy", lambda t, p: t["accuracy"].mean(), at_least=0.9)
    claim = only(statement(above=0, requires=[need, needs(1.0, at_least=0.5)]), UP)
    assert claim.outcome == NOT_JUDGED and claim.measured == pytest.approx(2.0)
    assert [(n["measured"], n["met"]) for n in claim.requires] == [(None, False), (1.0, True)]
    assert claim.test == "accuracy, at least 0.9; not measured"


def test_where_nothing_was_measured_it_stays_not_run_and_says_what_it_requires():
    claim = only(statement(above=0, requires=[needs(0.1, at_least=0.5)]), table_of(UP)[["unit"]])
    assert claim.outcome == NOT_RUN and claim.test == "not among the results" and not claim.requires[0]["met"]


def test_a_requirement_has_one_bound():
    with pytest.raises(ValueError, match="one bound"):
        needs(1.0, at_least=0, at_most=1)


# ---- what reaches the claim ----


def test_what_a_statement_says_of_itself_reaches_the_claim():
    said = {
        "unit": "points", "because": "a line is as wide", "paper": "about 2", "ours": True,
        "post_hoc": "chosen after six seeds were seen", "opposed_by": "Figure 2",
    }  # fmt: skip
    for rule in RULES:
        of = (lambda t, p: 1.0) if "exactly" in rule else (lambda t, p: sample(t, "value"))
        claim = only(statement(of=of, **rule, matters=0.5, **said), UP)
        assert {field: getattr(claim, field) for field in said} == said
        assert claim.matters == 0.5 and claim.source == "Figure 1" and claim.statement == "It is so."
        assert json.loads(json.dumps(claim.as_dict()))["post_hoc"] == said["post_hoc"]
    assert only(statement(near=2.0, within=0.5), UP).paper == 2.0  # the rule's own


def test_a_case_of_its_own_may_be_ours():
    cases = [Case(name, name, {"name": name}) for name in ("theirs", "own")]
    made = statement(
        above=0,
        each=lambda p: cases,
        of=lambda t, p, name: sample(t, "value"),
        ours=lambda p, name: name == "own",
    )
    assert [claim.ours for claim in made.claims(table_of(UP), {})] == [False, True]


def test_an_interval_ends_at_the_bounds_of_its_quantity():
    near_one = [0.99, 0.9, 0.8]
    claim = only(statement(above=0, bounds=(0, 1)), near_one)
    free = only(statement(above=0), near_one)
    assert free.interval[1] > 1 and claim.interval == (free.interval[0], 1.0)
    assert claim.outcome == free.outcome and "bound of the quantity" in claim.test


LATE = {"post_hoc": "the third seed suggested it", "seen": 3}


def test_a_reading_chosen_on_the_first_seeds_is_judged_on_later_ones_alone():
    stated = statement(above=0, **LATE)
    claim = only(stated, DOWN + UP)
    assert claim.outcome == HOLDS and claim.seeds == 3 and claim.measured == pytest.approx(2)
    assert claim.requires[0]["measured"] == 3 and claim.requires[0]["met"]
    early = only(stated, UP + UP[:2])
    assert early.outcome == NOT_JUDGED and early.seeds == 5 and early.measured == pytest.approx(2.02)
    assert "when this statement was chosen, at least 3; here 2, not met" in early.test
    assert only(stated, []).outcome == NOT_RUN


def test_how_many_seeds_were_seen_may_follow_from_the_parameters():
    stated = statement(above=0, post_hoc="at width 8", seen=lambda parameters: 3 * (parameters["width"] == 8))
    assert only(stated, UP, {"width": 8}).outcome == NOT_JUDGED
    assert only(stated, UP, {"width": 64}).outcome == HOLDS


def test_what_there_is_one_value_of_is_the_name_of_the_index():
    values = pd.Series([0.1, 4.0, -0.2], index=pd.Index([3, 5, 8], name="group"))

    def about(values):
        return only(statement(of=lambda t, p: values, above=0), UP)

    assert "of 3 groups" in about(values).test and about(values).what == "group"
    assert needed(about(values))["why"].endswith("of 3 groups")
    assert "of 3 seeds" in about(values.rename_axis("seed")).test
    assert "of 3 seeds" in about(list(values)).test
    assert "of 6 values" in about(pd.concat({"a": values, "b": values})).test


@pytest.mark.parametrize("count", [1, 3])
def test_a_printed_run_is_held_against_what_there_is_one_value_of(count):
    splits = pd.Series([0.1, 4.0, -0.2], index=pd.Index([3, 5, 8], name="split"))[:count]
    claim = only(statement(of=lambda t, p: splits, one_run=0.5), UP)
    assert claim.what == "split" and "seed" not in claim.test
    assert ("3 splits" if count == 3 else "one split") in claim.test
