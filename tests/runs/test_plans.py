"""Plans: read strictly, worked off in time and nothing twice, and what they decide on a page."""

import json
import os

import pandas as pd
import pytest

from alignbook.errors import AlignbookError
from companion.claims import OPEN, needed
from companion.judging import claims_of
from companion.runs import notebooks, plans
from companion.runs.run import load
from companion.statements import judged

STUDY = "toy/fig99_toy"
PLAN = {
    "notebook": STUDY,
    "profile": "quick",
    "values": {"seeds": 6},
    "decides": ["above"],
    "matters": {"above": 0.1},
    "spread": "sd 1",
    "rule": "t interval",
    "expected_core_hours": 0.003,
    "why": "three seeds are few",
}


@pytest.fixture
def planned(here, monkeypatch):
    """A checkout where the statement stays open: its values are held against their own mean."""
    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    of = 'means(t, "value") - means(t, "value").mean(), above=0'
    here.change('means(t, "value"), above=-9.0', of, here.reading)
    return here


def write(planned, *entries):
    """Write plans: PLAN with other fields, None for those that it lacks."""
    path = planned.root / "data" / "plans" / "toy.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = [{k: value for k, value in (PLAN | entry).items() if value is not None} for entry in entries]
    path.write_text(json.dumps(whole))


def run(planned, profile="quick"):
    assert planned.call("run", STUDY, "--no-notebook", "--profile", profile)[0] == 0


def claim(profile="quick"):
    """The one claim of what is stored of a profile."""
    (claim,) = claims_of(load(notebooks.find(STUDY), profile))
    return claim


def test_a_plan_is_read_whole(planned):
    write(planned, {}, {"values": {"seeds": 9, "rate": 0.1}, "new_seeds": [3, 8], "needs": "bfloat16"})
    first, second = plans.every()
    assert (first.notebook, first.decides, first.expected_core_hours) == (STUDY, ["above"], 0.003)
    assert first.values == {"labels": ["plain"], "rate": 0.5, "seeds": 6}
    assert first.changed == {"seeds": 6} and first.needs is None
    assert second.values == {"labels": ["plain"], "rate": 0.1, "seeds": 9} and second.needs == "bfloat16"
    assert str(second) == f"{STUDY} (seeds=9, rate=0.1)"
    assert plans.of(STUDY) == [first, second] and plans.of("toy/fig96") == plans.of("other/fig1") == []


BAD = {
    "an unknown field": ({"sedes": 1}, "a plan has notebook, profile"),
    "no values": ({"values": None}, "a plan has notebook, profile"),
    "a text for a list": ({"decides": "above"}, "decides and judges are lists"),
    "a text for hours": ({"expected_core_hours": "long"}, "'long'"),
    "half a name": ({"notebook": "toy/fig99"}, "toy/fig99_toy is to be named so"),
    "no such notebook": ({"notebook": "toy/figg9_toy"}, "did you mean toy/fig99_toy?"),
    "no such profile": ({"profile": "fast"}, "no profile 'fast'"),
    "a value out of range": ({"values": {"rate": 2.0}}, "rate must be in (0, 1], not 2.0"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_entry_is_one_line_that_names_it(planned, case):
    changed, message = BAD[case]
    write(planned, {}, changed)
    with pytest.raises(AlignbookError) as error:
        plans.every()
    line = str(error.value)
    assert line.startswith("data/plans/toy.yaml, entry 2: ") and message in line and "\n" not in line


def test_the_committed_plans_are_of_claims_that_exist():
    for plan in plans.every():
        statements = notebooks.find(plan.notebook).reading.STATEMENTS
        claims = judged(statements, pd.DataFrame({"unit": []}), plan.values)
        assert {*plan.decides, *plan.judges} <= {claim.id for claim in claims}, plan


def test_plans_are_worked_off_and_the_page_stays(planned):
    write(planned, {})
    run(planned)
    assert planned.call("decide")[1].startswith("toy/fig99_toy (seeds=6): 3 of 6 jobs missing")
    before = planned.call("claims")[1]
    assert "more seeds would decide it: 80 % power" in before
    code, out, err = planned.call("decide", "--hours", "0.1")
    assert (code, out) == (0, "3 jobs stored; 0.0 core hours of plans are left\n")
    assert len(planned.stored()) == 6 and "; 3 of 3" in err
    assert planned.call("claims")[1] == before  # a plan changes no page before its values do
    assert planned.call("decide", "--hours", "0.1")[1].startswith("0 jobs stored")


def test_a_job_that_would_not_end_in_time_is_not_begun(planned):
    write(planned, {"expected_core_hours": 30})
    code, out, err = planned.call("decide", "--hours", "0.01")
    assert code == 0 and out.startswith("0 jobs stored") and "more than is left" in err
    assert not planned.stored()


@pytest.mark.parametrize("arguments", [("--hours", "0"), ("--hours", "soon"), ("--hours", "inf"), ("fig98",)])
def test_bad_input_is_one_line(planned, arguments):
    code, _, err = planned.call("decide", *arguments)
    assert code == 2 and err.count("\n") == 1


def test_an_open_claim_has_the_core_hours_that_would_decide_it(planned):
    run(planned)
    for path in planned.records():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cost_s": 36.0}))
    assert claim().outcome == OPEN and claim().needed["seeds"] == needed(claim())["seeds"]
    assert claim().needed["core_hours"] == pytest.approx(claim().needed["seeds"] / 100)


def test_a_claim_is_judged_on_the_runs_of_the_plan_that_judges_it(planned):
    run(planned)
    write(planned, {"values": {"seeds": 9}, "judges": ["above"]})
    assert claim().seeds == 3 and not claim().runs  # the plan is not through
    planned.call("decide", "--hours", "0.1")
    assert (claim().seeds, claim().headline, claim().runs) == (9, True, "seeds = 9")
    write(planned, {"values": {"seeds": 9}})
    assert claim().seeds == 3


def test_runs_with_the_papers_values_judge_the_page_of_quick_and_not_the_reverse(planned):
    planned.profile("quick", "{seeds: 9}")
    planned.profile("paper", "{seeds: 6}")
    write(planned, {"profile": "paper", "judges": ["above"]})
    run(planned)
    run(planned, "paper")
    assert (claim().seeds, claim().runs) == (6, "profile paper, seeds = 6")
    write(planned, {"values": {"seeds": 9}, "judges": ["above"]})
    assert claim("paper").seeds == 6
