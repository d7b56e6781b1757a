"""Figure 9: rise and fall over the epoch of pre-training, on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN, t_interval
from companion.runs import notebooks, parameters, plans
from companion.runs.run import load_values
from companion.studies.transferability.fig09_pretraining_epochs import reading
from tests import judging

EPOCHS = [0, 1, 2, 4, 8]
PARAMETERS = {"settings": ["plain"]}


def made_up(means, noise=0.3, source=(1, 50, 60, 70, 80)):
    means, source = dict(zip(EPOCHS, means, strict=True)), dict(zip(EPOCHS, source, strict=True))
    return judging.rows(
        noise=noise,
        setting="plain",
        seed=range(4),
        epoch=EPOCHS,
        accuracy=lambda row: means[row.epoch] + row.noise,
        source_accuracy=lambda row: source[row.epoch] + row.noise,
    )


_, outcomes = judging.of(reading, PARAMETERS)


def test_a_curve_that_rises_and_falls_holds():
    assert set(outcomes(made_up([40, 50, 60, 55, 45])).values()) == {HOLDS}


def test_a_curve_that_only_rises_contradicts():
    found = outcomes(made_up([40, 45, 50, 55, 60], source=(1, 95, 85, 75, 65)))
    assert found == {"rises-plain": HOLDS, "falls-plain": CONTRADICTED, "upstream-plain": CONTRADICTED}


def test_a_plateau_is_no_effect_and_noise_is_open():
    assert outcomes(made_up([40, 50, 60, 60, 59.9], noise=0.1))["falls-plain"] == NO_EFFECT
    assert outcomes(made_up([40, 50, 60, 60, 59.9], noise=3.0))["falls-plain"] == OPEN


def test_noise_alone_gives_no_fall():
    # A flat curve: the peak of a seed itself would fall in every one of them.
    held, table = 0, made_up([50] * 5)
    for trial in range(60):
        table["accuracy"] = 50 + np.random.default_rng(trial).standard_normal(len(table))
        held += t_interval(reading.fall(table, PARAMETERS, "plain"))[2][0] > 0
    assert held / 60 < 0.08


def test_peaks_are_those_of_the_other_seeds():
    frame = pd.DataFrame({0: [0.0, 0.0], 1: [9.0, 1.0], 2: [2.0, 8.0], 4: [10.0, 10.0]}, index=[5, 6])
    assert reading.peaks(frame).to_dict() == {5: 2, 6: 1}
    assert reading.peaks(frame.iloc[:1]).to_dict() == {5: 1}  # a single seed: its own


def test_runs_that_judge_the_page_train_as_long_as_it_does():
    """The page says that in all of them the peak is the last checkpoint before the end."""
    book = notebooks.find("transferability/fig09_pretraining_epochs")
    page = parameters.resolve(book, "quick")
    judges = [plan for plan in plans.of(book.name) if "falls-plain" in plan.judges]
    assert judges and {plan.values["epochs"] for plan in judges} == {page["epochs"]}
    run = load_values(book, judges[0].values) or pytest.skip("nothing is stored")
    peaks = reading.peaks(reading.by_epoch(run.table, reading.PLAIN, "accuracy"))
    assert set(peaks) == {run.parameters["checkpoints"][-1]}
