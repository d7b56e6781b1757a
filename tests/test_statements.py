"""Statements are judged in one place: each rule with each of its outcomes, and what stands beside it."""

import json
import math

import pandas as pd
import pytest

from alignbook.errors import AlignbookError
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN, OPEN, needed
from companion.over_seeds import at, sample
from companion.statements import Case, Statement, among, judged, least, pooled

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
    ({"above": 0}, [0.3, 0.1 + 0.2, 0.3], OPEN),  # rounding is no spread to judge by
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
    ({"one_run": 3.0, "within": 0.3}, UP, CONTRADICTED),
    ({"one_run": 2.0}, [2.0, 2.0, 2.0], OPEN),
    ({"near": 2.0, "within": 0.5}, [2.0], OPEN),
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


def test_a_case_chooses_what_is_printed_for_it():
    cases = [Case(str(width), f"width {width}", {"width": width}) for width in (16, 64)]
    printed = statement(
        of=of_width, each=lambda p: cases, within=0.5,
        paper=lambda p, width: f"about {width}", near=lambda p, width: {16: 2.0, 64: None}[width],
    )  # fmt: skip
    narrow, wide = printed.claims(by_width(), {})
    assert (narrow.outcome, narrow.paper, narrow.tolerance) == (HOLDS, "about 16", 0.5)
    assert (wide.outcome, wide.test, wide.paper) == (NOT_RUN, "nothing printed", "about 64")


def test_parts_of_the_claim_are_named_and_must_be_there():
    stated = [statement("a", above=0, headline=True), statement("b", above=0), statement("c", above=0)]
    made = judged(stated, by_width().drop_duplicates("seed"), {}, parts={"a": "first", "c": "later"})
    assert [(claim.id, claim.part) for claim in made] == [("a", "first"), ("b", ""), ("c", "later")]
    with pytest.raises(AlignbookError, match="parts of the claim are no statements: d"):
        judged(stated, by_width(), {}, parts={"d": "later"})


def test_cases_become_one_row_by_their_mean_or_by_the_one_that_shows_it_least():
    table = pd.concat([table_of(UP, part="a"), table_of(SMALL, part="b"), table_of([9.0], part="c")])
    each = among("part", {"a": "first", "b": "last"})

    def of(t, p, part):
        return sample(at(t, part=part), "value")

    mean = only(statement(of=pooled(of, each), above=0), table)
    assert (mean.measured, mean.seeds, mean.outcome) == (pytest.approx(6.05 / 6), 3, HOLDS)
    assert only(statement(of=pooled(of, among("part", {"a": "", "c": ""})), above=0), table).seeds == 1
    assert only(statement(of=least(of, each), above=0), table).outcome == NO_EFFECT
    for fold in (pooled, least):
        assert only(statement(of=fold(of, lambda p: []), above=0), table).outcome == NOT_RUN
        assert only(statement(of=fold(lambda t, p, part: None, each), above=0), table).outcome == NOT_RUN


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


def test_an_interval_ends_at_the_bounds_of_its_quantity():
    near_one = [0.99, 0.9, 0.8]
    claim = only(statement(above=0, bounds=(0, 1)), near_one)
    free = only(statement(above=0), near_one)
    assert free.interval[1] > 1 and claim.interval == (free.interval[0], 1.0)
    assert claim.outcome == free.outcome and "bound of the quantity" in claim.test


def test_what_there_is_one_value_of_is_the_name_of_the_index():
    values = pd.Series([0.1, 4.0, -0.2], index=pd.Index([3, 5, 8], name="group"))

    def about(values):
        return only(statement(of=lambda t, p: values, above=0), UP)

    assert "of 3 groups" in about(values).test and about(values).what == "group"
    assert needed(about(values))["why"].endswith("of 3 groups")
    assert "of 3 seeds" in about(values.rename_axis("seed")).test
    assert "of 3 seeds" in about(list(values)).test
    assert "of 6 values" in about(pd.concat({"a": values, "b": values})).test
