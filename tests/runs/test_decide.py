"""What is open is told with what would decide it; plans are worked off in time, and nothing twice."""

import os

import pytest

PLAN = """
- notebook: toy/fig99_toy
  profile: quick
  values: {seeds: 6}
  new_seeds: [3, 5]
  decides: [above]
  matters: {above: 0.1}
  spread: sd 1 over 3 seeds
  rule: t interval
  expected_core_hours: 0.003
  why: three seeds are few
"""


@pytest.fixture(autouse=True)
def same_priority(monkeypatch):
    monkeypatch.setattr(os, "setpriority", lambda *_: None)


def plan(here, text=PLAN):
    folder = here.root / "data" / "plans"
    folder.mkdir(parents=True)
    (folder / "toy.yaml").write_text(text)


def test_plans_are_worked_off_and_the_page_stays(here):
    of = 'means(t, "value") - means(t, "value").mean(), above=0'  # against their own mean: open
    here.change('means(t, "value"), above=-9.0', of, here.reading)
    plan(here)
    assert here.call("run", "toy/fig99_toy", "--no-notebook")[0] == 0
    assert here.call("decide")[1].startswith("toy/fig99_toy (seeds=6): 3 of 6 jobs missing")
    before = here.call("claims")[1]
    assert "more seeds would decide it: 80 % power" in before
    code, out, err = here.call("decide", "--hours", "0.1")
    assert (code, out) == (0, "3 jobs stored; 0.0 core hours of plans are left\n")
    assert len(here.stored()) == 6 and "; 3 of 3" in err
    assert here.call("claims")[1] == before  # a plan changes no page before its values do
    assert here.call("decide", "--hours", "0.1")[1].startswith("0 jobs stored")


def test_a_job_that_would_not_end_in_time_is_not_begun(here):
    plan(here, PLAN.replace("0.003", "30"))
    code, out, err = here.call("decide", "--hours", "0.01")
    assert code == 0 and out.startswith("0 jobs stored") and "more than is left" in err
    assert not here.stored()


def test_bad_input_is_one_line(here):
    for arguments in (("--hours", "0"), ("--hours", "soon"), ("toy/fig98",), ("--hours", "inf")):
        code, _, err = here.call("decide", *arguments)
        assert code == 2 and err.count("\n") == 1, arguments
