"""Figures 19 to 23: a network on photographs, and verdicts on made-up spectra."""

import math

import numpy as np
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN
from companion.studies.signal_propagation.fig19_stable_rank import reading
from companion.studies.signal_propagation.shared import small_deep
from tests import judging


def made_up(slope=-0.3, noise=0.01, fisher=0.5):
    """Networks of three rates and two shares, whose accuracy changes by ``slope`` with their mean ln R."""
    return judging.rows(
        noise,
        learning_rate=[0.001, 0.005, 0.02],
        label_noise=[0.0, 0.2],
        seed=range(7),
        layer=range(1, 6),
        log_rank=lambda row: 1 + 2 * row.label_noise + 0.3 * (row.learning_rate < 0.01) + row.noise,
        rank=lambda row: math.exp(row.log_rank + 0.3 * (row.layer - 3)),
        fisher_rank=lambda row: row.rank ** (fisher + row.noise),
        test_accuracy=lambda row: (0.9 if slope < 0 else 0.1) + slope * row.log_rank,
        correlation=lambda row: 0.2 + 0.1 * row.test_accuracy + 0.2 * row.noise,
        alignment=lambda row: row.test_accuracy / 4,
        eigenvalue_050=lambda row: 10 ** (2 * row.label_noise - 3 + row.noise),
        train_accuracy=0.99,
        train_loss=0.1,
        passes=9,
    )


claims, outcomes = judging.of(reading, {})


def test_labels_are_drawn_anew_for_a_share_of_the_images():
    kind = {"images": 100, "test_images": 0, "side": 16, "seed": 1}
    x, y, x_test, y_test, classes = small_deep.images_of("photos", label_noise=0.0, **kind)
    noisy = small_deep.images_of("photos", label_noise=0.4, **kind)
    assert torch.equal(x, noisy[0]) and torch.equal(y_test, noisy[3]) and classes == 10
    changed = (y != noisy[1]).sum()
    assert 25 <= changed <= 40  # a tenth of the 40 drawn keep their label by chance
    whole = small_deep.load("photos", "train", n=100, seed=1).x
    np.testing.assert_allclose(x[3, 1, 2, 5], whole[3, 1, 4:6, 10:12].mean(), rtol=1e-5)
    assert len(x_test) == len(y_test) == len(small_deep.load("photos", "test"))


def test_lower_ranks_in_better_networks_hold():
    table = made_up()
    found = outcomes(table)
    assert found.pop("near-one") == CONTRADICTED  # correlation terms of about 0.2
    assert set(found.values()) == {HOLDS}
    near = outcomes(table.assign(correlation=table["correlation"] + 0.75 * (table["layer"] == 3)))
    assert near["near-one"] == HOLDS
    edge = outcomes(table.assign(correlation=table["correlation"] + 0.75 * (table["layer"] == 5)))
    assert edge["near-one"] == CONTRADICTED
    assert 0.9 < claims(table)["rank"].measured <= 1


def test_higher_ranks_in_better_networks_disagree():
    found = outcomes(made_up(0.3, fisher=1.5))
    wrong = {"near-one", "rank", "fisher-below"}
    assert {id for id, outcome in found.items() if outcome == CONTRADICTED} >= wrong
    turned = made_up()
    turned["label_noise"] = 0.2 - turned["label_noise"]
    assert outcomes(turned)["noise"] == CONTRADICTED and outcomes(turned)["rank"] == HOLDS


def test_the_papers_pairs_are_compared():
    table = made_up(noise=0)
    nets = reading.networks(table)
    assert reading.figures(nets) == {"blue": (0.02, 0.0), "orange": (0.001, 0.0), "green": (0.001, 0.2)}
    # ln R is 1 (blue), 1.3 (orange), 1.7 (green).
    assert claims(table)["noise"].measured == pytest.approx(0.4, abs=0.05)
    slow = table.assign(eigenvalue_050=10 ** -(1 + (100 + table["seed"]) * table["learning_rate"]))
    assert outcomes(slow)["decay"] == HOLDS
    fast = slow.assign(eigenvalue_050=1e-5 / slow["eigenvalue_050"])
    assert outcomes(fast)["decay"] == CONTRADICTED
    clean = nets[nets["label_noise"] == 0]
    assert reading.figures(clean) == {}
    assert outcomes(table[table["label_noise"] == 0])["noise"] == NOT_RUN


def test_by_noise_is_a_mean_over_the_rates_within_a_seed():
    table = made_up(noise=0.3)
    nets = reading.networks(table)
    for seed, found in reading.by_noise(table, {}).items():
        ranks = nets[nets["seed"] == seed].set_index(["learning_rate", "label_noise"])["log_rank"]
        expected = np.mean([ranks[rate, 0.2] - ranks[rate, 0.0] for rate in (0.001, 0.005, 0.02)])
        assert found == pytest.approx(expected)
