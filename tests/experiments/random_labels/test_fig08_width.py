"""Figure 8 of Maennel et al. 2020: width against negative transfer."""

import pandas as pd
import pytest
import torch

from alignbook.training.nets import SimpleCNN, he_normal_
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.random_labels.fig08_width import experiment, reading
from tests import judging

PARAMETERS = judging.given("random_labels/fig08_width", labels=["random"], dense_units=[8, 64])


def made_up(gaps, dead=(0.0, 0.0), seeds=4, side=16):
    """Learning curves with the given gaps (by width) between scratch and pre-trained.

    dead : share of units that are dead beyond those from scratch, after one epoch and in the end
    """
    gone = {0: 0.0, 1: dead[0], 4: dead[1]}
    return judging.rows(
        0.01, labels="random", dense_units=[*gaps], side=side, seed=range(seeds),
        start=["scratch", "pretrained"], epoch=[*gone],
        accuracy=lambda row: 0.5 - (row.start == "pretrained") * (gaps[row.dense_units] + row.noise),
        dead=lambda row: 0.3 + (row.start == "pretrained") * (gone[row.epoch] + abs(row.noise)),
    )  # fmt: skip


_, outcomes = judging.of(reading, PARAMETERS)


def test_both_networks_of_a_seed_differ_by_pretraining_alone():
    table = judging.compute(experiment.jobs(PARAMETERS)[0], upstream_epochs=0)
    curves = [table[table["start"] == start].drop(columns="start") for start in ("scratch", "pretrained")]
    pd.testing.assert_frame_equal(*(curve.reset_index(drop=True).round(6) for curve in curves))


def test_dead_units_are_those_that_no_image_activates():
    draw = torch.Generator().manual_seed(0)
    net, x = he_normal_(SimpleCNN((3, 4, 4), [4], 200, 2), 1.0, draw), torch.randn(7, 3, 4, 4, generator=draw)
    hidden = net.dense(net.features(x, 1).permute(0, 2, 3, 1).flatten(1))
    share = (hidden <= 0).all(0).double().mean().item()
    assert 0 < share < 0.5 and experiment.dead_share(net, x, batch_size=3) == pytest.approx(share)


def test_claims_come_out_either_way():
    found = outcomes(made_up({8: 0.2, 64: 0.0}, dead=(0.5, 0.2)))
    assert set(found.values()) == {HOLDS} and len(found) == 4
    turned = outcomes(made_up({8: -0.1, 64: 0.2}, dead=(-0.5, -0.2)))
    assert set(turned.values()) == {CONTRADICTED}
    found = outcomes(made_up({8: 0.2, 64: 0.0}, dead=(0.5, 0.0)))
    assert (found["abrupt-random"], found["permanent-random"]) == (HOLDS, NO_EFFECT)
    assert outcomes(made_up({8: 0.2, 64: 0.0}, seeds=2))["closes-random"] == OPEN
