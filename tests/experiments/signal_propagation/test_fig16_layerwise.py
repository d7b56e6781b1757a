"""Figures 16 and 17: the pair loss, the plateau, the network that is measured, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.fig16_layerwise import experiment, reading
from tests import judging

PARAMETERS = {"first": "mnist", "first_widths": [32], "second": "cifar10", "second_widths": [64]}
PARAMETERS |= {"epochs": 3, "other_epochs": [1]}


def test_pair_loss_pair_by_pair():
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    y = [2, 0, 2, 1, 0]
    for target in (0.5, 1.0):
        total = sum(
            (float(features[i] @ features[j]) - target * (y[i] == y[j])) ** 2
            for i in range(5)
            for j in range(5)
        )
        found = experiment.pair_loss(features, torch.tensor(y), target)
        assert float(found) == pytest.approx(total / 25, rel=1e-5)
    ideal = np.sqrt(0.5) * nn.functional.one_hot(torch.tensor(y), 3).float()
    assert float(experiment.pair_loss(ideal, torch.tensor(y))) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("losses", "patience", "epochs"),
    [
        ([1.0, 0.5, 0.499, 0.6, 0.1], 2, 4),
        ([1.0, 0.5, 0.6, 0.2, 0.1], 2, 5),
        ([1.0, 0.5, 0.499, 0.6, 0.1], 3, 5),
        ([1.0, 1.1, 0.6, 0.2, 0.1], 1, 2),
    ],
)
def test_training_stops_at_a_plateau(losses, patience, epochs):
    given = iter(losses)

    def loss(outputs, wanted):
        if torch.is_grad_enabled():
            return outputs.square().mean()
        return torch.tensor(next(given))  # one held-out batch

    data = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(8, dtype=torch.int64)
    trained, reached = experiment.until_plateau(
        nn.Linear(3, 2), loss, data, data, batch_size=8, rate=0.01, max_epochs=5, patience=patience,
        generator=torch.Generator().manual_seed(0), report=judging.QUIET["report"],
    )  # fmt: skip
    assert trained.epochs == epochs and reached == pytest.approx(losses[epochs - 1])


NETWORKS = [("layers", "mnist", 32, 3), ("layers", "cifar10", 64, 3)]
NETWORKS += [("end to end", dataset, 9, epochs) for dataset in ("mnist", "cifar10") for epochs in (1, 3)]


def made_up(good=True):
    """``NETWORKS``: kind, data set, width and epochs; those trained end to end stop early or late."""

    def alignment(row):
        flat = row.flat and (row.layer < 5 or row.seed)
        height = 0.2 + 0.01 * (row.layer == 3) if flat else 0.4 if row.layer == 3 else 0.1
        return height * (1 + row.noise)

    return pd.concat(
        judging.rows(
            0.005, draw, kind=kind, dataset=dataset, width=width, target=0.5, seed=range(3),
            layer=range(1, 7), epochs=epochs, flat=(kind == "layers") == good, alignment=alignment,
            test_accuracy=lambda row: 90 - 10 * row.flat + row.seed * (1 + row.flat),
        )
        for draw, (kind, dataset, width, epochs) in enumerate(NETWORKS)
    )  # fmt: skip


claims_of, _ = judging.of(reading, PARAMETERS)


@pytest.mark.parametrize(("good", "outcome"), [(True, HOLDS), (False, CONTRADICTED)])
def test_claims_come_out_either_way(good, outcome):
    table = made_up(good)
    assert {*reading.end_to_end(table, "mnist")["epochs"]} == {3}
    judged = claims_of(table)
    counted = [claim for id, claim in judged.items() if id.startswith("several")]
    assert all((claim.measured > 1) == good for claim in counted) and len(counted) == 2
    assert {claim.outcome for claim in judged.values() if claim not in counted} == {outcome}


def test_layers_near_the_largest_are_counted():
    heights = [[0.0, 0.3, 0.0], [0.2, 0.2, 0.2], [0.1, 0.3, 0.26]]
    rows = judging.rows(
        seed=range(3), layer=range(1, 4), alignment=lambda row: heights[row.seed][row.layer - 1]
    )
    assert reading.high(rows).tolist() == [1, 3, 2]
    assert reading.high(rows, 0.9).tolist() == [1, 3, 1]
    assert reading.peaks(rows).tolist() == [2, 1, 2]


def test_the_loss_of_a_layer_that_gives_nothing():
    """With a kernel of 0 for every pair, a layer's loss is a quarter of the share of pairs of one class."""
    y = torch.arange(100) % 10
    zero = float(experiment.pair_loss(torch.zeros(100, 3), y))
    assert reading.zero_loss({"batch_size": 100}) == pytest.approx(zero, rel=0.1)
    assert reading.zero_loss({"batch_size": 10**9}) == pytest.approx(zero)
