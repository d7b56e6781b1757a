"""Figures 3 and 10: spectra and circles around minima, on made-up networks and tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.fig03_flat_minima import experiment, reading
from tests import judging

PARAMETERS = {
    "targets": ["cifar10", "cifar10-natural", "mnist"],
    "source": "photos", "pretrain_epochs": 1, "pretrain_images": 64,
    "width": 8, "blocks": 1, "examples": 64, "batch_size": 32, "learning_rate": 0.01, "stop_at_loss": 0.1,
    "max_epochs": 2, "epochs": 1, "decay_epochs": [], "images": 16, "eigenvalues": 3, "radii": [0.1, 0.3],
    "points": 5, "seeds": 3, "settled_seeds": 0, "settled_loss": 0.05, "settle_epochs": 2,
    "source_accuracy": False,
}  # fmt: skip


def made_up(sharper=2.0, reached=True, norm=1.0, learned=80.0, **given):
    """A table in which eigenvalues and rises from random weights are ``sharper`` times the others'."""
    row = {"kind": "source", "source_train_accuracy": 99.0, "source_test_accuracy": learned, "seed": 0}
    tables = [pd.DataFrame([row])]
    for job in experiment.jobs(PARAMETERS | given):
        given = job.arguments
        rng = np.random.default_rng([given["seed"], len(given["dataset"]), len(given["start"])])
        factor = (sharper if given["start"] == "scratch" else 1.0) * (1 + 1e-3 * rng.random())
        if job.compute is experiment.spectrum:
            rows = {
                "index": [1, 2, 3], "eigenvalue": factor * np.array([5.0, -2.0, 1.0]), "residual": 1e-4,
                "images_loss": 0.1 * factor, "train_error": 0.5, "test_error": 40.0,
                "taken": 2, "reached": reached,
                "norm": norm if given["start"] == "scratch" else 1.0,
            }  # fmt: skip
        elif job.compute is experiment.circles:
            rows = {"circle": given["radii"], "rise": factor * np.square(given["radii"]), "reached": reached}
        elif job.compute is experiment.settled:
            rows = {
                "index": [1, 2, None], "eigenvalue": [factor * 5.0, factor, None],
                "around": [None, None, 0.3], "rise": [None, None, 1 / factor], "train_error": 0.0,
                "train_loss": 0.01, "reached": False,
            }  # fmt: skip
        else:
            continue
        scalars = {
            name: value
            for name, value in given.items()
            if isinstance(value, str | int | float) and name not in rows
        }
        tables.append(pd.DataFrame(rows).assign(**scalars))
    return pd.concat(tables, ignore_index=True)


claims, outcomes = judging.of(reading, PARAMETERS)


@pytest.mark.parametrize(("sharper", "outcome"), [(2.0, HOLDS), (0.5, CONTRADICTED), (1.0, NO_EFFECT)])
def test_statements_come_out_either_way(sharper, outcome):
    found = outcomes(made_up(sharper))
    assert set(found) == {"eigenvalues-raw", "eigenvalues-scaled", "rise-0.1", "rise-0.3"}
    assert set(found.values()) == {outcome}


def test_the_length_of_the_weights_is_taken_out():
    found = claims(made_up(sharper=1.0, norm=2.0))
    assert found["eigenvalues-raw"].outcome == NO_EFFECT
    assert found["eigenvalues-scaled"].outcome == HOLDS
    assert found["eigenvalues-scaled"].measured == pytest.approx(2, abs=0.01)


def test_settled_minima_count_where_they_fit_all_images():
    assert {job.arguments["dataset"] for job in experiment.jobs(PARAMETERS | {"settled_seeds": 4})
            if job.compute is experiment.settled} == {"cifar10"}  # fmt: skip
    table = made_up(sharper=0.5, settled_seeds=4)
    table.loc[table["settle_steps"].isna(), "eigenvalue"] = np.nan  # where training stopped: not looked at
    table.loc[(table["seed"] == 3) & (table["start"] == "scratch"), "train_error"] = 0.1
    found = claims(table)
    assert found["eigenvalues-raw"].seeds == 3 and found["eigenvalues-raw"].outcome == CONTRADICTED
    assert found["rise-0.3"].outcome == HOLDS


def test_own_statistics_are_those_of_training_mode():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = net.train()(x)
        running = net.norm.running_mean.clone()
        copy = experiment.own_statistics(net).eval()
        assert torch.allclose(copy(x), wanted, atol=1e-5)
        assert not torch.allclose(net.eval()(x), wanted, atol=1e-2)
    assert torch.equal(net.norm.running_mean, running)


def test_jobs_measure_the_same_minimum(monkeypatch):
    """A plane's centre is a spectrum's loss, and circles rise from it as the plane's points do."""
    monkeypatch.setattr(experiment, "ANGLES", 4)  # which lie on the plane's axes
    given = {
        "dataset": "photos", "part": "all", "start": "scratch", "source": "photos", "pretrain_epochs": 1,
        "pretrain_images": 64, "width": 8, "blocks": 1, "examples": 24, "batch_size": 12,
        "learning_rate": 0.05, "steps": 8, "decay_at": [], "stop_at_loss": 50.0, "images": 10, "seed": 0,
        "device": "cpu", "report": lambda done, text: None,
    }  # fmt: skip
    rows = experiment.spectrum(count=2, mode="eval", **given)
    plane = experiment.plane(radius=0.4, points=3, **given)
    circle = experiment.circles(radii=[0.4], **given).iloc[0]
    assert rows["taken"].iloc[0] == 2 and rows["reached"].all() and circle["reached"]
    centre = plane[(plane["alpha"] == 0) & (plane["beta"] == 0)]["loss"].item()
    assert centre == pytest.approx(rows["images_loss"].iloc[0], rel=1e-4)
    axes = plane[(plane["alpha"] == 0) ^ (plane["beta"] == 0)]["loss"]
    assert len(axes) == 4 and circle["rise"] == pytest.approx(axes.mean() - centre, rel=1e-3)
    assert (rows["residual"] <= experiment.TOLERANCE * rows["eigenvalue"].abs()).all()
    monkeypatch.setattr(experiment, "PRODUCTS", 5)  # the loss alone is looked at
    batch = experiment.spectrum(count=2, mode="train", **given)
    assert batch["images_loss"].iloc[0] != pytest.approx(centre, rel=1e-3)


def test_running_statistics_become_those_of_all_images():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1000, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    experiment.estimate_statistics_(net, x)
    with torch.no_grad():
        found = net(x)
        torch.testing.assert_close(found, experiment.own_statistics(net)(x), rtol=1e-2, atol=1e-2)
    assert not net.training and net.norm.momentum == 0.1
