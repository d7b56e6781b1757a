"""Inputs whose correlation is moved, networks that are followed, and claims that can come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.sec33_moved_correlation import experiment, reading
from companion.studies.signal_propagation.shared import equilibrium_layer, followed
from tests import judging

GIVEN = judging.given("signal_propagation/sec33_moved_correlation", "quick", depths=[10])


def made_up(peaks):
    """Networks of ten layers whose alignment peaks at these layers, by cosine, and the exact losses."""
    rows, rng = [], np.random.default_rng(0)
    for cosine, peak in zip(GIVEN["cosines"], peaks, strict=True):
        for seed in range(6):
            forward, backward = equilibrium_layer.mean_losses([cosine + 0.01 * rng.random()], 10)
            layers = np.arange(1, 11)
            table = {"layer": layers, "forward": forward, "backward": backward, "epoch": 2}
            table |= {"forward_now": forward, "backward_now": backward, "train_loss": 0.1}
            table |= {"alignment": np.exp(-np.square(layers - peak)), "test_accuracy": 0.9}
            rows.append(pd.DataFrame(table).assign(cosine=cosine, seed=seed, dataset="mnist", depth=10))
    return pd.concat(rows)


_, outcomes = judging.of(reading, GIVEN)


def test_statements_hold_and_fail():
    losses = [equilibrium_layer.mean_losses([cosine], 10) for cosine in GIVEN["cosines"]]
    found = outcomes(made_up([round(equilibrium_layer.layer_of(*both)) for both in losses]))
    assert found["follows-mnist-10"] == found["measured"] == found["at-lowest"] == HOLDS
    away = outcomes(made_up([2, 3, 4, 6]))
    assert away["follows-mnist-10"] == away["centre"] == CONTRADICTED


def test_cosines_are_moved_and_lengths_are_not():
    x = torch.rand(8, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    none, much = (experiment.with_cosine(x, x.mean(0), cosine) for cosine in (0.0, 0.7))
    np.testing.assert_allclose(much.norm(dim=1), np.sqrt(30))
    before, after = (equilibrium_layer.cosines_of(rows) for rows in (none, much))
    np.testing.assert_allclose(after, 0.7 + 0.3 * before)


def test_the_exact_layer_is_where_the_losses_are_equal():
    layer = equilibrium_layer.layer_of([0.5, 0.4, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4])
    assert layer == pytest.approx(3)
    assert equilibrium_layer.layer_of([0.1, 0.05], [0.5, 1]) == 1
    assert equilibrium_layer.layer_of([0.9, 0.8], [0.1, 0.2]) == 2
    assert equilibrium_layer.layer_of([0.5, 0.4, 0.3], [0.1, 0.2, 0.3], kappa=0.5) == 3
    forward, backward = equilibrium_layer.mean_losses([0.0, 0.5], 5)
    one, two = (equilibrium_layer.mean_losses([c], 5) for c in (0.0, 0.5))
    np.testing.assert_allclose(forward, (one[0] + two[0]) / 2)
    np.testing.assert_allclose(backward, (one[1] + two[1]) / 2)


def test_a_wide_random_network_has_the_exact_losses():
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    net = MLP(20, 1000, 4, 300, torch_stream(0, "wide"))
    exact = equilibrium_layer.mean_losses(equilibrium_layer.cosines_of(x), 4)
    for ours, theirs in zip(followed.measured_losses(net.weights, x), exact, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.03)


def test_a_network_is_followed():
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 12, generator=draw), torch.arange(60) % 10
    given = {"width": 8, "depth": 3, "batch_size": 16, "momentum": 0.9, "weight_decay": 0.0}
    table = followed.followed(
        (x, y), (x, y), **given, learning_rate=0.01, epochs=[0, 2], alignment_images=20, report=None,
        streams=[torch_stream(0, name) for name in ("weights", "order", "images")],
    )  # fmt: skip
    assert list(table["epoch"]) == [0] * 3 + [2] * 3 and list(table["layer"]) == [1, 2, 3] * 2
    net = MLP(12, 8, 3, 10, torch_stream(0, "weights"))
    chosen = torch.randperm(60, generator=torch_stream(0, "images"))[:20]
    np.testing.assert_allclose(
        table["alignment"][:3], tangent_alignment(net.sequential(), x[chosen], y[chosen]), rtol=1e-5
    )
    assert table["train_loss"].iloc[-1] < table["train_loss"].iloc[0]
