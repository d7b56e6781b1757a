"""Figure 8 of Maennel et al. 2020: width against negative transfer."""

from functools import partial

import pandas as pd
import pytest
import torch

from alignbook.training.nets import SimpleCNN
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.random_labels.fig08_width import experiment, reading
from tests import judging
from tests.judging import QUIET

SMALL = {
    "dataset": "photos", "labels": ["real", "random"], "dense_units": 12, "convolutions": 2, "filters": 8,
    "side": 8, "upstream_images": 32, "upstream_classes": 2, "upstream_epochs": 2, "downstream_images": 50,
    "classes": 10, "epochs": 2, "record": [1], "batch_size": 16, "learning_rate": 0.01,
    "init_scale": 1.0, "test_images": 30, "seed": 1,
}  # fmt: skip
PARAMETERS = {
    "labels": ["random"], "dense_units": [8, 64], "side": 16, "other_sides": [8], "seeds": 4,
    "downstream_images": 100, "filters": 16,
}  # fmt: skip


run = partial(experiment.compute, **SMALL, **QUIET)


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


claims, outcomes = judging.of(reading, PARAMETERS)[:2]


def test_both_networks_of_a_seed_differ_by_pretraining_alone():
    table = run()
    assert len(table) == 2 * 2 * 3 and table["dead"].between(0, 1).all()
    # Without pre-training the two are one and the same.
    rest = run(upstream_epochs=0).set_index(["labels", "epoch"]).drop(columns="upstream_accuracy")
    one, other = (
        rest[rest["start"] == start].drop(columns="start").round(6) for start in ("scratch", "pretrained")
    )
    pd.testing.assert_frame_equal(one, other)
    assert not table[table["start"] == "scratch"]["accuracy"].equals(
        table[table["start"] == "pretrained"]["accuracy"]
    )


def test_dead_units_are_those_that_no_image_activates():
    net = SimpleCNN((3, 4, 4), [4], 5, 2)
    x = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.dense.weight.zero_()
        net.dense.bias.copy_(torch.tensor([1.0, -1.0, 0.0, 1.0, -1.0]))
        assert experiment.dead_share(net, x, batch_size=3) == pytest.approx(0.6)
        # A unit that one image alone activates, the last one.
        inputs = net.features(x, 1).permute(0, 2, 3, 1).flatten(1)
        net.dense.weight[1] = inputs[-1] - inputs[:-1].mean(0)
        values = inputs @ net.dense.weight[1]
        net.dense.bias[1] = -(values.sort().values[-2:].mean())
    assert experiment.dead_share(net, x, batch_size=3) == pytest.approx(0.4)


def test_claims_come_out_either_way():
    found = outcomes(made_up({8: 0.2, 64: 0.0}, dead=(0.5, 0.2)))
    assert found == {f"{id}-random": HOLDS for id in ("closes", "negative", "abrupt", "permanent")}
    found = outcomes(made_up({8: -0.1, 64: 0.2}, dead=(-0.5, -0.2)))
    assert found == {f"{id}-random": CONTRADICTED for id in ("closes", "negative", "abrupt", "permanent")}
    found = outcomes(made_up({8: 0.2, 64: 0.0}, dead=(0.5, 0.0)))
    assert (found["abrupt-random"], found["permanent-random"]) == (HOLDS, NO_EFFECT)
    assert outcomes(made_up({8: 0.2, 64: 0.0}, seeds=2))["closes-random"] == OPEN


def test_gaps_are_areas_per_seed():
    table = made_up({8: 0.2})
    table.loc[(table["epoch"] == 4) & (table["start"] == "scratch"), "accuracy"] += 0.4
    gap = reading.slowed(table, PARAMETERS, "random")
    # The last three of four epochs rise by 0.4, in a straight line.
    assert gap.to_numpy() == pytest.approx(0.2 + 0.4 * 3 / 8, abs=0.05)
    assert reading.narrow(table, PARAMETERS, "random", side=8).empty
