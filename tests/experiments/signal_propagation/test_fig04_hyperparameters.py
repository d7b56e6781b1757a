"""Figures 4 and 11 to 15: networks on embedded images, and slopes and verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN
from companion.studies.signal_propagation.fig04_hyperparameters import reading
from companion.studies.signal_propagation.fig04_hyperparameters.design import conditions
from tests import judging

BOOK = "signal_propagation/fig04_hyperparameters"


def made_up(sign=1, loss=0.09):
    """Networks of 40 layers in which all goes with rates and batches as claimed, or (-1) the other way."""
    return judging.rows(
        0.02,
        family="dense",
        dataset="fashion_mnist",
        learning_rate=[0.01, 0.02, 0.04],
        batch_size=[32, 64],
        seed=range(7),
        layer=range(1, 41),
        train_loss=loss,
        train_accuracy=0.99,
        far=lambda row: sign * (1 + row.seed / 20) * (np.log2(row.learning_rate / row.batch_size) + 11),
        height=lambda row: 0.5 + 0.05 * row.far + row.noise,
        odd=lambda row: row.seed % 3 == 0 and row.learning_rate == 0.02,  # whose peak is out of order
        peak=lambda row: round(2 ** (3 + 0.4 * row.far)) + 3 * row.odd,
        alignment=lambda row: row.height / (1 + abs(row.layer - row.peak)),
        test_accuracy=lambda row: 0.89 + (0.5 * row.far + row.noise) / 100,
        test_loss=lambda row: 1 - 0.9 * row.height + row.noise / 10,
    )


PARAMETERS = judging.given(BOOK)
claims, outcomes = judging.of(reading, PARAMETERS)


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
    paper = conditions(judging.given(BOOK, "paper"))
    printed = reading.PRINTED[["family", "learning_rate", "batch_size"]].itertuples(index=False, name=None)
    assert set(printed) <= set(paper)


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_the_papers_directions_hold_or_are_contradicted(sign, outcome):
    found = outcomes(made_up(sign))
    for id in ("centre-rate", "centre-batch", "gap", "higher-reached", "ratio"):
        assert found[id] == outcome, id


def test_networks_that_missed_the_loss_count_in_cases_of_their_own():
    table = made_up()
    missed = made_up(-1, loss=0.5).assign(seed=lambda rows: rows["seed"] + 7)
    found = claims(pd.concat([table, missed], ignore_index=True))
    assert found["higher-reached"].outcome == HOLDS and found["higher-reached"].seeds == 7
    assert found["higher-all"].outcome != HOLDS and found["higher-all"].seeds == 14
    assert NOT_RUN in outcomes(made_up(loss=0.5)).values()


def test_height_and_test_loss_go_together_by_a_plain_correlation():
    table = made_up()
    nets = reading.dense(table)
    seed = nets[nets["seed"] == 0]
    values = reading.lower_loss(table, PARAMETERS)
    assert values[0] == pytest.approx(-np.corrcoef(seed["height"], seed["test_loss"])[0, 1])
    assert outcomes(table)["loss"] == HOLDS


def test_ranks_are_correlated_within_a_seed():
    nets = pd.DataFrame({"seed": [0] * 4 + [1] * 4, "peak": [1, 1, 2, 9, 3, 4, 5, 6], "reached": True})
    nets["ratio"] = [5, 5, 6, 70, 4, 3, 2, -90]  # a seed's own ranks, not those of all networks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "dense", lambda table: nets)
        assert reading.follows_ratio(None, None).to_dict() == pytest.approx({0: 1, 1: -1})
