"""One network under all four instruments: half-times, lags and verdicts on made-up tables; a small run."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.errors import AlignbookError
from alignbook.metrics import misalignment
from alignbook.seeding import torch_stream
from alignbook.training.nets import he_normal_
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.synthesis.one_network import experiment, reading
from tests import judging

PARAMETERS = {"networks": ["convolutional", "dense"], "steps": 512}
STEPS = np.array(experiment.recorded(512))


def rise(half, noise=0.0):
    """A value that goes from 0 to 1 and is half way at ``half`` steps."""
    return 1 / (1 + ((half + 1) / (STEPS + 1)) ** 2) + noise


def run(network, task, seed, halves, leader=2):
    rng = np.random.default_rng([seed, len(task), len(network)])
    filters, features, tangent, curvature = (rise(half * 2 ** rng.normal(0, 0.2)) for half in halves)
    layers = {f"tangent{layer}": tangent * (1.5 if layer == leader else 1) / 4 for layer in range(1, 5)}
    return pd.DataFrame(
        {
            "network": network, "task": task, "seed": seed, "step": STEPS, "loss": 1 - features,
            "misalignment": 2.0, "random_bases": 2 + 5 * filters, "features": features, **layers,
            "curvature": -(10 ** (2 * curvature)),
        }
    )  # fmt: skip


def made_up(halves, seeds=4, tuned=None, leader=2, gained=0.8):
    """halves : of filters, features, tangent and curvature, in steps. gained : above a frozen layer."""
    table = pd.concat(
        run(network, task, seed, (tuned or halves) if task == "fine-tuned" else halves, leader)
        for network in PARAMETERS["networks"]
        for task in [*reading.TASKS, "frozen"]
        for seed in range(seeds)
    ).reset_index(drop=True)
    table.loc[table["task"] == "frozen", "features"] *= gained
    return table


_, outcomes = judging.of(reading, PARAMETERS)


def test_every_statement_can_come_out_either_way():
    holds = outcomes(made_up((200, 40, 20, 10), tuned=(60, 12, 5, 3)))
    assert set(holds.values()) == {HOLDS} and len(holds) == 7
    against = outcomes(made_up((10, 40, 100, 200), tuned=(25, 100, 150, 500), leader=4, gained=0.2))
    assert set(against.values()) == {CONTRADICTED}


def test_half_time_is_half_of_the_path():
    line = pd.Series([0.0, 1.0, 2.0, 4.0], index=[0, 1, 3, 7])  # octaves 0, 1, 2, 3
    assert reading.half_time(line) == pytest.approx(2.0)
    assert reading.half_time(line, part=0.75) == pytest.approx(2.5)
    assert reading.half_time(5 - 3 * line) == pytest.approx(2.0)
    hill = pd.Series([0.0, 3.0, 0.0, 0.0], index=[0, 1, 3, 7])  # up and down again: half at the top
    assert reading.half_time(hill) == pytest.approx(1.0)
    assert np.isnan(reading.half_time(hill, net_change=True))
    late = pd.Series([0.0, 3.0, 0.0, 1.0], index=[0, 1, 3, 7])  # first half way on its way up
    assert reading.half_time(late, net_change=True) == pytest.approx(0.5 / 3)
    for unusable in (line * 0, line + [0, np.nan, 0, 0]):
        assert np.isnan(reading.half_time(unusable))


def test_loss_between_the_half_times():
    """The made-up loss is 1 less the features' value: half is left at their half-time, less later."""
    table = run("dense", "real", 0, (160, 40, 40, 40))
    late = reading.times(table, "dense", "real")["filters"].item()
    lost = np.interp(late, reading.octaves(STEPS), table["features"]) - 0.5
    assert reading.lost_between(table, "dense", "real")[0] == pytest.approx(lost, abs=0.02) and lost > 0.2


def test_bad_parameters():
    with pytest.raises(AlignbookError, match="filters must begin with more than 27, not 16"):
        experiment.jobs(judging.given("synthesis/one_network", filters=[16, 64]))
    experiment.jobs(judging.given("synthesis/one_network", filters=[16, 64], networks=["dense"]))


def test_share_of_labels_on_the_top_singular_vectors():
    rng = torch_stream(0, "features")
    y = torch.arange(60) % 10
    one_hot = torch.nn.functional.one_hot(y, 10).float()
    assert experiment.share_on_top(one_hot, y) == pytest.approx(1.0)
    noise = torch.randn(60, 40, generator=rng)
    features = torch.cat([noise, 1e-3 * one_hot], dim=1)  # the labels are there, but far below
    assert experiment.share_on_top(features, y) < 0.5
    rows = torch.cat([noise, torch.ones(60, 1)], 1).double().numpy()
    left = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), full_matrices=False)[0]
    centred = one_hot.numpy() - 0.1
    expected = np.square(left[:, :10].T @ centred).sum() / np.square(centred).sum()
    assert experiment.share_on_top(noise, y) == pytest.approx(expected)


def test_the_dense_layer_is_seen_along_the_leading_axes():
    x = torch.randn(200, 3, 4, 4, generator=torch_stream(0, "images")) * torch.linspace(0.1, 2, 16).view(4, 4)
    cov, directions = experiment.axes("dense", x)
    flat = x.flatten(1).double().numpy()
    whole = np.cov(flat, rowvar=False)
    assert directions.shape == (48, 27)
    np.testing.assert_allclose(directions.T @ whole @ directions, cov, atol=1e-10)
    assert np.trace(cov) == pytest.approx(np.linalg.eigvalsh(whole)[-27:].sum())
    net = experiment.network_of("dense", x.shape[1:], [64, 32])
    he_normal_(net, 1.0, torch_stream(0, "weights"))
    bases = experiment.random_bases(27, 3, np.random.default_rng(0))
    found = experiment.filter_scores(net, cov, directions, bases)
    weights = net[0].weight.detach().double().numpy() @ directions
    assert found["misalignment"] == pytest.approx(misalignment(cov, np.cov(weights, rowvar=False)))
    # Weights with the data's covariance are aligned with it, and with nothing else.
    net = experiment.network_of("dense", x.shape[1:], [2000])
    aligned = torch.randn(2000, 48, generator=torch_stream(0, "aligned")).double()
    root = np.linalg.cholesky(whole + 1e-9 * np.eye(48)).T
    net[0].weight.data = (aligned @ torch.from_numpy(root)).float()
    found = experiment.filter_scores(net, cov, directions, bases)
    assert found["random_bases"] > 2 * found["misalignment"]
