"""Figures 3 and 10: spectra and circles around minima, on made-up networks and tables."""

import pandas as pd
import pytest
import torch

from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.fig03_flat_minima import experiment, reading
from tests import judging

PARAMETERS = {"targets": ["cifar10"], "radii": [0.1, 0.3]}
KINDS = ("spectrum", "plane", "circles", "batch")  # of jobs


def made_up(sharper=2.0, norm=1.0, seeds=3):
    """Minima, where eigenvalues and rises from random weights are ``sharper`` times the others'."""
    size, length = {"scratch": sharper, "pretrained": 1.0}, {"scratch": norm, "pretrained": 1.0}
    own = {"dataset": "cifar10", "part": "all", "seed": range(seeds), "start": [*size], "reached": True}
    spectra = judging.rows(
        1e-3,
        **own,
        mode="eval",
        stop_at_loss=0.1,
        index=[1, 2, 3],
        eigenvalue=lambda row: size[row.start] * (-2) ** row.index * (1 + row.noise),
        norm=lambda row: length[row.start],
    )
    circles = judging.rows(
        1e-3,
        **own,
        circle=[0.1, 0.3],
        rise=lambda row: size[row.start] * row.circle**2 * (1 + row.noise),
    )
    return pd.concat([spectra, circles], ignore_index=True)


claims_of, outcomes = judging.of(reading, PARAMETERS)


@pytest.mark.parametrize(("sharper", "outcome"), [(2.0, HOLDS), (0.5, CONTRADICTED), (1.0, NO_EFFECT)])
def test_statements_come_out_either_way(sharper, outcome):
    found = outcomes(made_up(sharper))
    assert set(found) == {"eigenvalues-raw", "eigenvalues-scaled", "rise-0.1", "rise-0.3"}
    assert set(found.values()) == {outcome}


def test_the_length_of_the_weights_is_taken_out():
    found = claims_of(made_up(sharper=1.0, norm=2.0))
    assert found["eigenvalues-raw"].outcome == NO_EFFECT
    assert found["eigenvalues-scaled"].outcome == HOLDS
    assert found["eigenvalues-scaled"].measured == pytest.approx(2, abs=0.01)


def test_settled_minima_count_where_they_fit_all_images():
    table = made_up(sharper=0.5, seeds=4)
    spectra = table[table["index"].notna()].assign(settle_steps=9, train_loss=0.01, train_error=0.0)
    spectra.loc[(spectra["seed"] == 3) & (spectra["start"] == "scratch"), "train_error"] = 0.1
    around = spectra[spectra["index"] == 1].assign(index=None, around=0.3, rise=lambda t: 1 / t["eigenvalue"])
    claims = claims_of(pd.concat([made_up(sharper=1.0), spectra, around], ignore_index=True))
    assert claims["eigenvalues-raw"].seeds == 3 and claims["eigenvalues-raw"].outcome == CONTRADICTED
    assert claims["rise-0.3"].outcome == HOLDS


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
    asked = {"examples": 24, "batch_size": 12, "learning_rate": 0.05, "stop_at_loss": 50.0, "radii": [0.4]}
    made = experiment.jobs(judging.given("transferability/fig03_flat_minima", **asked))
    jobs = {kind: next(job for job in made if f"{kind}-scratch" in job.name) for kind in KINDS}
    rows, plane, circles = (judging.compute(jobs[kind]) for kind in KINDS[:3])
    circle = circles.iloc[0]
    assert rows["taken"].iloc[0] == 2 and rows["reached"].all() and circle["reached"]
    centre = plane[(plane["alpha"] == 0) & (plane["beta"] == 0)]["loss"].item()
    assert centre == pytest.approx(rows["images_loss"].iloc[0], rel=1e-4)
    axes = plane[(plane["alpha"] == 0) ^ (plane["beta"] == 0)]["loss"]
    assert len(axes) == 4 and circle["rise"] == pytest.approx(axes.mean() - centre, rel=1e-3)
    assert (rows["residual"] <= experiment.TOLERANCE * rows["eigenvalue"].abs()).all()
    monkeypatch.setattr(experiment, "PRODUCTS", 5)  # the loss alone is looked at
    batch = judging.compute(jobs["batch"])
    assert batch["images_loss"].iloc[0] != pytest.approx(centre, rel=1e-3)


def test_running_statistics_become_those_of_all_images():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1000, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    experiment.estimate_statistics_(net, x)
    with torch.no_grad():
        found = net(x)
        torch.testing.assert_close(found, experiment.own_statistics(net)(x), rtol=1e-2, atol=1e-2)
    assert not net.training and net.norm.momentum == 0.1
