"""Stored results that outlive a change of code: what stands, what does not, and what is left open."""

import hashlib
import json
import math

import numpy as np
import pandas as pd
import pytest

from companion.runs import notebooks, parameters, results, verify
from companion.runs.results import written
from companion.runs.run import jobs_of
from tests.conftest import forget_toys

DRAWS = "numpy_stream(seed, label).standard_normal(3) * rate"


class Study:
    """The toy study, and what is stored of it."""

    def __init__(self, here):
        self.here = here
        self.profiles(quick="{labels: [plain], rate: 0.5, seeds: 3}")

    def profiles(self, **profiles):
        others = {
            "smoke": "{labels: [slow], rate: 1.0, seeds: 1}",
            "paper": "{labels: [slow], rate: 1.0, seeds: 2}",
        }
        for name, values in (others | profiles).items():
            self.here.profile(name, values)

    def change(self, new, old=DRAWS):
        self.here.change(old, new)
        forget_toys()

    def jobs(self, profile="quick"):
        notebook = notebooks.find("fig99")
        return jobs_of(notebook, parameters.resolve(notebook, profile))

    def compute(self, profile="quick"):
        """Store the jobs of a profile."""
        assert self.here.call("run", "fig99", "--no-notebook", "--profile", profile)[0] == 0

    def stale(self, profile="quick"):
        items = [results.peek(job) for job in self.jobs(profile)]
        return sum(bool(item.stale()) for item in items if item)

    def records(self, profile="quick"):
        return [results.peek(job).provenance for job in self.jobs(profile) if results.exists(job)]

    def edit_record(self, job, **changes):
        place = results.location(job)
        path = place.with_name(f"{place.name}.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def study(here):
    return Study(here)


def test_an_equivalent_change_stands(study):
    study.compute()
    before = study.records()
    study.change(f"1 * {DRAWS}")
    assert study.stale() == 3
    verification = verify.verify("fig99")
    assert (verification.verified, verification.stale, study.stale()) == (3, {}, 0)
    (outcome,) = verification.outcomes  # one job of the only kind
    assert (outcome.largest, outcome.column, outcome.tolerance) == (0.0, None, 0.0)
    for old, new in zip(before, study.records(), strict=True):
        assert new.pop("code") != old.pop("code")
        record = new.pop("verified")
        assert record.pop("date") and record == {
            "job": results.file_name(outcome.stored.job), "largest_difference": 0.0, "commit": None
        }  # fmt: skip
        assert new == old
    assert verify.verify("fig99").outcomes == []  # nothing is left to do


def test_a_change_of_a_thousandth_does_not_stand(study):
    study.compute()
    study.change(f"{DRAWS} * 1.001")
    verification = verify.verify("fig99")
    (outcome,) = verification.outcomes
    assert "DIFFERS by 1.0e-03 in column value (bit for bit asked for" in str(outcome)
    assert "it was stored" not in str(outcome)  # here: it is the code
    (reason,) = verification.stale
    assert reason == "a recomputed table differs" and len(verification.stale[reason]) == 3
    assert verify.verify("fig99", tolerance=1e-4).verified == 0 and study.stale() == 3
    assert verify.verify("fig99", tolerance=0.01).verified == 3 and study.stale() == 0
    assert study.records()[0]["verified"]["largest_difference"] == pytest.approx(1e-3)


def test_one_that_differs_leaves_all_stale(study):
    study.profiles(
        quick="{labels: [plain, slow], rate: 0.5, seeds: 1}", paper="{labels: [plain], rate: 0.9, seeds: 3}"
    )
    study.compute()
    study.compute("paper")
    study.change(f"{DRAWS} * (2 if rate > 0.8 else 1)")
    verification = verify.verify("fig99")
    assert [outcome.agrees for outcome in verification.outcomes].count(False) == 1
    assert len(verification.outcomes) == 3  # a profile does not stand for another, nor a label
    assert verification.verified == 0 and study.stale() == 2 and study.stale("paper") == 3


def test_a_result_without_a_digest_is_stale_until_it_is_verified(study):
    study.compute()
    study.edit_record(study.jobs()[0], code=None)
    assert study.stale() == 1
    assert verify.verify("fig99").verified == 1 and study.stale() == 0


def test_a_job_whose_data_have_changed_is_not_verified(study):
    study.change('"dataset": "digits", "label": label', '"label": label')
    study.change("def compute(*, dataset,", "def compute(*,")
    study.compute()
    study.edit_record(study.jobs()[0], code="0" * 64, data={"name": "digits", "sha256": "0" * 64})
    assert verify.verify("fig99").outcomes == [] and study.stale() == 1


def test_a_broken_table_is_not_verified(study):
    study.compute()
    study.change(f"1 * {DRAWS}")
    (study.here.records()[0].with_suffix(".csv")).write_text("step,value\n0,1\n")
    with pytest.warns(UserWarning, match="is broken"):
        verification = verify.verify("fig99")
    assert verification.verified == 2 and verification.stale == {"broken": ["plain-seed0"]}


def test_a_kind_for_which_there_is_no_time_stays_stale(study):
    study.profiles(quick="{labels: [plain, slow], rate: 0.5, seeds: 1}")
    study.compute()
    study.change(f"1 * {DRAWS}")
    study.edit_record(study.jobs()[1], cost_s=1000.0)
    verification = verify.verify("fig99", minutes=1, workers=1)
    assert verification.verified == 1 and study.stale() == 1
    assert verification.stale == {"no time, the cheapest took 1000 s": ["slow-seed0"]}


def test_on_another_processor_the_tolerance_is_that_of_rounding(study):
    study.compute()
    for job in study.jobs():
        study.edit_record(job, device="another, 1 thread")
    study.change(f"{DRAWS} * (1 + 1e-9)")
    verification = verify.verify("fig99")
    assert verification.verified == 3 and 0 < verification.outcomes[0].largest < 1e-6
    study.change(DRAWS, f"{DRAWS} * (1 + 1e-9)")
    study.change(f"{DRAWS} * (1 + 1e-4)")
    (outcome,) = verify.verify("fig99").outcomes
    assert not outcome.agrees and str(outcome).endswith("; it was stored on another, 1 thread")


def test_a_job_that_diverges_after_as_many_steps_stands(study):
    study.profiles(quick="{labels: [diverge], rate: 0.5, seeds: 1}")
    study.compute()
    study.change(f"1 * {DRAWS}")
    assert verify.verify("fig99").verified == 1 and study.stale() == 0
    study.change("Diverged(8)", "Diverged(7)")
    (outcome,) = verify.verify("fig99").outcomes
    assert (outcome.agrees, outcome.column) == (False, "diverged_after_steps")


OLD = {"step": [0, 1, 2], "value": [1.0, -4.0, math.nan], "label": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({}, (0.0, None)),
        ({"value": [1.0, -4.000004, math.nan]}, (1e-6, "value")),
        ({"value": [1.000004, -4.0, math.nan]}, (1e-6, "value")),  # of the largest, not of its own
        ({"value": [1.0, -4.0, 0.0]}, (math.inf, "value")),
        ({"value": [1.0, -4.0, math.inf]}, (math.inf, "value")),
        ({"step": [0, 1, 3]}, (math.inf, "step")),
        ({"label": ["a", "b", "d"]}, (math.inf, "label")),
        ({"more": [0, 0, 0]}, (math.inf, "names")),
        ({"step": [0, 1], "value": [1.0, -4.0], "label": ["a", "b"]}, (math.inf, "rows")),
    ],
)
def test_the_difference_is_a_share_of_the_largest_value(new, expected):
    text = written(pd.DataFrame(OLD))
    share, column = verify.difference(
        pd.DataFrame(OLD), written(pd.DataFrame(OLD | new)), hashlib.sha256(text).hexdigest()
    )
    assert column == expected[1] and share == pytest.approx(expected[0], rel=1e-6)


def test_a_column_of_zeros_allows_no_difference():
    old, new = pd.DataFrame({"value": [0.0, 0.0]}), pd.DataFrame({"value": [0.0, np.nextafter(0, 1)]})
    assert verify.difference(old, written(new)) == (math.inf, "value")


def test_jobs_are_of_one_kind_whose_arguments_differ_in_numbers_alone():
    one = {"label": "a", "seed": 1, "steps": [10, 20], "deep": {"rate": 0.1, "pool": "max"}, "centred": True}
    assert verify.without_numbers(one) == {
        "label": "a",
        "steps": [],
        "deep": {"pool": "max"},
        "centred": True,
    }
    assert verify.without_numbers(one) != verify.without_numbers(one | {"centred": False})
    assert verify.without_numbers(one) != verify.without_numbers(one | {"seed": None})


def test_the_command_says_what_it_recomputed_and_what_stays_stale(here):
    here.profile("quick", "{labels: [plain], rate: 0.5, seeds: 2}")
    here.call("run", "toy/fig99_toy", "--no-notebook")
    here.change(DRAWS, f"1 * {DRAWS}")
    assert here.json("status")[1]["stale"] == 2
    status, out, _ = here.call("verify", "fig99")
    assert status == 0 and "agrees bit for bit" in out.splitlines()[0]
    assert out.splitlines()[1] == "2 stale jobs verified by 1 that were recomputed"
    here.change("1 * numpy_stream", "2 * numpy_stream")
    status, out, _ = here.call("verify", "fig99", "--json")
    (reason,) = json.loads(out)["stale"]
    assert (status, reason) == (1, "a recomputed table differs")
    assert here.json("status")[1]["stale"] == 2
