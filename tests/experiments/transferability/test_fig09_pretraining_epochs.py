"""Figure 9: rise and fall over the epoch of pre-training, on made-up tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import engine, notebooks, parameters, plans
from alignbook.statements import judged
from alignbook.studies.transferability.fig09_pretraining_epochs import experiment, reading

EPOCHS = [0, 1, 2, 4, 8]
PARAMETERS = {
    "settings": ["plain"],
    "target": "cifar10",
    "source": "photos",
    "tuning_epochs": 12,
    "checkpoints": [1, 2, 8, 32],
    "epochs": 16,
}


def made_up(
    means, noise=0.3, seeds=4, setting="plain", source=(1, 50, 60, 70, 80), learned=99.0, fitted=97.0
):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "setting": setting, "seed": seed, "epoch": epoch,
            "train_accuracy": fitted, "source_train_accuracy": learned,
            "accuracy": mean + noise * rng.standard_normal(), "source_accuracy": up + rng.standard_normal(),
        }
        for seed in range(seeds)
        for epoch, mean, up in zip(EPOCHS, means, source, strict=True)
    )  # fmt: skip


def claims(table, settings=("plain",)):
    return {c.id: c for c in judged(reading.STATEMENTS, table, PARAMETERS | {"settings": list(settings)})}


def outcomes(table, settings=("plain",)):
    return {id: claim.outcome for id, claim in claims(table, settings).items()}


def finding(table, settings=("plain",)):
    given = PARAMETERS | {"settings": list(settings)}
    return reading.finding(table, given, claims(table, settings))


def test_a_curve_that_rises_and_falls_holds():
    assert outcomes(made_up([40, 50, 60, 55, 45])) == dict.fromkeys(("rises", "falls", "upstream"), HOLDS)


def test_a_curve_that_only_rises_contradicts():
    found = outcomes(made_up([40, 45, 50, 55, 60], source=(1, 95, 85, 75, 65)))
    assert found == {"rises": HOLDS, "falls": CONTRADICTED, "upstream": CONTRADICTED}


def test_a_target_that_is_not_learned_decides_nothing_about_rise_and_fall():
    table = made_up([40, 50, 60, 55, 45], fitted=88.0)
    found = claims(table)
    assert found["rises"].outcome == found["falls"].outcome == NOT_JUDGED
    assert "at most 5; here 12" in found["rises"].test and found["upstream"].outcome == HOLDS
    assert "up to 12 % of the target's training images are wrong; we allow 5 %" in finding(table)
    # The rise compares epoch 0 with the peak, the fall the peak with the end.
    for epoch, unfit in ((0, "rises"), (8, "falls")):
        table = made_up([40, 50, 60, 55, 45])
        table.loc[table["epoch"] == epoch, "train_accuracy"] = 80.0
        found = outcomes(table)
        assert {id for id in found if found[id] == NOT_JUDGED} == {unfit}


def test_what_can_be_seen_past_the_peak():
    seen = reading.past_peak(made_up([40, 50, 60, 55, 45], learned=92.0))
    assert (seen["peak, epoch"], seen["later epochs"]) == ("2", "2")
    assert seen["at the end, %"].startswith("92.0")


def test_a_source_that_is_not_learned_decides_nothing_about_over_fitting():
    table = made_up([40, 45, 50, 55, 60], learned=33.0)
    assert outcomes(table) == {"rises": HOLDS, "falls": NOT_JUDGED, "upstream": NOT_JUDGED}
    assert "at least 95; here 33" in claims(table)["falls"].test
    assert finding(table).startswith(
        "We do not judge whether accuracy after transfer falls between epochs 4 and 8, the last we look at"
    )
    assert "gets 33 % of its source's training images right" in finding(table)


@pytest.mark.parametrize(("setting", "end"), [("plain", ""), ("over-fitted", "-over-fitted")])
def test_a_source_that_is_known_by_heart_alone_decides_nothing(setting, end):
    settings = tuple({"plain": 0, setting: 0})
    for test, outcome in ((61, HOLDS), (28, NOT_JUDGED)):
        rising = made_up([40, 50, 60, 55, 45], 0.01, source=(1, 5, 10, 20, test), setting=setting)
        found = claims(pd.concat([rising, made_up([40, 50, 60, 55, 45])]) if end else rising, settings)
        assert found[f"falls{end}"].outcome == found[f"upstream{end}"].outcome == outcome
        assert found[f"rises{end}"].outcome == HOLDS
    said = finding(rising, settings)
    if not end:
        assert "gets 28 % of its source's test images right (we ask for 60 %). Before the peak" in said
        assert "accuracy after transfer rises by 20.0 points" in said
        both = pd.concat([rising, rising.assign(setting="over-fitted")])
        assert "Nor do we judge this after over-fitting" in finding(both, ("plain", "over-fitted"))


def test_peaks_that_differ_are_named():
    accuracy = pd.DataFrame({0: [0.0, 1.0, 2.0], 1: [9.0, 1.0, 4.0], 2: [2.0, 8.0, 4.0], 4: 3.0})
    assert reading._from_peak(PARAMETERS, accuracy) == "between its peak (epoch 1 or 2) and epoch 4"


def test_noise_alone_gives_no_fall():
    # A flat curve: the peak of a seed itself would fall in every one of them.
    held, table = 0, made_up([50] * 5, noise=1.0)
    for trial in range(200):
        rng = np.random.default_rng(trial)
        table["accuracy"] = 50 + rng.standard_normal(len(table))
        held += outcomes(table)["falls"] == HOLDS
    assert held / 200 < 0.08


def test_peaks_are_those_of_the_other_seeds():
    frame = pd.DataFrame({0: [0.0, 0.0], 1: [9.0, 1.0], 2: [2.0, 8.0], 4: [10.0, 10.0]}, index=[5, 6])
    assert reading.peaks(frame).to_dict() == {5: 2, 6: 1}
    assert reading.peaks(frame.iloc[:1]).to_dict() == {5: 1}  # a single seed: its own


def test_other_settings_are_ours():
    falling = [40, 50, 60, 55, 45]
    table = pd.concat([made_up(falling), made_up(falling, setting="small")])
    made = claims(table, ("plain", "small"))
    assert {id: c.ours for id, c in made.items() if "falls" in id} == {"falls": False, "falls-small": True}
    assert [id for id, claim in made.items() if claim.headline] == ["falls"]


def test_the_finding_says_both_settings():
    over = made_up([40, 50, 60, 55, 45], noise=0.01, setting="over-fitted")
    table = pd.concat([over, made_up([40, 45, 50, 55, 60], learned=33.0)])
    said = finding(table, ("plain", "over-fitted"))
    assert said.index("We do not judge") < said.index("it falls by 15.0 points past its peak")
    assert finding(over, ("over-fitted",)).startswith("After over-fitting a small source, it falls by")
    peaked = made_up([40, 50, 60, 55, 45])
    assert "falls again between epochs 2 and 8, the last we look at, by" in finding(peaked)
    elsewhere = {id: replace(claim, runs="source = cifar10") for id, claim in claims(peaked).items()}
    assert "between epochs 8 and 16, the last" in reading.finding(peaked, PARAMETERS, elsewhere)
    unfit = finding(over.assign(train_accuracy=88.0), ("over-fitted",))
    assert "we do not judge whether it falls past its peak (it falls by 15.0 points)" in unfit
    not_known = made_up([40, 50, 60, 55, 45], 0.01, source=(1, 5, 10, 20, 28), setting="over-fitted")
    given = PARAMETERS | {"settings": ["plain", "over-fitted"]}
    assert reading.unjudged(not_known, given) == "over-fitted +15.0"
    assert reading.unjudged(over, given) == ""
    numbers = reading.key_numbers(table, PARAMETERS)
    assert [number.here.split(" ")[0].split(".")[0] for number in numbers] == ["-5", "+10", "3"]


@pytest.mark.parametrize(
    ("means", "noise", "outcome"),
    [
        ([40, 50, 60, 55, 45], 0.3, HOLDS),
        ([40, 45, 50, 55, 60], 0.3, CONTRADICTED),
        ([40, 50, 60, 60, 59.9], 3.0, UNDECIDED),
    ],
)
def test_the_finding_follows_the_claims(means, noise, outcome):
    table = made_up(means, noise=noise)
    where = reading._from_peak(PARAMETERS, reading.by_epoch(table, "plain", "accuracy"))
    assert finding(table).startswith(reading.SAID[outcome].format(where))


def test_too_few_epochs_or_nothing():
    two = made_up([40, 50, 60, 55, 45])
    two = two[two["epoch"] < 2]
    assert set(outcomes(two).values()) == {NOT_RUN} == set(outcomes(pd.DataFrame({"unit": []})).values())
    assert "nothing to compare" in finding(two)
    assert reading.key_numbers(pd.DataFrame({"unit": []}), PARAMETERS) == []
    one = made_up([40, 50, 60, 55, 45], seeds=1)
    assert set(outcomes(one).values()) == {UNDECIDED}
    assert finding(one).startswith("It is undecided")


def test_jobs_hold_what_the_settings_mean():
    book = notebooks.find("transferability/fig09_pretraining_epochs")
    values = parameters.resolve(book, "quick")
    made = experiment.jobs(values)
    noise = {job.arguments["setting"]: job.arguments["label_noise"] for job in made}
    assert list(noise) == list(reading.SETTINGS)
    assert noise["plain"] == noise["small"] == 0 < noise["label noise"]
    assert all(job.arguments["checkpoints"][0] == 0 for job in made)
    for job in made:
        over_fitted, epochs = job.arguments["setting"] == "over-fitted", job.arguments["epochs"]
        assert job.arguments["regularised"] != over_fitted and job.arguments["checkpoints"][-1] == epochs
        assert epochs == values["long_epochs" if over_fitted else "epochs"]
    with pytest.raises(AlignbookError, match="settings"):
        parameters.resolve(book, "quick", {"settings": ["none"]})


def test_runs_that_judge_the_page_train_as_long_as_it_does():
    """The finding gives the page's last epoch for theirs; the text says how many are past their peak."""
    book = notebooks.find("transferability/fig09_pretraining_epochs")
    page = parameters.resolve(book, "quick")
    judging = [plan for plan in plans.of(book.name) if "falls" in plan.judges]
    assert judging and {plan.values["epochs"] for plan in judging} == {page["epochs"]}
    run = engine.load_values(book, judging[0].values) or pytest.skip("nothing is stored")
    peaks = reading.peaks(reading.by_epoch(run.judged_table, reading.PLAIN, "accuracy"))
    assert set(peaks) == {run.parameters["checkpoints"][-1]}
