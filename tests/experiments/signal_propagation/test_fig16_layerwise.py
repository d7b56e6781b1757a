"""Figures 16 and 17: the pair loss, the plateau, the network that is measured, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.signal_propagation import fig16_layerwise as experiment
from alignbook.runs import notebooks, parameters

CPU = torch.device("cpu")
PARAMETERS = {"first": "mnist", "first_widths": [32], "second": "cifar10", "second_widths": [64]}


def quiet(*_):
    pass


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


def test_unit_length():
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert experiment.UnitLength()(z).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


@pytest.mark.parametrize(
    ("losses", "epochs"), [([1.0, 0.5, 0.499, 0.6, 0.1], 4), ([1.0, 0.5, 0.6, 0.2, 0.1], 5)]
)
def test_training_stops_at_a_plateau(losses, epochs):
    given = iter(losses)

    def loss(outputs, wanted):
        if torch.is_grad_enabled():
            return outputs.square().mean()
        return torch.tensor(next(given))  # one held-out batch

    data = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(8, dtype=torch.int64)
    trained, reached = experiment.until_plateau(
        nn.Linear(3, 2), loss, data, data, batch_size=8, rate=0.01, max_epochs=5,
        generator=torch.Generator().manual_seed(0), report=quiet,
    )  # fmt: skip
    assert trained.epochs == epochs and reached == pytest.approx(losses[epochs - 1])


def values(**changes):
    book = notebooks.find("signal_propagation/fig16_layerwise")
    return parameters.resolve(book, "smoke", changes)


def test_a_network_learns_layer_by_layer(monkeypatch):
    monkeypatch.setattr(experiment, "CHUNK", 70)  # several, and a rest
    made = experiment.units(values(max_epochs=6, depth=3, train_images=800))
    assert len({unit.name for unit in made}) == len(made) == 4
    unit = made[0]
    table = experiment.compute_layerwise(**unit.arguments, device=CPU, report=quiet)
    assert list(table["layer"]) == [1, 2, 3] and table["epochs"].between(1, 6).all()
    assert table["alignment"].between(0, 1).all() and table["test_accuracy"][0] > 40
    again = experiment.compute_layerwise(**unit.arguments, device=CPU, report=quiet)
    pd.testing.assert_frame_equal(table, again)
    whole = experiment.compute_end_to_end(**made[-1].arguments, device=CPU, report=quiet)
    assert set(whole) == set(table)


def test_refusals():
    with pytest.raises(AlignbookError, match="depth"):
        values(depth=2)


def made_up(good=True, seeds=3):
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for kind, dataset, width in (
            ("layers", "mnist", 32),
            ("layers", "cifar10", 64),
            ("end to end", "mnist", 9),
            ("end to end", "cifar10", 9),
        ):
            flat = (kind == "layers") == good
            for layer in range(1, 7):
                height = 0.2 if flat and (layer < 5 or seed) else 0.4 if layer == 3 else 0.1
                rows.append(
                    {
                        "kind": kind, "dataset": dataset, "width": width, "target": 0.5, "seed": seed,
                        "layer": layer, "epochs": 3, "loss": 0.01,
                        "alignment": height * (1 + 0.01 * rng.random()),
                        "test_accuracy": 90 - 10 * flat + seed * (1 + flat), "train_accuracy": 99.0,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def outcomes(table):
    return {c.id: c.outcome for c in experiment.claims(table, PARAMETERS)}


@pytest.mark.parametrize(("good", "outcome"), [(True, HOLDS), (False, CONTRADICTED)])
def test_claims_come_out_either_way(good, outcome):
    judged = outcomes(made_up(good))
    assert set(judged.values()) == {outcome}
    assert set(judged) == {
        "several-mnist-32", "several-cifar10-64", "lower-mnist-32", "worse-mnist-32", "worse-cifar10-64",
    }  # fmt: skip


def test_shape_counts_layers():
    rows = experiment.shape(made_up(), "layers", "mnist", 32)
    assert rows["nearly"].tolist() == [4, 6, 6]
    assert experiment.shape(made_up(), "end to end", "mnist")["peak"].tolist() == [3, 3, 3]
    assert experiment.shape(made_up(), "layers", "mnist", 99).empty


def test_what_is_said():
    said = experiment.finding(made_up(), PARAMETERS)
    assert "MNIST, width 32)" in said and "reach at least 0.9" in said and len(said) <= 290
    apart = made_up()
    apart.loc[(apart["width"] == 32) & (apart["seed"] == 0), "test_accuracy"] = 20.0
    assert "MNIST, width 32, seeds 20 to 84)" in experiment.finding(apart, PARAMETERS)
    assert len(experiment.key_numbers(made_up(), PARAMETERS)) == 2
    assert set(outcomes(pd.DataFrame({"unit": []})).values()) == {NOT_RUN}
    assert set(outcomes(made_up(seeds=1)).values()) == {UNDECIDED}
