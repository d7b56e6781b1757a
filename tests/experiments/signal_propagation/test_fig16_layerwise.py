"""Figures 16 and 17: the pair loss, the plateau, the network that is measured, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from companion.claims import CONTRADICTED, HOLDS
from companion.runs import notebooks, parameters
from companion.studies.signal_propagation.fig16_layerwise import design, experiment, reading
from tests import judging
from tests.judging import QUIET

PARAMETERS = dict(
    first="mnist", first_widths=[32], second="cifar10", second_widths=[64], epochs=3, other_epochs=[1],
    batch_size=128,
)  # fmt: skip


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
        generator=torch.Generator().manual_seed(0), report=QUIET["report"],
    )  # fmt: skip
    assert trained.epochs == epochs and reached == pytest.approx(losses[epochs - 1])


def values(**changes):
    book = notebooks.find("signal_propagation/fig16_layerwise")
    return parameters.resolve(book, "smoke", changes)


NETWORKS = [("layers", "mnist", 32), ("layers", "cifar10", 64)]
NETWORKS += [("end to end", "mnist", 9), ("end to end", "cifar10", 9)]


def made_up(good=True, seeds=3):
    def alignment(row):
        flat = row.flat and (row.layer < 5 or row.seed)
        height = 0.2 + 0.01 * (row.layer == 3) if flat else 0.4 if row.layer == 3 else 0.1
        return height * (1 + row.noise)

    return pd.concat(
        judging.rows(
            0.005, draw, kind=kind, dataset=dataset, width=width, target=0.5, seed=range(seeds),
            layer=range(1, 7), epochs=3, loss=0.01, flat=(kind == "layers") == good, alignment=alignment,
            test_accuracy=lambda row: 90 - 10 * row.flat + row.seed * (1 + row.flat), train_accuracy=99.0,
        )
        for draw, (kind, dataset, width) in enumerate(NETWORKS)
    )  # fmt: skip


claims_of, outcomes = judging.of(reading, PARAMETERS)


def two_stops(table):
    """The same with networks trained end to end that stopped earlier, at the same alignments."""
    early = table[table["kind"] == "end to end"].assign(epochs=1)
    early["alignment"] *= 1.01
    return pd.concat([table, early])


@pytest.mark.parametrize(("good", "outcome"), [(True, HOLDS), (False, CONTRADICTED)])
def test_claims_come_out_either_way(good, outcome):
    judged = claims_of(two_stops(made_up(good)))
    counted = [claim for id, claim in judged.items() if id.startswith("several")]
    assert all((claim.measured > 1) == good for claim in counted) and len(counted) == 2
    assert {claim.outcome for claim in judged.values() if claim not in counted} == {outcome}


def test_layers_near_the_largest_are_counted():
    rows = {"kind": "layers", "dataset": "mnist", "width": 32, "target": 0.5}
    of = {0: [0.0, 0.3, 0.0], 1: [0.2, 0.2, 0.2], 2: [0.1, 0.3, 0.26]}
    table = pd.DataFrame(
        [
            rows | {"seed": s, "layer": n, "alignment": a}
            for s, values in of.items()
            for n, a in enumerate(values, 1)
        ]
    )
    chosen = design.chosen(table, "layers", "mnist", 32)
    assert reading.high(chosen).tolist() == [1, 3, 2]
    assert reading.high(chosen, 0.9).tolist() == [1, 3, 1]
    assert reading.peaks(chosen).tolist() == [2, 1, 2]
    assert reading.alignments(design.chosen(table, "layers", "mnist", 99)).empty


def test_the_loss_of_a_layer_that_gives_nothing():
    """With a kernel of 0 for every pair, a layer's loss is a quarter of the share of pairs of one class."""
    y = torch.arange(100) % 10
    zero = float(experiment.pair_loss(torch.zeros(100, 3), y))
    assert reading.zero_loss({"batch_size": 100}) == pytest.approx(zero, rel=0.1)
    assert reading.zero_loss({"batch_size": 10**9}) == pytest.approx(zero)
