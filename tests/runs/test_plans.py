"""Plans: read strictly, and adopted where a page shows their values."""

import pandas as pd
import pytest

from alignbook.errors import AlignbookError
from companion.claims import OPEN, needed
from companion.judging import claims_of
from companion.pages import claim_tables
from companion.runs import notebooks, parameters, plans, results
from companion.runs.run import jobs_of, load
from companion.statements import judged

STUDY = "toy/fig99_toy"
PLAN = {
    "notebook": STUDY, "profile": "quick", "values": "{seeds: 6}", "new_seeds": "[3, 5]",
    "decides": "[above]",
    "matters": "{above: 0.1}", "spread": "sd 1", "rule": "t interval", "expected_core_hours": "0.5",
    "why": "so",
}  # fmt: skip


class Planned:
    """The toy study, whose statement stays open, and its plans, in this process."""

    def __init__(self, here):
        self.root, self.folder = here.root, here.notebook.parent
        of = 'means(t, "value") - means(t, "value").mean(), above=0'
        here.change('means(t, "value"), above=-9.0', of, here.reading)
        here.profile("quick", "{seeds: 6}")

    def plan(self, *entries):
        """Write plans: PLAN with other fields, None for those that it lacks."""
        lines = []
        for changed in entries:
            entry = {field: text for field, text in (PLAN | changed).items() if text is not None}
            lines.append("- " + "\n  ".join(f"{field}: {text}" for field, text in entry.items()))
        path = self.root / "data" / "plans" / "toy.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def run(self, profile="quick"):
        """The study's results at ``profile``, computed here."""
        book = notebooks.find(STUDY)
        for job in jobs_of(book, parameters.resolve(book, profile)):
            table = job.compute(**job.arguments, device="cpu", report=None)
            results.store(job, table, results.origin(job), device="here", wall_time=1.0, cost=36.0)
        return load(book, profile)

    def claims(self, profile="quick"):
        """The claims of the study's results at ``profile``."""
        return claims_of(self.run(profile))


@pytest.fixture
def planned(here):
    return Planned(here)


def test_a_plan_is_read_whole(planned):
    planned.plan({}, {"values": "{seeds: 9, rate: 1e-1}", "new_seeds": None, "needs": "bfloat16"})
    first, second = plans.every()
    assert (first.notebook, first.decides, first.expected_core_hours) == (STUDY, ["above"], 0.5)
    assert (
        first.values == {"labels": ["plain"], "rate": 0.5, "seeds": 6}
        and first.changed == {"seeds": 6}
        and first.needs is None
    )
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
    "a value out of range": ({"values": "{seeds: 6, rate: 2.0}"}, "rate must be in (0, 1], not 2.0"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_entry_is_one_line_that_names_it(planned, case):
    changed, message = BAD[case]
    planned.plan({}, changed)
    with pytest.raises(AlignbookError) as error:
        plans.every()
    line = str(error.value)
    assert line.startswith("data/plans/toy.yaml, entry 2: ") and message in line and "\n" not in line


def test_all_seeds_of_an_adopted_plan_count(planned):
    planned.plan({})
    run = planned.run()
    assert set(run.table["seed"]) == {0, 1, 2, 3, 4, 5} and claims_of(run)[0].seeds == 6


def test_what_an_open_claim_needs_is_told_with_its_core_hours(planned):
    claims = planned.claims()  # 36 s a seed, but for the checkpoints
    (claim,) = claims
    assert claim.outcome == OPEN and claim.needed["seeds"] == needed(claim)["seeds"]
    assert claim.needed["core_hours"] == pytest.approx(claim.needed["seeds"] / 100)
    assert f"{claim.needed['seeds']} new seeds would decide it" in claim_tables.claims_table(claims)


def test_the_committed_plans_are_of_claims_that_exist():
    for plan in plans.every():
        statements = notebooks.find(plan.notebook).reading.STATEMENTS
        claims = judged(statements, pd.DataFrame({"unit": []}), plan.values)
        assert {*plan.decides, *plan.judges} <= {claim.id for claim in claims}, plan


def test_a_claim_is_judged_on_the_runs_of_the_plan_that_judges_it(planned):
    (planned.folder / "profiles.yaml").write_text("quick: {seeds: 3}\n")
    (claim,) = planned.claims()
    assert claim.seeds == 3 and not claim.runs
    planned.plan({"values": "{seeds: 9}", "new_seeds": "[3, 8]", "judges": "[above]"})
    (claim,) = planned.claims()
    assert claim.seeds == 3  # the plan is not through
    (planned.folder / "profiles.yaml").write_text("quick: {seeds: 9}\n")
    planned.run()
    (planned.folder / "profiles.yaml").write_text("quick: {seeds: 3}\n")
    (claim,) = planned.claims()
    assert (claim.seeds, claim.headline, claim.runs) == (9, True, "seeds = 9")
    assert "On runs planned for it: seeds = 9." in claim_tables.claims_table([claim])
    planned.plan({"values": "{seeds: 9}", "new_seeds": "[3, 8]"})
    assert planned.claims()[0].seeds == 3


def test_runs_with_the_papers_values_judge_the_page_of_quick_and_not_the_reverse(planned):
    (planned.folder / "profiles.yaml").write_text("quick: {seeds: 9}\npaper: {seeds: 6}\n")
    planned.plan({"profile": "paper", "values": "{seeds: 6}", "new_seeds": None, "judges": "[above]"})
    planned.run(profile="paper")
    (claim,) = planned.claims()
    assert (claim.seeds, claim.runs) == (6, "profile paper, seeds = 6")
    planned.plan({"values": "{seeds: 9}", "new_seeds": None, "judges": "[above]"})
    assert planned.claims("paper")[0].seeds == 6
