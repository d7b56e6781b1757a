"""Figure 9: rise and fall over the epoch of pre-training, on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.transferability.fig09_pretraining_epochs import experiment

EPOCHS = [0, 1, 2, 4, 8]
PARAMETERS = {"settings": ["plain"], "target": "cifar10", "source": "photos"}


def made_up(means, noise=0.3, seeds=4, setting="plain", source=(1, 20, 30, 40, 50)):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "setting": setting, "seed": seed, "epoch": epoch,
            "train_accuracy": 100.0, "source_train_accuracy": 87.0,
            "accuracy": mean + noise * rng.standard_normal(), "source_accuracy": up + rng.standard_normal(),
        }
        for seed in range(seeds)
        for epoch, mean, up in zip(EPOCHS, means, source, strict=True)
    )  # fmt: skip


def outcomes(table, settings=("plain",)):
    return {c.id: c.outcome for c in experiment.claims(table, PARAMETERS | {"settings": list(settings)})}


def test_a_curve_that_rises_and_falls_holds():
    assert outcomes(made_up([40, 50, 60, 55, 45])) == dict.fromkeys(("rises", "falls", "upstream"), HOLDS)


def test_a_curve_that_only_rises_disagrees():
    judged = outcomes(made_up([40, 45, 50, 55, 60], source=(1, 50, 40, 30, 20)))
    assert judged == {"rises": HOLDS, "falls": CONTRADICTED, "upstream": CONTRADICTED}


def test_noise_alone_gives_no_fall():
    # A flat curve: the peak of a seed itself would fall in every one of them.
    held = 0
    for trial in range(200):
        table = made_up([50] * 5, noise=1.0)
        rng = np.random.default_rng(trial)
        table["accuracy"] = 50 + rng.standard_normal(len(table))
        claim = next(c for c in experiment.claims(table, PARAMETERS) if c.id == "falls")
        held += claim.outcome == HOLDS
    assert held / 200 < 0.08


def test_peaks_are_those_of_the_other_seeds():
    frame = pd.DataFrame({0: [0.0, 0.0], 1: [9.0, 1.0], 2: [2.0, 8.0], 4: [10.0, 10.0]}, index=[5, 6])
    assert experiment.peaks(frame).to_dict() == {5: 2, 6: 1}
    assert experiment.peaks(frame.iloc[:1]).to_dict() == {5: 1}  # a single seed: its own


def test_other_settings_are_ours():
    table = pd.concat([made_up([40, 50, 60, 55, 45]), made_up([40, 50, 60, 55, 45], setting="small")])
    made = experiment.claims(table, PARAMETERS | {"settings": ["plain", "small"]})
    assert {c.id: c.ours for c in made if c.id.startswith("falls")} == {"falls": False, "falls-small": True}
    assert len({c.group for c in made}) == 2 * 3
    assert len(experiment.key_numbers(table, PARAMETERS | {"settings": list(experiment.SETTINGS)})) <= 3


def test_finding_and_key_numbers_have_one_sign():
    for means, sign in (([40, 50, 60, 55, 45], "-15."), ([40, 45, 50, 55, 70], "+1")):
        table = made_up(means, noise=0.01)
        (key,) = experiment.key_numbers(table, PARAMETERS)
        assert key.here.startswith(sign) and key.here.split(" / ")[0] in experiment.finding(table, PARAMETERS)


def test_reach_says_where_the_source_is_best():
    rising = experiment.reach(made_up([40, 50, 60, 55, 45]), PARAMETERS)
    passed = experiment.reach(made_up([40] * 5, source=(1, 20, 50, 40, 30)), PARAMETERS)
    assert "as it is, at the last epoch (87 %" in rising and "as it is, at epoch 2 of 8" in passed
    assert experiment.reach(pd.DataFrame({"unit": []}), PARAMETERS) == ""


def test_the_finding_follows_the_claims():
    for means, noise, said in (
        ([40, 50, 60, 55, 45], 0.3, ", falls from epoch 2 on"),
        ([40, 45, 50, 55, 60], 0.3, ", does not fall"),
        ([40, 50, 60, 60, 59.9], 3.0, ", undecided"),
    ):
        assert experiment.finding(made_up(means, noise=noise), PARAMETERS).endswith(f"{said}.")


def test_what_is_gained_is_against_no_pre_training():
    table = made_up([50, 50, 60, 55, 45], noise=0.0)
    assert "transfer -5.0 as it is (points)" in experiment.gained(table, PARAMETERS)
    assert experiment.gained(pd.DataFrame({"unit": []}), PARAMETERS) == ""


def test_too_few_epochs_or_nothing():
    two = made_up([40, 50, 60, 55, 45])
    two = two[two["epoch"] < 2]
    assert set(outcomes(two).values()) == {NOT_RUN} == set(outcomes(pd.DataFrame({"unit": []})).values())
    assert "nothing to compare" in experiment.finding(two, PARAMETERS)
    assert experiment.key_numbers(two, PARAMETERS) == []
    one = made_up([40, 50, 60, 55, 45], seeds=1)
    assert set(outcomes(one).values()) == {UNDECIDED}
    assert experiment.finding(one, PARAMETERS).endswith("undecided.")


def test_units_hold_what_the_settings_mean():
    book = notebooks.find("transferability/fig09_pretraining_epochs")
    values = parameters.resolve(book, "quick")
    made = experiment.units(values)
    noise = {unit.arguments["setting"]: unit.arguments["label_noise"] for unit in made}
    assert noise["plain"] == noise["small"] == 0 < noise["label noise"]
    assert all(unit.arguments["checkpoints"][0] == 0 for unit in made)
    for unit in made:
        over_fitted, epochs = unit.arguments["setting"] == "over-fitted", unit.arguments["epochs"]
        assert unit.arguments["regularised"] != over_fitted and unit.arguments["checkpoints"][-1] == epochs
        assert epochs == values["long_epochs" if over_fitted else "epochs"]
    with pytest.raises(AlignbookError, match="settings"):
        parameters.resolve(book, "quick", {"settings": ["none"]})
