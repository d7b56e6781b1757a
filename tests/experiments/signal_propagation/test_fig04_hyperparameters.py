"""Figures 4 and 11 to 15: networks on embedded images, and slopes and verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN
from companion.runs import notebooks, parameters
from companion.studies.signal_propagation.fig04_hyperparameters import reading
from companion.studies.signal_propagation.fig04_hyperparameters.design import conditions
from tests import judging
from tests.judging import QUIET

BOOK = "signal_propagation/fig04_hyperparameters"
PARAMETERS = {
    "dense_dataset": "digits", "dense_rates": [0.01, 0.02, 0.04], "dense_batches": [32, 64], "dense_depth": 4,
    "dense_width": 9, "dense_images": 100, "dense_epochs": 2, "dataset": "photos", "second_dataset": "photos",
    "vgg_rates": [0.01, 0.04], "vgg_rate": 0.01, "vgg_batches": [20, 40], "adam_rates": [0.001],
    "resnet_rates": [0.01], "resnet_rate": 0.01, "resnet_batches": [20], "resnet_adam_rates": [0.001],
    "resnet_second_rates": [0.01], "second_rates": [0.01], "second_epochs": 3, "batch_size": 20,
    "width": 8, "side": 8, "images": 24,
    "epochs": 1, "momentum": 0.9, "weight_decay": 0.0005, "alignment_images": 5, "test_images": 30,
    "dense_alignment_images": 7, "second_alignment_images": 4, "seeds": 7, "dense_seeds": 7,
    "dense_first_seed": 0,
}  # fmt: skip


def compute(job, **changes):
    arguments = job.arguments | changes
    return job.compute(**arguments, **QUIET)


def made_up(peak, gap, height, *, noise=0.02, loss=0.09, layers=40):
    """Networks of the conditions of ``PARAMETERS``: functions of (log2 rate, log2 batch)."""
    rng, frames = np.random.default_rng(3), []
    for family, rate, batch in conditions(PARAMETERS):
        for seed in range(PARAMETERS["seeds"]):
            logs = np.log2(rate), np.log2(batch)
            places = np.arange(1, layers + 1)
            top = np.clip(round(2 ** (peak(*logs) + 0.1 * rng.standard_normal())), 1, layers)
            alignment = (height(*logs) + noise * rng.random()) / (1 + np.abs(places - top))
            frames.append(
                pd.DataFrame(
                    {
                        "family": family, "dataset": "photos", "learning_rate": rate, "batch_size": batch,
                        "seed": seed, "layer": places, "alignment": alignment, "passes": 5,
                        "train_loss": loss, "train_accuracy": 0.99,
                        "test_accuracy": 0.99 - (gap(*logs) + noise * rng.standard_normal()) / 100,
                        "test_loss": 1 - height(*logs) + 0.01 * rng.standard_normal(),
                    }
                )
            )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


FULL = PARAMETERS | {"dense_dataset": "fashion_mnist", "dataset": "cifar10", "side": 32}


claims, outcomes = judging.of(reading, FULL)


def as_claimed(sign):
    """Peak, gap and height over (log2 rate, log2 batch); with sign -1 all the other way."""
    return (
        lambda rate, batch: 3 + sign * (0.4 * (rate + 5.5) - 0.4 * (batch - 5)),
        lambda rate, batch: 10 - sign * (0.4 * (rate + 5.5) - 0.6 * (batch - 5)),
        lambda rate, batch: 0.5 + sign * (0.05 * (rate + 5.5) - 0.05 * (batch - 5)),
    )


def test_slopes_are_those_of_both_logarithms_at_once():
    # Rates and batches that go together: a fit on one of them alone would be wrong.
    rows = [(0.01, 32, 0), (0.02, 64, 0), (0.04, 128, 0), (0.04, 32, 0)]
    nets = pd.DataFrame(rows, columns=["learning_rate", "batch_size", "seed"])
    nets["value"] = 2 * np.log2(nets["learning_rate"]) - 3 * np.log2(nets["batch_size"]) + 7
    assert reading.slopes(nets, "rate", "value").to_dict() == pytest.approx({0: 2})
    assert reading.slopes(nets, "batch", "value").to_dict() == pytest.approx({0: 3})  # per halving
    # Two that vary together tell nothing apart.
    assert len(reading.slopes(nets.iloc[:3], "rate", "value")) == 0
    alone = nets[nets["batch_size"] == 32]
    assert reading.slopes(alone, "rate", "value").to_dict() == pytest.approx({0: 2})
    assert len(reading.slopes(alone, "batch", "value")) == 0


def test_everything_that_is_printed_is_computed():
    paper = conditions(parameters.resolve(notebooks.find(BOOK), "paper"))
    printed = reading.PRINTED[["family", "learning_rate", "batch_size"]].itertuples(index=False, name=None)
    assert set(printed) <= set(paper)


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_the_papers_directions_hold_or_are_contradicted(sign, outcome):
    found = outcomes(made_up(*as_claimed(sign)))
    for id in ("centre-rate", "centre-batch", "gap", "higher-reached", "ratio"):
        assert found[id] == outcome, id


def test_networks_that_missed_the_loss_count_in_cases_of_their_own():
    table = made_up(*as_claimed(1))
    missed = made_up(*as_claimed(-1), loss=0.5).assign(seed=lambda rows: rows["seed"] + 7)
    found = claims(pd.concat([table, missed], ignore_index=True))
    assert found["higher-reached"].outcome == HOLDS and found["higher-reached"].seeds == 7
    assert found["higher-all"].outcome != HOLDS and found["higher-all"].seeds == 14
    assert set(outcomes(made_up(*as_claimed(1), loss=0.5)).values()) >= {NOT_RUN}


def test_height_and_test_loss_go_together_by_a_plain_correlation():
    table = made_up(*as_claimed(1))
    nets = reading.dense(table)
    seed = nets[nets["seed"] == 0]
    values = reading.lower_loss(table, FULL)
    assert values[0] == pytest.approx(-np.corrcoef(seed["height"], seed["test_loss"])[0, 1])
    assert outcomes(table)["loss"] == HOLDS


def test_ranks_are_correlated_within_a_seed():
    nets = pd.DataFrame({"seed": [0] * 4 + [1] * 4, "peak": [1, 1, 2, 9, 3, 4, 5, 6], "reached": True})
    nets["ratio"] = [5, 5, 6, 70, 4, 3, 2, -90]  # a seed's own ranks, not those of all networks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "dense", lambda table: nets)
        assert reading.follows_ratio(None, None).to_dict() == pytest.approx({0: 1, 1: -1})
