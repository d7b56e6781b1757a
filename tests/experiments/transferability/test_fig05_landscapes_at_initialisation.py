"""Figures 5, 12 and 13: landscapes before training, on made-up planes and tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.metrics import landscape
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NOT_RUN, OPEN
from companion.studies.transferability.fig05_landscapes_at_initialisation import experiment, reading
from companion.studies.transferability.shared import imagenet_source
from tests import judging

PARAMETERS = {"radius": 0.1}
OF_IMAGENET = {"smoother-imagenet", "rough-imagenet", "grows-more"}  # the last about both networks


def bowl(alpha, beta, bend):
    """A loss whose second differences over h² are ``bend``."""
    return 2 + bend / 2 * (alpha**2 + beta**2)


def made_up(rougher=2.0, random_growth=0.5, own_growth=0.0, slower=2.0, bends=1000.0):
    """Planes that bend ``rougher`` times as much at random weights, and grow by layers towards the input."""
    growth = {"scratch": random_growth, "pretrained": own_growth}
    axes = {"start": [*growth], "seed": range(3)}
    rough = {"scratch": rougher, "pretrained": 1.0}
    every = judging.rows(
        **axes,
        position=range(5),
        alpha=[-0.1, 0.0, 0.1],
        beta=[-0.1, 0.0, 0.1],
        doublings=lambda row: (growth[row.start] * (1 + row.seed / 50) + row.seed / 100) * (4 - row.position),
        bend=lambda row: bends * rough[row.start] ** (1 + row.seed / 50) * 2**row.doublings,
        loss=lambda row: bowl(row.alpha, row.beta, row.bend),
        layer="conv",
        layers="all",
        mode="train",
        head="fresh",
        radius=0.1,
    )
    middle = every[every["position"] == 2].assign(layers="middle")
    losses = judging.rows(
        0.05,
        **axes,
        step=[0, 5, 9],
        train_loss=lambda row: (slower if row.start == "scratch" else 1) * (1 + row.noise) / (1 + row.step),
    )
    return pd.concat([every, middle, middle.assign(mode="eval"), losses], ignore_index=True)


_, outcomes = judging.of(reading, PARAMETERS)


@pytest.mark.parametrize("points", [3, 5, 11, 21, 41])
def test_curvature_of_a_bowl_whatever_the_number_of_points(points):
    side = np.linspace(-0.3, 0.3, points)
    assert reading.curvature(bowl(side[:, None], side, 1.7), 0.3) == pytest.approx(1.7)


def test_curvature_sees_no_slope_and_counts_ridges_of_either_sign():
    x = np.linspace(-1, 1, 11)
    assert reading.curvature(x[:, None] + 3 * x, 1.0) == pytest.approx(0, abs=1e-12)
    ridges = np.where(np.arange(11) % 2, 1.0, -1.0)[:, None] * np.ones(11)
    # |±1 ∓ 2 ± 1| = 4 along one axis, 0 along the other; h = 0.2
    assert reading.curvature(ridges, 1.0) == pytest.approx(2 / 0.2**2)


def test_statements_can_hold_and_fail():
    held = outcomes(made_up())
    assert {id for id, outcome in held.items() if outcome == NOT_RUN} == OF_IMAGENET
    assert {held[id] for id in held.keys() - OF_IMAGENET} == {HOLDS}
    failed = outcomes(made_up(rougher=0.1, random_growth=-0.5, own_growth=0.8, slower=0.5, bends=0.3))
    assert {failed[id] for id in failed.keys() - OF_IMAGENET} == {CONTRADICTED}
    assert outcomes(made_up(own_growth=0.5))["even"] == OPEN  # the margin itself


def test_a_flat_map_can_be_the_less_smooth_one():
    """A bowl of radius r and bend b varies by b r²: 0.003 nats."""
    found = outcomes(made_up(bends=0.3))
    assert (found["smoother-paper"], found["rough-paper"]) == (HOLDS, CONTRADICTED)
    span = reading.span(made_up(bends=0.3), PARAMETERS, "paper", "pretrained")
    assert span.mean() == pytest.approx(0.003, rel=0.1)


@pytest.mark.parametrize(("rougher", "growth", "outcome"), [(2.0, 0.5, HOLDS), (0.1, -0.5, CONTRADICTED)])
def test_the_second_source_has_cases_of_its_own(rougher, growth, outcome):
    second = made_up(rougher, growth).assign(weights="imagenet")[lambda rows: rows["mode"] == "train"]
    second["layers"] = second["layers"].replace({"all": "some"})
    second.loc[second["layers"] == "middle", "head"] = "scaled"
    found = outcomes(pd.concat([made_up().assign(weights=None), second], ignore_index=True))
    assert found["smoother-imagenet"] == found["grows-more"] == outcome
    assert {found[id] for id in found.keys() - OF_IMAGENET} == {HOLDS}
    in_its_place = outcomes(second.replace({"weights": {"imagenet": "random"}}))
    assert {in_its_place[id] for id in OF_IMAGENET} == {NOT_RUN}


def test_how_many_times_as_fast_is_counted_to_the_loss_where_random_weights_end():
    losses = {"scratch": {1: 3, 10: 2.5, 20: 2}, "pretrained": {1: 3, 10: 1, 20: 0.5}}
    table = judging.rows(
        seed=0, start=[*losses], step=[1, 10, 20], train_loss=lambda row: losses[row.start][row.step]
    )
    # From 3 at step 1 to 1 at step 10: 2 is reached at 5.5.
    assert reading.times_as_fast(table, {}).tolist() == [pytest.approx(20 / 5.5)]


def test_the_network_from_a_layer_on_has_the_landscape_of_the_whole():
    pytest.importorskip("efficientnet_lite_pytorch")
    net = imagenet_source.initial("imagenet", "pretrained", "photos", "all", 10, 0)
    names = imagenet_source.first_convolutions(net)
    assert len(names) == 15 and names[7] == "body._blocks.8._expand_conv"
    x = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1
    before = {name: value.clone() for name, value in net.named_buffers()}
    losses = []
    for module, inputs, layer in (imagenet_source.from_layer(net, names[7], x), (net, x, names[7])):
        generator = torch.Generator().manual_seed(1)
        given = {"generator": generator, "points": 3, "layer": layer, "mode": "train"}
        found = landscape(module, nn.functional.cross_entropy, inputs, torch.tensor([1, 2, 3]), **given)
        losses.append(found.loss)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert np.ptp(losses[0]) > 1e-3
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())


def test_a_scaled_head_gives_logits_of_standard_deviation_one():
    generator = torch.Generator().manual_seed(0)
    net = ResNet(5, width=8, generator=generator)
    x = torch.randn(11, 3, 32, 32, generator=generator)
    before = {name: value.clone() for name, value in net.named_buffers()}
    experiment.scale_head_(net, x, "train")
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())
    with torch.no_grad():
        logits = net.train()(x)
    assert (logits - logits.mean(1, keepdim=True)).std().item() == pytest.approx(1, rel=1e-5)
